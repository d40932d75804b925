"""Writes the snapshots of who may do what (tests/charts/rights*.yaml) anew, after a change that was meant."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.kit import helm, inferenceapi, rbac  # noqa: E402 - the checkout is put on the path first

HEADER = "# Rights of every ServiceAccount: namespace (* is everywhere), resource, names, verbs.\n"

if __name__ == "__main__":
    for chart, name in ((helm.CHART, "rights.yaml"), (inferenceapi.CHART, "rights-inference.yaml")):
        text = yaml.safe_dump(rbac.identities(helm.render(chart=chart)), width=200)
        (ROOT / "tests/charts" / name).write_text(HEADER + text)
