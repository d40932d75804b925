"""ModelPack artifacts (model-spec 0.0.7): media types, manifest and config, written and read.

What is written is canonical: sorted keys, no clock, no name from outside the files, so equal files give equal
digests. What is read may be older: ``diff_ids`` and the names from before the format moved to CNCF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from modelkit import digest as digests
from modelkit import names
from modelkit.facts import ModelFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT = "application/vnd.cncf.model.manifest.v1+json"
CONFIG = "application/vnd.cncf.model.config.v1+json"
KINDS = ("weight", "weight.config", "doc", "code", "dataset")
ENCODINGS = ("raw", "tar", "tar+gzip", "tar+zstd")
FILEPATH = "org.cncf.model.filepath"
FACTS = "ai.deckhouse.io/model-facts"

#: path of a tar layer whose members are named from the model's own directory
ROOT = "."
MANIFEST_LIMIT = 4 << 20
CONFIG_LIMIT = 1 << 20
FACTS_LIMIT = 256 << 10

_PREFIX, _LEGACY_PREFIX = "application/vnd.cncf.model.", "application/vnd.cnai.model."
_LEGACY_CONFIG = "application/vnd.cnai.model.config.v1+json"
_LEGACY_ARTIFACT = "application/vnd.cnai.model.manifest.v1+json"
_LEGACY_FILEPATH = "org.cnai.model.filepath"


class ManifestInvalid(ValueError):
    """A manifest or config that is no ModelPack artifact, or contradicts itself; the text says how."""


class Layer(msgspec.Struct, frozen=True):
    """One blob of an artifact: a weight file as it is, or a tar of small files."""

    path: str
    digest: str
    size: int
    kind: str = "weight"
    encoding: str = "raw"


class Artifact(msgspec.Struct, frozen=True):
    """What a manifest and its config say."""

    digest: str
    config_digest: str
    #: bytes of config and layers: what the artifact holds, whoever else shares the blobs
    size: int
    layers: tuple[Layer, ...]
    facts: ModelFacts | None


class Package(msgspec.Struct, frozen=True):
    """Bytes of a manifest and of the config that it names."""

    manifest: bytes
    config: bytes


def media_type(kind: str, encoding: str) -> str:
    """Return the media type of a layer."""
    if kind not in KINDS or encoding not in ENCODINGS:
        raise ValueError(f"no layer type for {kind!r} as {encoding!r}")
    return f"{_PREFIX}{kind}.v1.{encoding}"


def parse_media_type(text: str) -> tuple[str, str]:
    """Return kind and encoding of a layer's media type, current or legacy.

    Raises:
        ManifestInvalid: it is no layer type of the format.
    """
    for prefix in (_PREFIX, _LEGACY_PREFIX):
        kind, version, encoding = text.removeprefix(prefix).rpartition(".v1.")
        if text.startswith(prefix) and version and kind in KINDS and encoding in ENCODINGS:
            return kind, encoding
    raise ManifestInvalid(f"layer type {text[:100]!r} is none of ModelPack")


def pack(layers: Sequence[Layer], facts: ModelFacts, template_path: str | None = None) -> Package:
    """Return the canonical manifest and config of these layers.

    ``template_path`` is the file that holds the chat template: the annotation carries its name only.
    """
    names.distinct([layer.path for layer in layers if layer.path != ROOT])
    config = canonical(
        {
            "descriptor": _present(name=_primary(layers), family=facts.family),
            "config": _config(facts),
            "modelfs": {"type": "layers", "diffIds": [layer.digest for layer in layers]},
        }
    )
    geometry = msgspec.structs.replace(facts.facts, chat_template=template_path)
    annotation = canonical(msgspec.structs.replace(facts, facts=geometry))
    if len(annotation) > FACTS_LIMIT:
        raise ValueError(f"facts take {len(annotation)} bytes, at most {FACTS_LIMIT}")
    manifest = canonical(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": ARTIFACT,
            "config": {"mediaType": CONFIG, "digest": digests.of(config), "size": len(config)},
            "layers": [
                {
                    "mediaType": media_type(layer.kind, layer.encoding),
                    "digest": layer.digest,
                    "size": layer.size,
                    "annotations": {FILEPATH: layer.path},
                }
                for layer in layers
            ],
            "annotations": {FACTS: annotation.decode()},
        }
    )
    if len(manifest) > MANIFEST_LIMIT:
        raise ValueError(
            f"a manifest of {len(layers)} layers takes {len(manifest)} bytes, at most {MANIFEST_LIMIT}"
        )
    return Package(manifest=manifest, config=config)


def canonical(document: Any) -> bytes:
    """Return JSON with sorted keys and no spaces: the same bytes for the same content."""
    return msgspec.json.encode(document, order="sorted")


def read(manifest: bytes, config: bytes) -> Artifact:
    """Return what a manifest and its config say, checked against each other.

    Raises:
        ManifestInvalid: they are no ModelPack artifact or contradict each other.
    """
    document = _object(manifest, MANIFEST_LIMIT, "manifest")
    described = document.get("config")
    if document.get("schemaVersion") != 2 or not isinstance(described, dict):  # noqa: PLR2004
        raise ManifestInvalid("the manifest is no OCI image manifest")
    types = (document.get("artifactType"), described.get("mediaType"))
    legacy = types[1] == _LEGACY_CONFIG or types[0] == _LEGACY_ARTIFACT
    if not legacy and ARTIFACT not in types and CONFIG not in types:
        raise ManifestInvalid(f"artifact type {str(types[0])[:100]!r} is not ModelPack")
    if described.get("digest") != digests.of(config):
        raise ManifestInvalid("the config's digest is not the one that the manifest names")
    layers = _layers(document.get("layers"))
    _check_diff_ids(_object(config, CONFIG_LIMIT, "config"), len(layers), legacy=legacy)
    return Artifact(
        digest=digests.of(manifest),
        config_digest=digests.of(config),
        size=len(config) + sum(layer.size for layer in layers),
        layers=layers,
        facts=_facts(document.get("annotations")),
    )


def _object(data: bytes, limit: int, what: str) -> dict[str, Any]:
    if len(data) > limit:
        raise ManifestInvalid(f"the {what} has {len(data)} bytes, at most {limit} are read")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ManifestInvalid(f"the {what} is no JSON object: {error}") from error


def _layers(described: Any) -> tuple[Layer, ...]:
    if not isinstance(described, list) or not described:
        raise ManifestInvalid("the manifest has no layers")
    layers = tuple(_layer(index, one) for index, one in enumerate(described))
    try:
        names.distinct([layer.path for layer in layers if layer.path != ROOT])
    except names.BadName as error:
        raise ManifestInvalid(str(error)) from error
    return layers


def _layer(index: int, described: Any) -> Layer:
    if not isinstance(described, dict):
        raise ManifestInvalid(f"layer {index} is no descriptor")
    kind, encoding = parse_media_type(str(described.get("mediaType")))
    digest, size = str(described.get("digest")), described.get("size")
    if not digests.is_digest(digest) or not isinstance(size, int) or size < 0:
        raise ManifestInvalid(f"layer {index} has no digest and size")
    annotations = described.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    path = annotations.get(FILEPATH) or annotations.get(_LEGACY_FILEPATH)
    if not isinstance(path, str):
        raise ManifestInvalid(f"layer {index} does not say its path")
    if path.strip("./") or encoding == "raw":
        try:
            path = names.file_path(path)
        except names.BadName as error:
            raise ManifestInvalid(f"layer {index}: {error}") from error
    else:
        path = ROOT
    return Layer(path=path, digest=digest, size=size, kind=kind, encoding=encoding)


def _check_diff_ids(config: dict[str, Any], layers: int, *, legacy: bool) -> None:
    files = config.get("modelfs")
    if not isinstance(files, dict) or files.get("type") != "layers" or "descriptor" not in config:
        raise ManifestInvalid("the config lacks descriptor or modelfs of type layers")
    ids = files.get("diffIds", files.get("diff_ids"))
    if ids is None and legacy:
        return
    if not isinstance(ids, list) or len(ids) != layers or not all(digests.is_digest(str(one)) for one in ids):
        raise ManifestInvalid(f"the config's diffIds do not match {layers} layers")


def _facts(annotations: Any) -> ModelFacts | None:
    text = annotations.get(FACTS) if isinstance(annotations, dict) else None
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > FACTS_LIMIT:
        raise ManifestInvalid(f"annotation {FACTS} is longer than {FACTS_LIMIT} bytes")
    try:
        return msgspec.json.decode(text, type=ModelFacts)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ManifestInvalid(f"annotation {FACTS}: {error}") from error


def _primary(layers: Sequence[Layer]) -> str:
    weights = [layer.path for layer in layers if layer.kind == "weight"]
    return weights[0] if len(weights) == 1 and len(layers) == 1 else "model"


_INPUTS = {"VisionInput": "image", "AudioInput": "audio", "VideoInput": "video"}
_OUTPUTS = {
    "Chat": "text",
    "TextGeneration": "text",
    "SpeechToText": "text",
    "ImageToText": "text",
    "Embeddings": "embedding",
    "ImageGeneration": "image",
    "VideoGeneration": "video",
    "TextToSpeech": "audio",
    "AudioGeneration": "audio",
}
#: endpoint types that take no text
_WORDLESS = {"SpeechToText", "ImageClassification", "ObjectDetection", "ImageSegmentation"}


def _config(facts: ModelFacts) -> dict[str, Any]:
    endpoints = set(facts.supported_endpoint_types)
    inputs = {_INPUTS[one] for one in facts.supported_features if one in _INPUTS}
    if endpoints - _WORDLESS:
        inputs.add("text")
    return _present(
        architecture=facts.architecture,
        format=facts.format.lower(),
        paramSize=size_token(facts.parameter_count),
        quantization=facts.quantization,
        capabilities=_present(
            inputTypes=sorted(inputs),
            outputTypes=sorted({_OUTPUTS[one] for one in endpoints if one in _OUTPUTS}),
            toolUsage="ToolCalling" in facts.supported_features,
        ),
    )


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def size_token(parameters: int | None) -> str | None:
    """Return the short form of a number of parameters: ``7.6b``, ``268m``."""
    if parameters is None:
        return None
    for factor, unit in ((10**12, "t"), (10**9, "b"), (10**6, "m"), (10**3, "k")):
        if parameters >= factor:
            return f"{parameters / factor:.1f}".removesuffix(".0") + unit
    return str(parameters)
