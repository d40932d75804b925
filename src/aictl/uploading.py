"""A local file becomes a model: the object, its upload session, the bytes, the wait for Ready.

What belongs here: the steps in their order. What does not: the wire (``sending``), the display (``show``).
"""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp

from aictl import words
from aictl.cluster import flags, get_model, refusal, shown
from aictl.exits import Exit, Failure
from aictl.follow import until
from aictl.gateway import Broken, Complete
from aictl.sending import Sender
from aictl.tunnel import Detour, Service, open_tunnel, ready_pod
from aimodels.api.model import API_VERSION
from aimodels.api.reasons import Phase
from kubekit.errors import AlreadyExists, Forbidden, Invalid, KubeError, NotFound
from kubekit.resources import Secret

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aictl.cluster import Session
    from aictl.prefixes import Prefixes
    from aictl.sending import Progress, Receipt
    from aimodels.api.model import AnyModel

SESSION_SECONDS = 60.0
GATEWAY = "ai-models-upload-gateway"


@dataclass(frozen=True)
class Link:
    """What the Secret of an upload says."""

    url: str
    in_cluster_url: str
    token: str
    authority: str


async def create(at: Session, kind: type[AnyModel], name: str) -> bool:
    """Create the model that waits for an upload, unless it is there; tell whether it was created."""
    metadata = {"name": name} | ({"namespace": at.namespace} if kind.KIND.namespaced else {})
    manifest = {
        "apiVersion": API_VERSION,
        "kind": kind.KIND.name,
        "metadata": metadata,
        "spec": {"source": {"upload": {}}},
    }
    title = shown(kind, name, at.namespace)
    try:
        await at.answer(lambda: at.client.create(manifest))
    except AlreadyExists:  # perhaps by ourselves, when the first answer got lost
        return False
    except Invalid as error:
        raise Failure(f"{title} cannot be created", error.message, code=Exit.USAGE) from error
    except KubeError as error:
        raise refusal(error, f"{title} cannot be created") from error
    return True


async def awaited(at: Session, kind: type[AnyModel], name: str) -> AnyModel:
    """Return the model once it waits for bytes, or has them already."""
    model = await get_model(at, kind, name)
    if model.spec.source.upload is None:
        raise Failure(
            f"{shown(kind, name, at.namespace)} takes no upload",
            "its source is another one",
            "Choose another name, and --create for a new model",
            code=Exit.USAGE,
        )
    return await until(at, kind, name, _takes_or_has_bytes, within=SESSION_SECONDS)


def _takes_or_has_bytes(model: AnyModel) -> bool:
    waiting = words.phase(model) == Phase.WAIT_FOR_UPLOAD and model.status and model.status.upload
    return bool(waiting) or has_bytes(model)


def has_bytes(model: AnyModel) -> bool:
    """Tell whether the upload is over: the model is being published, or Ready."""
    return words.phase(model) in {Phase.PUBLISHING, Phase.READY}


async def link(at: Session, kind: type[AnyModel], model: AnyModel, namespace: str) -> Link:
    """Read the Secret of the upload; who may, is a matter of the Role made for it."""
    secret_name = model.status.upload.secret_name if model.status and model.status.upload else ""
    try:
        secret = await at.answer(lambda: at.client.get(Secret, secret_name, namespace))
    except NotFound as error:
        raise Failure(
            f"The upload session of {shown(kind, model.metadata.name, namespace)} has just ended",
            f"Secret {namespace}/{secret_name} is gone",
            "Run the same command again",
            detail=str(error),
        ) from error
    except Forbidden as error:
        reader = secret_name.replace("-upload-", "-upload-reader-", 1)
        raise Failure(
            f"You may not upload to {shown(kind, model.metadata.name, namespace)}",
            f"reading Secret {namespace}/{secret_name} is not allowed to you",
            f"Ask for a RoleBinding to Role {reader} in {namespace}",
            code=Exit.DENIED,
            detail=str(error),
        ) from error
    except KubeError as error:
        raise refusal(error, f"Secret {namespace}/{secret_name} cannot be read") from error
    values = {key: value.decode() for key, value in secret.data.items()}
    if not values.get("url") or not values.get("token"):
        raise Failure(
            f"Secret {namespace}/{secret_name} is incomplete",
            "url or token is missing",
            f"`aictl retry {model.metadata.name} {flags(kind, at.namespace)}` issues it again",
        )
    return Link(values["url"], values.get("inClusterUrl", ""), values["token"], values.get("ca.crt", ""))


async def send(at: Session, to: Link, prefixes: Prefixes, *, filename: str, progress: Progress) -> Receipt:
    """Send the file by the address of the upload, or through the Kubernetes API where that leads nowhere."""
    tls = ssl.create_default_context()
    if to.authority:
        tls.load_verify_locations(cadata=to.authority)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), trust_env=True) as web:
        sender = Sender(web, to.url, to.token, prefixes, filename=filename, progress=progress)
        if await _answers(sender):
            return await sender.send()
    progress.noted(f"{urlsplit(to.url).netloc} does not answer from here, going through the Kubernetes API")
    url = to.in_cluster_url or to.url
    async with _through_the_api(at, url, tls, progress.noted) as web:
        return await Sender(web, url, to.token, prefixes, filename=filename, progress=progress).send()


async def _answers(sender: Sender) -> bool:
    """Tell whether the address leads somewhere, be it to a gateway that is busy now."""
    try:
        await sender.held()
    except Broken as error:
        return error.answered
    except Complete:
        return True
    return True


@asynccontextmanager
async def _through_the_api(
    at: Session, url: str, tls: ssl.SSLContext, failed: Callable[[str], None]
) -> AsyncIterator[aiohttp.ClientSession]:
    parts = urlsplit(url)
    namespace = ((parts.hostname or "").split(".")[1:2] or [at.namespace])[0]
    service = Service(namespace, GATEWAY, parts.port or 443)
    try:
        await at.answer(lambda: ready_pod(at, service))
    except KubeError as error:
        raise refusal(error, "The upload gateway cannot be reached") from error
    async with open_tunnel(at, service, failed) as door:
        connector = aiohttp.TCPConnector(ssl=tls, resolver=Detour(door), use_dns_cache=False)
        async with aiohttp.ClientSession(connector=connector) as web:
            yield web
