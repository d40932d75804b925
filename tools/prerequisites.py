"""Lists, then installs and builds, everything that the tests need beside the Python environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from devcluster import cache, components, gobuild, wanted
from devcluster.errors import ClusterError
from devcluster.progress import Progress

#: Foreign programs that the tests talk to, and the Debian package that has each.
PEERS = {"curl": "curl", "skopeo": "skopeo", "docker-registry": "docker-registry"}


def main() -> int:
    """Return 0 when everything is there; otherwise say in one line what is missing and return 1."""
    progress = Progress()
    kept = cache.folder("devcluster")
    parts = (*components.CONTROL_PLANE, *components.NODE, *components.INGRESS)
    node_commands = wanted.NODE_COMMANDS if os.geteuid() == 0 else {}
    try:
        wanted.provide(wanted.find(parts, node_commands | PEERS, kept), kept, progress)
        gobuild.ensure_binaries(parts, kept, progress)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
