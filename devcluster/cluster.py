"""Brings a cluster up and takes it down."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from devcluster import cache, components, controlplane, gobuild, machine, pki, settings, wanted
from devcluster.controlplane import ControlPlane
from devcluster.errors import ClusterError
from devcluster.processes import Processes

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.progress import Progress
    from devcluster.settings import Settings


def up(cluster: Settings, progress: Progress, *, bound_to_parent: bool = False) -> None:
    """Start what does not run yet and return when the cluster is usable."""
    existing = settings.load(cluster.directory)
    if existing and existing != cluster:
        raise ClusterError(
            f"{cluster.directory} holds a cluster with other settings; run `devcluster down` first"
        )
    machine.check(cluster)
    processes = Processes(cluster, bound_to_parent=bound_to_parent)
    binaries = _provide(components.CONTROL_PLANE, progress)
    machine.check_disk(cluster.directory, machine.DISK_TO_RUN, "a cluster")
    if not processes.is_running("etcd"):
        machine.check_ports(cluster)
    cluster.save()
    gobuild.link_binaries(binaries, cluster.binaries)
    with progress.step("certificates and kubeconfigs"):
        pki.create_pki(cluster)
    ControlPlane(cluster, binaries, processes).start(progress)
    progress.total("cluster ready")


def down(cluster: Settings, progress: Progress, *, keep: bool = False) -> None:
    """Stop everything; unless told to keep it, remove the cluster's folder as well."""
    with progress.step("control plane stopped"):
        Processes(cluster).stop(controlplane.NAMES)
    if not keep:
        with progress.step("folder removed"):
            shutil.rmtree(cluster.directory)
    progress.total("cluster down")


def _provide(parts: tuple[components.Component, ...], progress: Progress) -> dict[str, Path]:
    kept = cache.folder("devcluster")
    wanted.provide(wanted.find(parts, wanted.CONTROL_PLANE_COMMANDS, kept), kept, progress)
    return gobuild.ensure_binaries(parts, kept, progress)
