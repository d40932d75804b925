"""Where the modules get installed, and how: shared by the demo and the end-to-end tests.

A cluster of devcluster gets the images loaded; in any other they must be on the nodes, or in a registry.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devcluster import cache, cluster, components, gobuild, settings, wanted
from devcluster.deltas import full_name
from devcluster.errors import ClusterError
from devcluster.nodeimages import NodeImages
from devcluster.settings import Settings, default_directory
from images import builds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.progress import Progress

MODULES = Path(__file__).resolve().parent.parent / "modules"
RELEASE = "ai-models"
NAMESPACE = "d8-ai-models"
INFERENCE_RELEASE = "ai-inference"
INFERENCE_NAMESPACE = "d8-ai-inference"
#: in the order in which they are taken away
RELEASES = ((INFERENCE_RELEASE, INFERENCE_NAMESPACE), (RELEASE, NAMESPACE))
CLIENTS = ("kubectl", "helm")
HELM_TIMEOUT = "180s"
#: Where uploads arrive on a cluster of devcluster: a port of the node, whose address the machine reaches.
UPLOAD_PORT = 30443
#: hosts of orders; devcluster's ingress serves them
DOMAIN_TEMPLATE = "%s.services.devcluster.test"
INGRESS_CLASS = "traefik"


class CommandFailed(Exception):
    """A command of kubectl or helm failed; the message holds its words."""


@dataclass(frozen=True)
class Target:
    """A cluster to work with, and the clients for it."""

    kubeconfig: Path
    kubectl_binary: Path
    helm_binary: Path
    #: The folder of the cluster, when it is one of devcluster's.
    directory: Path | None

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl and return what it printed."""
        command = [str(self.kubectl_binary), "--kubeconfig", str(self.kubeconfig), *arguments]
        return _run(command, stdin, timeout)

    def get(self, *arguments: str) -> Any:
        """Return an object, or a list, as kubectl gets it."""
        return json.loads(self.kubectl("get", *arguments, "--output=json"))

    def helm(self, *arguments: str) -> str:
        """Run helm and return what it printed."""
        command = [str(self.helm_binary), "--kubeconfig", str(self.kubeconfig), *arguments]
        return _run(command, None, 300)


def own_cluster(progress: Progress, directory: Path | None = None) -> Target:
    """Bring up the cluster of devcluster, or find it running."""
    fresh = Settings(directory or default_directory())
    running = settings.load(fresh.directory)
    cluster.up(running if running and not running.control_plane_only else fresh, progress)
    return existing_cluster(fresh.kubeconfig, progress)


def existing_cluster(kubeconfig: Path, progress: Progress) -> Target:
    """Use a cluster that runs already, with clients from the cache."""
    if not kubeconfig.is_file():
        raise ClusterError(f"there is no kubeconfig {kubeconfig}; check KUBECONFIG")
    parts = [
        component for component in components.NODE + components.CONTROL_PLANE if component.name in CLIENTS
    ]
    kept = cache.folder("devcluster")
    wanted.provide(wanted.find(parts, {}, kept), kept, progress)
    found = gobuild.ensure_binaries(parts, kept, progress)
    ours = settings.load(kubeconfig.parent)
    directory = kubeconfig.parent if ours and not ours.control_plane_only else None
    return Target(kubeconfig, found["kubectl"], found["helm"], directory)


def provide_image(target: Target, name: str, progress: Progress) -> str:
    """Build an image and return its reference; on a cluster of devcluster it is then on the node."""
    kept = cache.folder("images")
    archive = kept / f"{name}.tar"
    with cache.locked(archive):
        with progress.step(f"image {name} built"), tempfile.TemporaryDirectory(dir=kept) as work:
            reference = builds.build(name, archive, Path(work))
        if target.directory is None:
            progress.note(
                f"  load it into the nodes of your cluster: {archive} (a docker-archive of {reference})"
            )
        elif not _is_on_node(target.directory, reference):
            cluster.load(target.directory, [archive], progress)
    return reference


def install_chart(target: Target, reference: str, values: Sequence[str] = ()) -> None:
    """Install or upgrade ai-models and wait until its Deployments are available."""
    given = (f"image.reference={reference}", *_upload_address(target), *values)
    _install(target, RELEASE, NAMESPACE, given)


def install_inference(target: Target, reference: str, gate: str, llama: str) -> None:
    """Install or upgrade ai-inference, which has its processes in the same image, and wait likewise."""
    reached = [f"domainTemplate={DOMAIN_TEMPLATE}"]
    if target.directory is not None:
        reached.append(f"ingressClass={INGRESS_CLASS}")
    given = (f"image.reference={reference}", f"images.gate={gate}", f"images.llama={llama}", *reached)
    _install(target, INFERENCE_RELEASE, INFERENCE_NAMESPACE, given)


def drop_interrupted(target: Target, release: str, namespace: str) -> None:
    """Forget a revision that was being installed when its helm was killed: helm would refuse every later one.

    What that revision has made stays, and the next one takes it over. On a cluster of ours only: elsewhere
    somebody may be at work.
    """
    if target.directory is None:
        return
    asked = ("list", "--namespace", namespace, "--pending", "--filter", f"^{release}$", "--output", "json")
    for pending in json.loads(target.helm(*asked)):
        kept = f"secret/sh.helm.release.v1.{release}.v{pending['revision']}"
        target.kubectl("delete", "--namespace", namespace, kept)


def _install(target: Target, release: str, namespace: str, values: Sequence[str]) -> None:
    drop_interrupted(target, release, namespace)
    options = [word for value in values for word in ("--set", value)]
    where = ("--namespace", namespace, "--create-namespace", "--wait", "--timeout", HELM_TIMEOUT)
    target.helm("upgrade", "--install", release, str(MODULES / release), *where, *options)


def _upload_address(target: Target) -> tuple[str, ...]:
    if target.directory is None:
        return ()
    url = f"https://{settings.require(target.directory).node_ip}:{UPLOAD_PORT}"
    return (f"uploadGateway.publicURL={url}", f"uploadGateway.nodePort={UPLOAD_PORT}")


def _is_on_node(directory: Path, reference: str) -> bool:
    names = NodeImages(settings.require(directory)).references()
    return full_name(reference) in names


def _run(command: Sequence[str], stdin: str | None, timeout: float) -> str:
    try:
        result = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"`{' '.join(command)}` did not end within {timeout:.0f} s") from None
    if result.returncode:
        words = result.stderr.strip() or result.stdout.strip() or f"it ended with {result.returncode}"
        raise CommandFailed(f"`{' '.join(command)}` failed: {words}")
    return result.stdout
