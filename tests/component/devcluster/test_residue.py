"""A whole cluster on this machine: `down` gives the machine back as it was, whatever happened before."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster import cluster, host, mounts, record, strays
from devcluster.errors import ClusterError
from devcluster.processes import end_at_once
from devcluster.progress import Progress
from devcluster.settings import Settings
from tests.kit.controlplane import free_ports
from tests.kit.machinestate import differences, state

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="a node needs root"),
    pytest.mark.skipif(record.FILE.exists(), reason="a cluster with a node runs on this machine already"),
]

FOLDER = Path("/var/lib/devcluster-test")
#: Values that are neither the kernel's nor the cluster's.
OTHER_VALUES = {"kernel/panic": "3", "kernel/keys/root_maxkeys": "900000", "net/ipv4/ip_forward": "0"}
POD = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: docker.io/local/busybox:1
    command: [sh, -c, "echo hello > /data/index.html && exec httpd -f -p 8080 -h /data"]
    ports: [{containerPort: 8080, hostPort: 18080}]
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


@pytest.fixture
def other_values() -> Iterator[None]:
    """Set kernel settings to other values than usual, and set the usual ones back."""
    root = Path("/proc/sys")
    usual = {name: (root / name).read_text() for name in OTHER_VALUES}
    for name, value in OTHER_VALUES.items():
        (root / name).write_text(value)
    yield
    for name, value in usual.items():
        (root / name).write_text(value)


@pytest.fixture
def settings(other_values: None) -> Iterator[Settings]:
    """The settings of a cluster of the test's own, which is gone afterwards however the test ends."""
    _run_once_for_lasting_effects()
    with free_ports() as port_base:
        made = Settings(FOLDER, port_base=port_base)
        yield made
        cluster.down(FOLDER, Progress())
        shutil.rmtree(FOLDER, ignore_errors=True)


def test_the_machine_is_as_before_after_pods_volumes_and_host_ports(settings: Settings) -> None:
    before = state()
    output = io.StringIO()
    cluster.up(settings, Progress(output))
    assert "kernel.panic = 10, was 3" in output.getvalue()
    _kubectl(settings, "apply", "-f", "-", stdin=POD)
    _kubectl(settings, "wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    with pytest.raises(ClusterError, match="there is room for one"):
        cluster.up(_another(settings), Progress())
    assert differences(before, state()), "the comparison sees nothing at all"
    cluster.down(FOLDER, Progress())
    assert differences(before, state()) == []
    assert not FOLDER.exists()


def test_a_cluster_that_was_killed_goes_on_and_is_taken_down(settings: Settings) -> None:
    before = state()
    cluster.up(settings, Progress())
    end_at_once(pid for pid, name in strays.find(FOLDER).items() if not name.startswith("containerd-shim"))
    cluster.up(settings, Progress())
    _kubectl(settings, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=60s")
    end_at_once(strays.find(FOLDER))
    cluster.down(FOLDER, Progress())
    assert differences(before, state()) == []


def test_leftovers_of_a_cluster_whose_folder_is_lost_are_removed_and_remains_of_a_dead_one_too(
    settings: Settings,
) -> None:
    before = state()
    cluster.up(settings, Progress())
    (FOLDER / "settings.json").unlink()
    shutil.rmtree(FOLDER / "pids")
    output = io.StringIO()
    cluster.up(settings, Progress(output))
    found = next(line for line in output.getvalue().splitlines() if line.startswith("Left over"))
    for word in (
        "kubelet",
        "containerd-shim",
        "bridge devnode0",
        "nft table ip kube-proxy",
        f"mount {FOLDER}",
    ):
        assert word in found
    end_at_once(strays.find(FOLDER))
    output = io.StringIO()
    host.check_owner(_another(settings), Progress(output))
    assert "Left over" in output.getvalue()
    assert not mounts.below(FOLDER)
    shutil.rmtree(FOLDER)
    assert differences(before, state()) == []


def _another(settings: Settings) -> Settings:
    return Settings(FOLDER.with_name("devcluster-test-2"), port_base=settings.port_base)


def _kubectl(settings: Settings, *arguments: str, stdin: str | None = None) -> None:
    command = [str(settings.binaries / "kubectl"), "--kubeconfig", str(settings.kubeconfig), *arguments]
    subprocess.run(command, input=stdin, text=True, check=True, timeout=90)


def _run_once_for_lasting_effects() -> None:
    """What a tool makes at its first use on a machine is no residue of a cluster."""
    Path("/run/mount").mkdir(exist_ok=True)
