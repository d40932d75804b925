"""A real API server for component tests: one control plane for all of a session's tests, a namespace each.

`control_plane` is the path of a kubeconfig. When AI_MODULES_KUBECONFIG names one, that cluster is used and
left alone; otherwise a control plane of this session's own is started on free ports and ends with it, also
when the session is killed. `namespace` is the name of a fresh namespace, deleted after the test.
"""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import tempfile
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Namespace, ServiceAccount

from devcluster import cluster
from devcluster.machine import port_is_free
from devcluster.progress import Progress
from devcluster.settings import PORTS, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Below the range from which the kernel takes ports for outgoing connections.
FIRST_PORT, LAST_PORT = 20000, 32000
ACCOUNT_TIMEOUT = 30
FOLDERS = Path(tempfile.gettempdir()) / f"ai-modules-control-planes-{os.getuid()}"


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Path]:
    """Return the kubeconfig of a running API server with etcd and controllers, without nodes."""
    given = os.environ.get("AI_MODULES_KUBECONFIG")
    if given:
        yield Path(given)
        return
    with own_control_plane() as kubeconfig:
        yield kubeconfig


@pytest.fixture
def namespace(control_plane: Path) -> Iterator[str]:
    """Return the name of a fresh namespace, with its default ServiceAccount."""
    with fresh_namespace(control_plane) as name:
        yield name


@contextmanager
def fresh_namespace(kubeconfig: Path, name: str = "") -> Iterator[str]:
    """Make a namespace for a test that needs more than one, or one of a certain name."""
    name = name or f"test-{uuid.uuid4().hex[:10]}"
    with Client(config=KubeConfig.from_file(kubeconfig)) as client:
        client.create(Namespace(metadata=ObjectMeta(name=name)))
        try:
            _wait_for_account(client, name)
            yield name
        finally:
            client.delete(Namespace, name)


def _wait_for_account(client: Client, namespace: str) -> None:
    """Pods are refused until the controller manager has made the namespace's ServiceAccount."""
    deadline = time.monotonic() + ACCOUNT_TIMEOUT
    while True:
        try:
            client.get(ServiceAccount, "default", namespace=namespace)
        except ApiError as error:
            if error.status.code != 404 or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(0.02)


@contextmanager
def own_control_plane(fake_nodes: int = 0) -> Iterator[Path]:
    """Start one, with nodes without a kubelet if wanted, and return its kubeconfig."""
    _remove_abandoned()
    folder = FOLDERS / f"{os.getpid()}-{uuid.uuid4().hex[:6]}"
    with free_ports() as port_base:
        settings = Settings(folder, control_plane_only=True, port_base=port_base, fake_nodes=fake_nodes)
        try:
            cluster.up(settings, Progress(), bound_to_parent=True)
            yield settings.kubeconfig
        finally:
            cluster.down(folder, Progress())


def _remove_abandoned() -> None:
    """Remove the folders of sessions that were killed; their processes ended with them."""
    FOLDERS.mkdir(mode=0o700, exist_ok=True)
    for folder in FOLDERS.iterdir():
        pid = folder.name.partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def free_ports() -> Iterator[int]:
    """Reserve a block of ports against other sessions that look for one at the same time."""
    FOLDERS.mkdir(mode=0o700, exist_ok=True)
    blocks = list(range(FIRST_PORT, LAST_PORT, PORTS))
    random.shuffle(blocks)
    for base in blocks:
        with (FOLDERS / f"ports-{base}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if all(port_is_free(port) for port in range(base, base + PORTS)):
                try:
                    yield base
                finally:
                    Path(lock.name).unlink()
                return
    raise RuntimeError(f"no {PORTS} free ports in a row between {FIRST_PORT} and {LAST_PORT}")
