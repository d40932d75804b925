"""Gives a running cluster an ingress controller, when somebody asks for one: Traefik takes minutes to build.

What belongs here: making it ready, for Ingresses (classes `traefik` and `nginx`) and for the Gateway API
(Gateway `public` in the namespace `ingress`). What does not: anything that is reached through it.
"""

from __future__ import annotations

import base64
import string
from typing import TYPE_CHECKING

from devcluster import cache, gobuild, pki, settings, wanted
from devcluster.addons import MANIFESTS, Addons
from devcluster.components import INGRESS, TRAEFIK_VERSION
from devcluster.errors import ClusterError
from devcluster.nodeimages import NodeImages

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.progress import Progress
    from devcluster.settings import Settings

#: Hosts of this domain, and of `services.` below it, have a certificate of the cluster's own authority.
DOMAIN = "devcluster.test"
NAMESPACE = "ingress"
IMAGE = f"docker.io/local/traefik:{TRAEFIK_VERSION}"
_MANIFEST = MANIFESTS / "ingress" / "traefik.yaml"
_HOSTS = pki.Identity("ingress", DOMAIN, server_names=(f"*.{DOMAIN}", f"*.services.{DOMAIN}"))


def install(directory: Path, progress: Progress) -> None:
    """Return when hosts are served at ports 80 and 443 of the node's address."""
    cluster = settings.require(directory)
    if cluster.control_plane_only:
        raise ClusterError(
            "this cluster has no node that an ingress controller could run on; it was started with "
            "--control-plane-only"
        )
    kept = cache.folder("devcluster")
    wanted.provide(wanted.find(INGRESS, {}, kept), kept, progress)
    binaries = gobuild.ensure_binaries(INGRESS, kept, progress)
    addons = Addons(cluster)
    with progress.step("ingress controller deployed"):
        NodeImages(cluster).load_program(IMAGE, binaries["traefik"])
        for component in INGRESS:
            addons.apply(gobuild.definitions_path(component, kept).read_text())
        addons.apply(render(cluster))
        addons.wait_for_deployment(NAMESPACE, "traefik")


def certificate(cluster: Settings) -> tuple[Path, Path]:
    """Return where the certificate for the hosts of the domain, and its key, lie."""
    return pki.issue(cluster, _HOSTS)


def render(cluster: Settings) -> str:
    """Return the manifest of the controller, its classes and its Gateway."""
    crt, key = (base64.b64encode(path.read_bytes()).decode() for path in certificate(cluster))
    values = {"IMAGE": IMAGE, "NODE_IP": cluster.node_ip, "CERTIFICATE": crt, "KEY": key}
    return string.Template(_MANIFEST.read_text()).substitute(values)
