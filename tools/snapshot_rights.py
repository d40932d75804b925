"""Writes the snapshot of who may do what (tests/charts/rights.yaml) anew, after a change that was meant."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.kit import helm, rbac  # noqa: E402 - the checkout is put on the path first

HEADER = "# Rights of every ServiceAccount: namespace (* is everywhere), resource, names, verbs.\n"

if __name__ == "__main__":
    text = yaml.safe_dump(rbac.identities(helm.render()), width=200)
    (ROOT / "tests/charts/rights.yaml").write_text(HEADER + text)
