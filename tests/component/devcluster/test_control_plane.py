from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lightkube import Client, KubeConfig
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace, Pod

from devcluster import cache
from tests.kit.controlplane import free_ports, fresh_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.cluster

NOBODY = "65534"
COMPONENTS = 4
#: The right to read what is root's, since the interpreter and the cache may lie in root's home, and no other.
READ_ONLY = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the ordinary user, where that user can reach it."""
    with _folder() as made:
        yield made


@pytest.fixture(scope="module")
def own() -> Iterator[Own]:
    """A control plane of the ordinary user's, which every test brings up first: mostly it runs already."""
    with _folder() as folder, free_ports() as port_base:
        made = Own(folder, port_base)
        yield made
        stopped = made.devcluster("down")
        assert stopped.returncode == 0, stopped.stderr
        assert not (folder / "c").exists()
        assert not made.processes()


def test_a_pod_is_accepted_in_the_namespace(control_plane: Path, namespace: str) -> None:
    spec = PodSpec(containers=[Container(name="one", image="one")])
    with Client(config=KubeConfig.from_file(control_plane), namespace=namespace) as client:
        created = client.create(Pod(metadata=ObjectMeta(name="one"), spec=spec))
    assert created.spec is not None
    assert created.spec.serviceAccountName == "default"


def test_the_namespace_is_deleted_after_use(control_plane: Path) -> None:
    with Client(config=KubeConfig.from_file(control_plane)) as client:
        with fresh_namespace(control_plane) as name:
            assert name in _active(client)
        assert name not in _active(client)


def test_two_commands_at_a_time_wait_for_each_other(own: Own) -> None:
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda _: own.up(), range(2)))
    assert [one.returncode for one in both] == [0, 0], "".join(one.stderr for one in both)
    assert len(own.processes()) == COMPONENTS


def test_an_ordinary_user_has_a_control_plane(own: Own) -> None:
    started = own.up()
    assert started.returncode == 0, started.stderr
    assert "cluster ready" in started.stderr
    status = own.devcluster("status").stdout
    assert status.count("running") == COMPONENTS
    without_images = own.devcluster("load", "image.tar")
    assert without_images.returncode == 1
    assert "this cluster has no node" in without_images.stderr


def test_what_is_missing_is_listed_and_nothing_is_built(folder: Path) -> None:
    environment = {"NO_INSTALL": "1", "AI_MODULES_CACHE": str(folder / "cache")}
    refused = _devcluster(folder, "up", "--control-plane-only", **environment)
    assert refused.returncode == 1
    assert "etcd kube-apiserver kubectl kube-controller-manager kube-scheduler" in refused.stderr
    assert "NO_INSTALL=1: nothing was installed" in refused.stderr
    assert not list((folder / "cache").rglob("etcd*"))
    assert not (folder / "c").exists()


def test_what_an_interrupted_start_has_not_written_down_is_not_in_the_way(own: Own) -> None:
    assert own.up().returncode == 0
    (own.cluster / "pids" / "etcd.json").unlink()
    (own.cluster / "pids" / "kube-apiserver.json").unlink()
    started = own.up()
    assert started.returncode == 0, started.stderr
    assert len(own.processes()) == COMPONENTS


def test_a_control_plane_goes_on_where_it_was_killed(own: Own) -> None:
    assert own.up().returncode == 0
    kubeconfig = Path(own.devcluster("kubeconfig").stdout.strip())
    with Client(config=KubeConfig.from_file(kubeconfig)) as client:
        client.create(Namespace(metadata=ObjectMeta(name="kept")))
    for pid in own.processes():
        os.kill(pid, 9)
    started = own.up()
    assert started.returncode == 0, started.stderr
    with Client(config=KubeConfig.from_file(kubeconfig)) as client:
        assert "kept" in _active(client)


def test_processes_without_a_folder_are_found_and_ended(own: Own) -> None:
    assert own.up().returncode == 0
    before = own.processes()
    (own.cluster / "settings.json").unlink()
    for file in (own.cluster / "pids").iterdir():
        file.unlink()
    started = own.up()
    assert started.returncode == 0, started.stderr
    assert "Left over from an earlier cluster, removed: " in started.stderr
    assert not before & own.processes()


class Own:
    """A control plane that an ordinary user has in a folder, by the command line."""

    def __init__(self, folder: Path, port_base: int) -> None:
        self.cluster = folder / "c"
        self._folder = folder
        self._port_base = port_base

    def up(self) -> subprocess.CompletedProcess[str]:
        """Start what does not run."""
        return self.devcluster("up", "--control-plane-only", f"--port-base={self._port_base}")

    def devcluster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return _devcluster(self._folder, *arguments)

    def processes(self) -> set[int]:
        """Return the processes that have a file below the folder in their command line."""
        inside = f"{self._folder}/".encode()
        found = set()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if inside in (process / "cmdline").read_bytes():
                    found.add(int(process.name))
            except OSError:
                continue
        return found


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="devcluster-") as name:
        if os.geteuid() == 0:
            os.chown(name, int(NOBODY), int(NOBODY))
        yield Path(name)


def _active(client: Client) -> set[str]:
    found = set()
    for namespace in client.list(Namespace):
        assert namespace.metadata is not None
        assert namespace.metadata.name is not None
        if not namespace.metadata.deletionTimestamp:
            found.add(namespace.metadata.name)
    return found


def _as_nobody() -> Sequence[str]:
    if os.geteuid() != 0:
        return ()
    return ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *READ_ONLY)


def _devcluster(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*_as_nobody(), sys.executable, "-m", "devcluster", "--dir", str(folder / "c"), *arguments]
    environment = {**os.environ, "HOME": str(folder), "AI_MODULES_CACHE": str(cache.root()), **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
