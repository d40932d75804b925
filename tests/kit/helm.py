"""The chart as Helm renders it: a real helm binary, objects as dicts.

The binary is AI_MODULES_HELM, or the one that devcluster builds (on demand) and keeps in the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from devcluster import cache as kept
from devcluster import components, gobuild
from devcluster.progress import Progress

CHART = Path(__file__).parents[2] / "modules" / "ai-models"
NAMESPACE = "d8-ai-models"
OLDEST = "1.30.0"
#: what a cluster with the Gateway API serves, and the chart asks for
ROUTES = "gateway.networking.k8s.io/v1/BackendTLSPolicy"
POD_KINDS = {"Deployment", "StatefulSet", "DaemonSet", "Job"}

Manifest = dict[str, Any]


class RenderError(Exception):
    """Helm refused; the message is what a user reads."""


@cache
def binary() -> str:
    """Return the path of a helm binary, built if there is none."""
    given = os.environ.get("AI_MODULES_HELM")
    if given:
        return given
    wanted = [component for component in components.NODE if component.name == "helm"]
    return str(gobuild.ensure_binaries(wanted, kept.folder("devcluster"), Progress())["helm"])


def helm(*arguments: str, kubeconfig: Path | None = None) -> str:
    """Run helm and return its output; RenderError with its words when it fails."""
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        if kubeconfig:
            environment["KUBECONFIG"] = str(kubeconfig)
        done = subprocess.run(
            [binary(), *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120
        )
    if done.returncode:
        raise RenderError(done.stderr)
    return done.stdout


def render(
    values: Manifest | None = None, *, chart: Path = CHART, api_versions: tuple[str, ...] = ()
) -> list[Manifest]:
    """Return the objects that an installation with these values makes, hooks included."""
    return list(_render(json.dumps(values or {}, sort_keys=True), chart, api_versions))


@cache
def _render(values: str, chart: Path, api_versions: tuple[str, ...]) -> tuple[Manifest, ...]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values)
        file.flush()
        served = [word for version in api_versions for word in ("--api-versions", version)]
        where = ("-n", f"d8-{chart.name}", "--kube-version", OLDEST)
        text = helm("template", chart.name, str(chart), *where, "-f", file.name, *served)
    return tuple(one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one)


def one(objects: list[Manifest], kind: str, name: str) -> Manifest:
    """Return the one object of that kind and name."""
    (found,) = [item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name]
    return found


def pod_templates(objects: list[Manifest]) -> dict[str, Manifest]:
    """Return every Pod template by `Kind/name`."""
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["spec"]["template"]
        for item in objects
        if item["kind"] in POD_KINDS
    }


def environment(container: Manifest) -> dict[str, str]:
    """Return a container's variables; one from a Secret or a field is shown as `<from>`."""
    return {item["name"]: item.get("value", "<from>") for item in container.get("env", [])}
