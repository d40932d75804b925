"""Parts played by hand: the gateway that commits an upload, and the worker that publishes it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from modelio.registry import MANIFEST_MEDIA_TYPE, RegistryClient
from modelkit import digest, modelpack
from modelkit.facts import Geometry, ModelFacts

if TYPE_CHECKING:
    from modelkit.modelpack import Package

UPLOAD_ARTIFACT = "application/vnd.deckhouse.ai-models.upload.v1+json"
FACTS = ModelFacts(
    format="GGUF",
    family="gemma3",
    architecture="gemma3",
    parameter_count=268_098_176,
    quantization="Q4_K_M",
    context_window_tokens=32768,
    supported_endpoint_types=("Chat", "TextGeneration"),
    facts=Geometry(layers=18, hidden_size=640),
)


def tiny_gguf(mark: bytes = b"") -> bytes:
    """Return the header of a GGUF file without tensors, and some bytes to tell it from others."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + mark


async def received(client: RegistryClient, repository: str, data: bytes, name: str = "model.gguf") -> str:
    """Commit an upload as the gateway does; return the blob's digest."""
    blob = await client.push_blob(repository, data)
    empty = await client.push_blob(repository, b"{}")
    manifest = modelpack.canonical(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_MEDIA_TYPE,
            "artifactType": UPLOAD_ARTIFACT,
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2},
            "layers": [
                {
                    "mediaType": "application/octet-stream",
                    "digest": blob,
                    "size": len(data),
                    "annotations": {modelpack.FILEPATH: name},
                }
            ],
        }
    )
    await client.put_manifest(repository, "upload", MANIFEST_MEDIA_TYPE, manifest)
    return blob


def package(data: bytes, facts: ModelFacts = FACTS) -> Package:
    """Return manifest and config of a model that is one GGUF file."""
    return modelpack.pack([modelpack.Layer("model.gguf", digest.of(data), len(data))], facts)


async def published(client: RegistryClient, repository: str, data: bytes, facts: ModelFacts = FACTS) -> str:
    """Commit a publication as the worker does; return the manifest's digest."""
    made = package(data, facts)
    await client.push_blob(repository, data)
    await client.push_blob(repository, made.config)
    return await client.put_manifest(repository, "published", MANIFEST_MEDIA_TYPE, made.manifest)
