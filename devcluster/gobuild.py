"""Builds the components once into the cache; a build is found again by what went into it."""

from __future__ import annotations

import platform
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import cache, gomodules, toolchain
from devcluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.components import Component
    from devcluster.progress import Progress

GO_ROOT = Path(__file__).resolve().parent / "go"
ERROR_LINES = 30
#: suffix of the file beside a binary with the manifests that it needs
DEFINITIONS = ".definitions.yaml"


def cached_path(component: Component, kept: Path) -> Path:
    """Return where a component's binary lies once built: its pins, flags and machine name the folder."""
    group = GO_ROOT / component.group
    files = sorted(path for path in group.rglob("*") if path.is_file())
    more = [repr(part) for part in (component.thinned, component.definitions) if part]
    words = (component.package, *component.link_flags, platform.machine(), *more)
    return kept / f"{component.group}-{cache.key(words, files, relative_to=group)}" / component.name


def definitions_path(component: Component, kept: Path) -> Path:
    """Return where the manifests lie that the component needs, once it is built."""
    return cached_path(component, kept).with_suffix(DEFINITIONS)


def missing(components: Sequence[Component], kept: Path) -> list[Component]:
    """Return what still has to be built."""
    return [component for component in components if not cached_path(component, kept).exists()]


def ensure_binaries(components: Sequence[Component], kept: Path, progress: Progress) -> dict[str, Path]:
    """Return where each component's binary lies, building those that are missing."""
    for component in missing(components, kept):
        target = cached_path(component, kept)
        with progress.step(f"{component.name} built"), cache.locked(target):
            if not target.exists():
                _build(component, target, toolchain.ensure_go(kept))
    return {component.name: cached_path(component, kept) for component in components}


def link_binaries(binaries: dict[str, Path], directory: Path) -> None:
    """Gather the binaries in one folder, where a PATH and containerd find them by name."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, target in binaries.items():
        link = directory / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _build(component: Component, target: Path, go: Path) -> None:
    partial = target.with_name(f".{target.name}.partial")
    flags = (
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        " ".join(("-s", "-w", *component.link_flags)),
    )
    modules = gomodules.GoModules(go)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        folder = GO_ROOT / component.group
        if component.thinned:
            folder = modules.thin(component.thinned, folder, Path(work))
        command = ("build", *flags, "-o", str(partial), component.package)
        result = modules.go(folder, *command)
        if result.returncode:
            words = "\n".join(result.stderr.strip().splitlines()[-ERROR_LINES:])
            raise ClusterError(f"{component.name} could not be built (go build in {folder}):\n{words}")
        if component.definitions:
            text = modules.definitions(component.definitions, folder)
            target.with_suffix(DEFINITIONS).write_text(text)
    partial.rename(target)
