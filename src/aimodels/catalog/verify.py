"""A published artifact checked back: its manifest, its config and every blob, by digest.

What belongs here: reading what is stored and saying whether it is whole. What does not: what follows.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.api.model import ResolvedStatus
from aimodels.api.reasons import EndpointType, ModelFeature, ModelFormat, ModelReason
from aimodels.catalog.names import PUBLISHED_TAG
from aimodels.catalog.registry import is_outage
from aimodels.catalog.state import Cause, Published
from modelio.registry import DigestMismatch, NotFound, RegistryError
from modelkit import modelpack

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum

    from modelio.registry import RegistryClient
    from modelkit.facts import ModelFacts

_TOGETHER = 8
_MOST_INTEGER = (1 << 63) - 1


class UploadGone(Exception):
    """The registry answers, and has not got the file that it received for the model."""


class ReceivedFile(msgspec.Struct, frozen=True):
    """The one layer of an upload."""

    digest: str
    size: int


class _Upload(msgspec.Struct):
    layers: list[ReceivedFile]


class _Config(msgspec.Struct):
    digest: str = ""
    size: int = 0


class _Manifest(msgspec.Struct):
    config: _Config = msgspec.field(default_factory=_Config)


async def read_back(client: RegistryClient, repository: str) -> Published | Cause | None:
    """Return the published artifact, why it is none, or None when nothing is published."""
    try:
        manifest = await client.get_manifest(repository, PUBLISHED_TAG)
    except NotFound:
        return None
    except DigestMismatch as error:
        return _invalid(str(error))
    try:
        config = await _config(client, repository, manifest.body)
        artifact = modelpack.read(manifest.body, config)
    except (modelpack.ManifestInvalid, DigestMismatch, NotFound) as error:
        return _invalid(str(error))
    if artifact.facts is None:
        return _invalid(f"the manifest {artifact.digest} carries no facts about the model")
    missing = await _missing(client, repository, artifact)
    if missing:
        return _invalid(f"of {artifact.digest} these blobs are not stored as described: {', '.join(missing)}")
    return Published(
        digest=artifact.digest,
        size_bytes=artifact.size,
        resolved=_resolved(artifact.facts),
        withheld=bool(artifact.facts.withheld),
    )


async def received_file(client: RegistryClient, repository: str, reference: str) -> ReceivedFile:
    """Return the file of an upload's manifest, by its tag or digest; raise ``UploadGone`` when it is none."""
    try:
        manifest = await client.get_manifest(repository, reference)
        (layer,) = msgspec.json.decode(manifest.body, type=_Upload).layers
    except RegistryError as error:
        if is_outage(error):
            raise
        raise UploadGone(str(error)) from error
    except ValueError as error:
        raise UploadGone(f"the manifest of the upload cannot be read: {error}") from error
    return layer


async def _config(client: RegistryClient, repository: str, manifest: bytes) -> bytes:
    try:
        described = msgspec.json.decode(manifest, type=_Manifest).config
    except msgspec.MsgspecError as error:
        raise modelpack.ManifestInvalid(f"the manifest cannot be read: {error}") from error
    if not 0 < described.size <= modelpack.CONFIG_LIMIT:
        raise modelpack.ManifestInvalid(f"the config has {described.size} bytes")
    config = bytearray()
    async with aclosing(client.read_blob(repository, described.digest, 0, described.size)) as pieces:
        async for piece in pieces:
            config += piece
    return bytes(config)


async def _missing(client: RegistryClient, repository: str, artifact: modelpack.Artifact) -> list[str]:
    """Return the digests of layers that are not there, or not in their size."""
    turns = asyncio.Semaphore(_TOGETHER)
    sizes = {layer.digest: layer.size for layer in artifact.layers}

    async def check(digest: str) -> str | None:
        async with turns:
            return None if await client.head_blob(repository, digest) == sizes[digest] else digest

    found = await asyncio.gather(*(check(digest) for digest in sizes))
    return [digest for digest in found if digest is not None]


def _resolved(facts: ModelFacts) -> ResolvedStatus:
    """Return the facts as the API shows them: words of the closed sets only, numbers that it can hold."""
    shown: dict[str, Any] = _holdable(msgspec.to_builtins(facts))
    shown["supportedEndpointTypes"] = _known(facts.supported_endpoint_types, EndpointType)
    shown["supportedFeatures"] = _known(facts.supported_features, ModelFeature)
    if facts.format not in set(ModelFormat):
        shown.pop("format", None)
    return msgspec.convert(shown, ResolvedStatus)


def _holdable(value: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _holdable(item) if isinstance(item, dict) else item
        for key, item in value.items()
        if not isinstance(item, int) or isinstance(item, bool) or 0 < item <= _MOST_INTEGER
    }


def _known(words: Iterable[str], vocabulary: type[StrEnum]) -> tuple[str, ...]:
    known = set(vocabulary)
    return tuple(word for word in dict.fromkeys(words) if word in known)


def _invalid(what: str) -> Cause:
    return Cause(ModelReason.MANIFEST_INVALID, f"The stored artifact is not whole: {what}.")
