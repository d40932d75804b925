"""Finds processes of a cluster whose pid files are gone."""

from __future__ import annotations

from pathlib import Path

from devcluster import components

NAMES = frozenset(component.name for component in (*components.CONTROL_PLANE, *components.NODE))


def find(directory: Path) -> dict[int, str]:
    """Return the components that run for the cluster in this folder, by process id."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if belongs(command, directory):
            found[int(process.name)] = Path(command[0]).name
    return found


def belongs(command: list[str], directory: Path) -> bool:
    """Tell whether a command line is that of a component with its files in this folder."""
    inside = f"{directory}/"
    values = (word.partition("=")[2] or word for word in command[1:])
    return Path(command[0]).name in NAMES and any(value.startswith(inside) for value in values)
