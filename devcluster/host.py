"""What a node changes on the machine, and how it is taken back."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import cgroups, mounts, network, processes, record, strays, sysctls
from devcluster.errors import ClusterError
from devcluster.record import Record

if TYPE_CHECKING:
    from devcluster.progress import Progress
    from devcluster.settings import Settings

#: What containerd and the kubelet make outside the cluster's folder, whatever they are told.
MADE_ELSEWHERE = ("/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers")


def prepare(settings: Settings, progress: Progress) -> None:
    """Give the node its address, its kernel settings, its shared mount and its control group."""
    present = sysctls.read()
    if record.read() is None:
        _announce(settings, present, progress)
        absent = [path for path in MADE_ELSEWHERE if not Path(path).exists()]
        record.write(Record(str(settings.directory), present, absent))
    network.prepare(settings)
    sysctls.apply(present)
    mounts.share(settings.kubelet_dir)
    cgroups.create(settings.cgroup)


def _announce(settings: Settings, present: dict[str, str], progress: Progress) -> None:
    """Say what is going to be changed."""
    progress.note("On this machine, until `devcluster down`:")
    progress.note(f"  bridges {settings.node_bridge} ({settings.node_ip}), {settings.pod_bridge}; nft tables")
    progress.note(f"  control group /{settings.cgroup}, mounts below {settings.directory}")
    for name, (old, new) in sysctls.changes(present).items():
        progress.note(f"  {name} = {new}, was {old}")


def check_owner(settings: Settings, progress: Progress) -> None:
    """Make sure that no other node runs here; remove what an earlier cluster has left."""
    found = record.read()
    if found is None:
        if network.has_foreign_proxy():
            raise ClusterError(
                "some kube-proxy's rules are in the packet filter, so this seems to be a Kubernetes node; "
                "use another machine, or remove them if they are left over: nft delete table ip kube-proxy"
            )
        return
    if found.directory == str(settings.directory):
        return
    if strays.find(Path(found.directory)):
        raise ClusterError(
            f"a cluster with a node runs on this machine in {found.directory}, and there is room for one; "
            f"run `devcluster --dir {found.directory} down` first"
        )
    remove_leftovers(replace(settings, directory=Path(found.directory)), progress)


def remove_leftovers(settings: Settings, progress: Progress) -> None:
    """Remove what a cluster in this folder has left behind when it was not taken down."""
    found = [f"{name} ({pid})" for pid, name in sorted(strays.find(settings.directory).items())]
    found += [f"mount {point}" for point in mounts.below(settings.directory)]
    if _owned(settings):
        found += network.present(settings)
    end_strays(settings)
    clean_node(settings)
    if found:
        progress.note(f"Left over from an earlier cluster, removed: {', '.join(found)}")


def end_strays(settings: Settings) -> None:
    """End the components that run for this folder without being written down."""
    processes.end_at_once(strays.find(settings.directory))


def end_unrecorded(settings: Settings, recorded: set[int]) -> None:
    """End components that an interrupted `up` has started without writing them down; Pods go on."""
    found = set(strays.find(settings.directory)) - recorded - _shims(settings)
    processes.end_at_once(found)


def clean_node(settings: Settings) -> None:
    """End the Pods and take back what was changed; what is gone already is no error.

    The node's own processes have been stopped before.
    """
    before = _owned(settings)
    if before:
        processes.end_at_once(cgroups.processes(settings.cgroup) | _shims(settings))
    mounts.unmount_below(settings.directory)
    if before is None:
        return
    cgroups.remove(settings.cgroup)
    network.remove(settings)
    sysctls.restore(before.sysctls)
    for path in before.absent:
        shutil.rmtree(path, ignore_errors=True)
    record.remove()


def _owned(settings: Settings) -> Record | None:
    """Return the machine's record if it is this cluster's node that runs here."""
    found = record.read()
    return found if found and found.directory == str(settings.directory) else None


def _shims(settings: Settings) -> set[int]:
    """Return the processes that hold the Pods' containers for containerd."""
    return {
        pid for pid, name in strays.find(settings.directory).items() if name.startswith("containerd-shim")
    }
