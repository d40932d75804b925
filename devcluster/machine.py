"""Checks of the machine that come before anything is changed on it."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import socket
from typing import TYPE_CHECKING

from devcluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from devcluster.settings import Settings

GIGABYTE = 10**9
#: A build from nothing fills Go's caches and ours; a start alone needs room for images and volumes.
DISK_TO_BUILD = 9 * GIGABYTE
DISK_TO_RUN = 2 * GIGABYTE


def check(settings: Settings) -> None:
    """Raise a plain explanation when the machine cannot run what was asked for."""
    if platform.system() != "Linux":
        raise ClusterError(
            f"the cluster runs on Linux only, this is {platform.system()}; use a Linux machine or VM"
        )
    if settings.control_plane_only:
        return
    if os.geteuid() != 0:
        raise ClusterError("a cluster with a node needs root; run it as root, or with --control-plane-only")
    settings.check_socket_paths()


def check_ports(settings: Settings, running: Collection[str] = ()) -> None:
    """Raise when somebody else holds a port that a process needs which does not run yet."""
    needed = {name: ports for name, ports in settings.ports_by_process.items() if name not in running}
    for name, ports in needed.items():
        for port in ports:
            if not port_is_free(port):
                raise ClusterError(
                    f"port {port}, for {name}, is in use (`ss -ltnp sport = :{port}` shows by whom); "
                    f"end that process, or choose another --port-base"
                )


def port_is_free(port: int) -> bool:
    """Tell whether a server could listen on the port, on every address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - bound for a moment and never listening
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def check_disk(path: Path, needed: int, purpose: str) -> None:
    """Raise when the file system of a folder, which need not exist yet, is too full."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise ClusterError(
            f"{path} has {free / GIGABYTE:.1f} GB free, {purpose} needs {needed / GIGABYTE:.0f} GB; "
            f"make room, or choose another folder"
        )
