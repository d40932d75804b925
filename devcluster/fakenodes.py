"""Nodes without a kubelet: kwok keeps them Ready and plays the Pods that are bound to them.

What belongs here: starting it and making the nodes. What does not: how a Pod is played, which its stages say.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from devcluster.addons import Addons
from devcluster.api import Api
from devcluster.gobuild import DEFINITIONS
from devcluster.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.processes import Processes
    from devcluster.progress import Progress
    from devcluster.settings import Settings

NAME = "kwok"
#: of the nodes: as an annotation it tells kwok which ones to play, as a taint it keeps other Pods away
KEY, VALUE = "kwok.x-k8s.io/node", "fake"
_RESOURCES = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "4Ti", "pods": "110"}
_LEASE_SECONDS = 200


def start(settings: Settings, kwok: Path, processes: Processes, progress: Progress) -> None:
    """Return when all fake nodes are Ready."""
    api = Api(settings)

    def problem() -> str | None:
        processes.require(NAME)
        ready = sum(_is_ready(node) for node in api.get("/api/v1/nodes")["items"])
        return None if ready == settings.fake_nodes else f"{ready} of {settings.fake_nodes} are Ready"

    with progress.step(f"{settings.fake_nodes} fake nodes ready"):
        processes.start(NAME, [kwok, *_flags(settings, kwok.with_suffix(DEFINITIONS))])
        nodes = [_node(f"fake-{number}") for number in range(settings.fake_nodes)]
        Addons(settings).apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
        wait_until("fake nodes", problem)


def _flags(settings: Settings, stages: Path) -> list[str]:
    return [
        f"--config={stages}",
        f"--kubeconfig={settings.kubeconfig}",
        f"--manage-nodes-with-annotation-selector={KEY}={VALUE}",
        f"--server-address=127.0.0.1:{settings.kwok_port}",
        f"--node-lease-duration-seconds={_LEASE_SECONDS}",
    ]


def _node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {KEY: VALUE}, "labels": labels},
        "spec": {"taints": [{"key": KEY, "value": VALUE, "effect": "NoSchedule"}]},
        "status": {"capacity": _RESOURCES, "allocatable": _RESOURCES},
    }


def _is_ready(node: dict[str, Any]) -> bool:
    """Tell whether a node is one of ours and Ready."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and node["metadata"].get("annotations", {}).get(KEY) == VALUE
