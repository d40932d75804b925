"""What the machine looked like before a cluster with a node was started on it.

The record lies in /run and not in the cluster's folder: it lives exactly as long as the changes, until the
next boot, and is still there when somebody has removed the folder by hand.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from devcluster.errors import ClusterError

FILE = Path("/run/devcluster.json")


@dataclass(frozen=True)
class Record:
    """Which cluster's node runs here, and what it was before."""

    directory: str
    sysctls: dict[str, str]
    #: Folders outside the cluster's own that its components make and that were not there.
    absent: list[str]


def read() -> Record | None:
    """Return the record, if a cluster has been started since the machine was."""
    try:
        values = json.loads(FILE.read_text())
        return Record(values["directory"], values["sysctls"], values["absent"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"{FILE} is damaged ({error}); remove it and run again") from None


def write(record: Record) -> None:
    """Write the record, whole or not at all."""
    partial = FILE.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(record), indent=2))
    partial.rename(FILE)


def remove() -> None:
    """Forget: the machine is as it was."""
    FILE.unlink(missing_ok=True)
