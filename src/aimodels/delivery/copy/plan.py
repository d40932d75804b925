"""What a copy consists of: files and tars, checked before the first byte is written.

What belongs here: from manifest to layers that can be laid out. What does not: laying them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from aimodels.delivery.copy.outcome import LayoutRefused
from modelkit import digest as digests
from modelkit import modelpack, names

if TYPE_CHECKING:
    from modelio.registry import RegistryClient

_CONFIG = "config"


class Plan(msgspec.Struct, frozen=True):
    """A checked artifact; tars stand first, so that the space for one is free again before the rest."""

    artifact: modelpack.Artifact
    layers: tuple[modelpack.Layer, ...]

    def needed_bytes(self) -> int:
        """Return the bytes of all layers."""
        return sum(layer.size for layer in self.layers)


class _Config(msgspec.Struct, frozen=True):
    digest: str
    size: int


class _Layer(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Manifest(msgspec.Struct, frozen=True):
    config: _Config
    layers: list[_Layer] = msgspec.field(default_factory=list)


async def fetch_plan(client: RegistryClient, repository: str, digest: str) -> Plan:
    """Read manifest and config by digest and return what is to be done."""
    manifest = (await client.get_manifest(repository, digest)).body
    described = _described(manifest).config
    if described.size > modelpack.CONFIG_LIMIT or not digests.is_digest(described.digest):
        raise LayoutRefused(f"the config of {described.size} bytes is not one of a model")
    pieces = client.read_blob(repository, described.digest, 0, described.size)
    return make_plan(manifest, b"".join([piece async for piece in pieces]))


def make_plan(manifest: bytes, config: bytes) -> Plan:
    """Check an artifact's layers; LayoutRefused when one could not be laid out safely."""
    _refuse_absolute(_described(manifest).layers)
    try:
        artifact = modelpack.read(manifest, config)
        names.distinct([layer.path for layer in artifact.layers if layer.encoding == "raw"])
    except (modelpack.ManifestInvalid, names.BadName) as error:
        raise LayoutRefused(f"the artifact cannot be laid out: {error}") from error
    for layer in artifact.layers:
        if layer.encoding == "tar" and layer.path == modelpack.ROOT:
            continue
        if layer.encoding != "raw":
            raise LayoutRefused(
                f"layer {layer.path[:100]!a} is packed as {layer.encoding}: this version cannot lay it out"
            )
    tars = [layer for layer in artifact.layers if layer.encoding != "raw"]
    files = [layer for layer in artifact.layers if layer.encoding == "raw"]
    return Plan(artifact=artifact, layers=(*tars, *files))


def _described(manifest: bytes) -> _Manifest:
    try:
        return msgspec.json.decode(manifest, type=_Manifest)
    except msgspec.DecodeError as error:
        raise LayoutRefused(f"the manifest is not one of a model: {error}") from error


def _refuse_absolute(layers: list[_Layer]) -> None:
    """Refuse what the path rules would make relative: nobody who means well names such a file."""
    for path in (layer.annotations.get(modelpack.FILEPATH, "") for layer in layers):
        if path.startswith(("/", "\\")):
            raise LayoutRefused(f"layer {path[:100]!a} has an absolute path")
