"""Go modules beside the compiler: their sources, thinned copies, manifests that they bring."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devcluster.errors import ClusterError

if TYPE_CHECKING:
    from devcluster.components import Definitions, Thinned

#: where a group's go.mod finds the thinned copy
THINNED = ".thinned"
#: lists the manifests beside it
_NO_MANIFEST = "kustomization.yaml"


class GoModules:
    """Calls one Go toolchain."""

    def __init__(self, go: Path) -> None:
        self._go = go

    def go(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the toolchain, which must not exchange itself for another."""
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
        command = [str(self._go), *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    def thin(self, thinned: Thinned, group: Path, work: Path) -> Path:
        """Return a copy of the group's folder in which a module lies as it is wanted."""
        folder = work / group.name
        shutil.copytree(group, folder)
        target = folder / THINNED
        _copy(self._source(thinned, work), target, thinned.without)
        shutil.copytree(group / thinned.overlay, target, dirs_exist_ok=True)
        dropped = [f"-droprequire={name}" for name in thinned.requirements]
        self._checked(target, "mod", "edit", *dropped)
        return folder

    def definitions(self, wanted: Definitions, folder: Path) -> str:
        """Return the manifests of a module in the version that the folder's go.mod pins."""
        root = self._checked(folder, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", wanted.module).strip()
        files: list[Path] = []
        for name in wanted.folders:
            found = sorted((Path(root) / name).glob("*.yaml"))
            if not root or not found:
                raise ClusterError(f"module {wanted.module} has no manifests in {name}")
            files += [path for path in found if path.name != _NO_MANIFEST]
        return "".join(f"---\n{path.read_text()}\n" for path in files)

    def _source(self, thinned: Thinned, work: Path) -> Path:
        """Return the module's own folder, of exactly the content that was pinned."""
        name = f"{thinned.module}@{thinned.version}"
        told: dict[str, Any] = json.loads(self._checked(work, "mod", "download", "-json", name))
        if told["Sum"] != thinned.checksum:
            raise ClusterError(f"{name} is {told['Sum']}, which is not the pinned {thinned.checksum}")
        return Path(told["Dir"])

    def _checked(self, folder: Path, *arguments: str) -> str:
        result = self.go(folder, *arguments)
        if result.returncode:
            words = f"go {' '.join(arguments[:2])}"
            raise ClusterError(f"{words} failed in {folder}:\n{result.stderr.strip() or result.stdout}")
        return result.stdout


def _copy(source: Path, target: Path, without: tuple[str, ...]) -> None:
    """Copy a module's files, which are read-only in Go's cache, without some folders."""
    left_out = [source / name for name in without]
    for path in source.rglob("*"):
        if path.is_file() and not any(path.is_relative_to(folder) for folder in left_out):
            copied = target / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
