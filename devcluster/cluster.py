"""Brings a cluster up and takes it down."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from devcluster import (
    cache,
    components,
    controlplane,
    fakenodes,
    gobuild,
    host,
    locking,
    machine,
    mounts,
    node,
    pki,
    settings,
    wanted,
)
from devcluster.addons import Addons
from devcluster.controlplane import ControlPlane
from devcluster.errors import ClusterError
from devcluster.node import Node
from devcluster.nodeimages import NodeImages
from devcluster.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from devcluster.progress import Progress
    from devcluster.settings import Settings


def up(cluster: Settings, progress: Progress, *, bound_to_parent: bool = False) -> None:
    """Start what does not run yet and return when the cluster is usable."""
    machine.check(cluster)
    settings.refuse_foreign(cluster.directory)
    binaries = _provide(cluster, progress)
    with locking.exclusive(cluster.directory):
        processes = Processes(cluster, bound_to_parent=bound_to_parent)
        _make_room(cluster, processes, progress)
        cluster.save()
        gobuild.link_binaries(binaries, cluster.binaries)
        with progress.step("certificates and kubeconfigs"):
            pki.create_pki(cluster)
        if not cluster.control_plane_only:
            host.prepare(cluster, progress)
        ControlPlane(cluster, binaries, processes).start(progress)
        if not cluster.control_plane_only:
            Node(cluster, binaries, processes).start(progress)
            Addons(cluster).start(progress)
        if cluster.fake_nodes:
            fakenodes.start(cluster, binaries["kwok"], processes, progress)
    progress.total("cluster ready")


def down(directory: Path, progress: Progress, *, keep: bool = False) -> None:
    """Stop everything; unless told to keep it, remove the cluster's folder as well."""
    settings.refuse_foreign(directory)
    if not directory.exists():
        host.remove_leftovers(settings.Settings(directory), progress)
        return
    with locking.exclusive(directory):
        cluster = settings.load(directory)
        if cluster is None:
            host.remove_leftovers(settings.Settings(directory), progress)
            return
        processes = Processes(cluster)
        if not cluster.control_plane_only:
            with progress.step("node stopped, machine as before"):
                processes.stop(node.NAMES)
                host.clean_node(cluster)
        with progress.step("control plane stopped"):
            processes.stop((fakenodes.NAME, *controlplane.NAMES))
            host.end_strays(cluster)
        if not keep:
            with progress.step("folder removed"):
                mounts.require_none_below(directory)
                shutil.rmtree(directory)
    progress.total("cluster down")


def load(directory: Path, archives: Sequence[Path], progress: Progress) -> None:
    """Give the node the images of some archives."""
    cluster = settings.require(directory)
    if cluster.control_plane_only:
        raise ClusterError(
            "this cluster has no node that could hold images; it was started with --control-plane-only"
        )
    images = NodeImages(cluster)
    for archive in archives:
        with progress.step(f"{archive} loaded"):
            images.load(archive)


def _make_room(cluster: Settings, processes: Processes, progress: Progress) -> None:
    """Remove what an earlier cluster has left, and refuse what somebody else holds."""
    existing = settings.load(cluster.directory)
    if existing and existing != cluster:
        raise ClusterError(
            f"{cluster.directory} holds a cluster with other settings; run `devcluster down` first"
        )
    if not cluster.control_plane_only:
        host.check_owner(cluster, progress)
    if existing:
        host.end_unrecorded(cluster, processes.pids())
    else:
        host.remove_leftovers(cluster, progress)
    if not processes.is_running("etcd"):
        machine.check_disk(cluster.directory, machine.DISK_TO_RUN, "a cluster")
    machine.check_ports(cluster, [name for name in processes.names() if processes.is_running(name)])


def _provide(cluster: Settings, progress: Progress) -> dict[str, Path]:
    kept = cache.folder("devcluster")
    node_too = not cluster.control_plane_only
    parts = (
        *components.CONTROL_PLANE,
        *(components.NODE if node_too else ()),
        *(components.FAKE_NODES if cluster.fake_nodes else ()),
    )
    commands = wanted.NODE_COMMANDS if node_too else {}
    wanted.provide(wanted.find(parts, commands, kept), kept, progress)
    return gobuild.ensure_binaries(parts, kept, progress)
