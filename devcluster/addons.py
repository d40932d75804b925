"""What runs inside the cluster: DNS and shared volumes."""

from __future__ import annotations

import string
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import dns
from devcluster.api import Api
from devcluster.commands import run
from devcluster.nodeimages import COREDNS_IMAGE, PROVISIONER_IMAGE
from devcluster.waiting import wait_until
from images import busyboximage

if TYPE_CHECKING:
    from devcluster.progress import Progress
    from devcluster.settings import Settings

MANIFESTS = Path(__file__).resolve().parent / "manifests"
DEPLOYMENTS = {"kube-system": "coredns", "local-path-storage": "local-path-provisioner"}
NAME = "kubernetes.default.svc.cluster.local"
TIMEOUT = 90


class Addons:
    """Applies the manifests and waits until what they describe works."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._api = Api(settings)

    def start(self, progress: Progress) -> None:
        """Return when volumes can be ordered and a name resolves through the DNS Service."""
        with progress.step("shared volumes and DNS deployed"):
            self.apply("".join(render(self._settings, path) for path in sorted(MANIFESTS.glob("*.yaml"))))
            for namespace, name in DEPLOYMENTS.items():
                self.wait_for_deployment(namespace, name)
        with progress.step("a name resolves through the DNS Service"):
            server = self._settings.dns_service_ip
            wait_until(f"an answer for {NAME}", lambda: dns.problem(server, NAME), TIMEOUT)

    def apply(self, manifest: str) -> None:
        """Make the objects of a manifest, or make them so again."""
        command = (self._settings.binaries / "kubectl", "--kubeconfig", self._settings.kubeconfig)
        run(*command, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest)

    def wait_for_deployment(self, namespace: str, name: str) -> None:
        """Return when a replica is available."""
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"

        def check() -> str | None:
            status = self._api.get(path).get("status", {})
            return None if status.get("availableReplicas") else "no replica is available"

        wait_until(f"Deployment {namespace}/{name}", check, TIMEOUT)


def render(settings: Settings, manifest: Path) -> str:
    """Fill a manifest with what differs from cluster to cluster."""
    values = {
        "DNS_IP": settings.dns_service_ip,
        "COREDNS_IMAGE": COREDNS_IMAGE,
        "PROVISIONER_IMAGE": PROVISIONER_IMAGE,
        "BUSYBOX_IMAGE": busyboximage.REFERENCE,
        "VOLUMES": str(settings.volumes),
    }
    return "---\n" + string.Template(manifest.read_text()).substitute(values)
