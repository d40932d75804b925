"""containerd, the kubelet and kube-proxy: one real node on this machine."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from devcluster import nodeconfig
from devcluster.api import Api
from devcluster.nodeimages import NodeImages
from devcluster.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from devcluster.processes import Processes
    from devcluster.progress import Progress
    from devcluster.settings import Settings

#: In the order in which they are stopped: the kubelet first, so that it restarts nothing.
NAMES = ("kubelet", "kube-proxy", "containerd")
#: What answers first is containerd itself; its CRI plugin follows, and nothing here can ask for that one.
KUBELET_RESTARTS = 5
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Node:
    """Starts the node's processes and waits until the node is Ready."""

    def __init__(self, settings: Settings, binaries: dict[str, Path], processes: Processes) -> None:
        self._settings = settings
        self._binaries = binaries
        self._processes = processes
        self._images = NodeImages(settings)
        self._api = Api(settings)

    def start(self, progress: Progress) -> None:
        """Return when Pods can run."""
        with progress.step("containerd ready"):
            self._write_files()
            self._start("containerd", ["--config", self._settings.configs / "containerd.toml"])
            wait_until("a running containerd", self._containerd_problem)
        with progress.step("system images imported"):
            self._images.load_system_images(self._binaries)
        with progress.step("node ready"):
            since = int(time.time())
            fresh = self._start("kubelet", self._kubelet())
            self._start("kube-proxy", [f"--config={self._settings.configs / 'kube-proxy.json'}"])
            self._wait_until_ready(since if fresh else 0)

    def _write_files(self) -> None:
        for directory in (self._settings.cdi_dir, self._settings.volumes):
            directory.mkdir(parents=True, exist_ok=True)
        self._settings.volumes.chmod(0o777)
        nodeconfig.write_all(self._settings)

    def _start(self, name: str, arguments: Sequence[str | Path]) -> bool:
        """Its PATH is where containerd finds its shim, and the shim runc."""
        environment = {"PATH": f"{self._settings.binaries}:{SYSTEM_PATH}"}
        return self._processes.start(name, [self._binaries[name], *arguments], environment)

    def _containerd_problem(self) -> str | None:
        self._processes.require("containerd")
        return self._images.problem()

    def _kubelet(self) -> list[str]:
        settings = self._settings
        return [
            f"--config={settings.configs / 'kubelet.json'}",
            f"--kubeconfig={settings.component_kubeconfig('kubelet')}",
            f"--hostname-override={settings.node_name}",
            f"--node-ip={settings.node_ip}",
            f"--root-dir={settings.kubelet_dir}",
            f"--cert-dir={settings.pki}",
        ]

    def _wait_until_ready(self, since: int) -> None:
        """A kubelet that meets a containerd whose CRI is not there yet ends; it is started again then."""
        again = iter(range(KUBELET_RESTARTS))

        def check() -> str | None:
            if not self._processes.is_running("kubelet") and next(again, None) is not None:
                self._start("kubelet", self._kubelet())
            self._processes.require("kubelet", "kube-proxy")
            return self._not_ready_reason(since)

        wait_until("a Ready node", check)

    def _not_ready_reason(self, since: int) -> str | None:
        """A condition older than the kubelet's start is what an earlier kubelet reported."""
        path = f"/api/v1/nodes/{self._settings.node_name}"
        problem = self._api.problem(path)
        if problem:
            return problem
        conditions = self._api.get(path)["status"].get("conditions", [])
        ready = next((condition for condition in conditions if condition["type"] == "Ready"), None)
        if ready is None or datetime.fromisoformat(ready["lastHeartbeatTime"]).timestamp() < since:
            return "the kubelet has not reported yet"
        return None if ready["status"] == "True" else str(ready["message"])
