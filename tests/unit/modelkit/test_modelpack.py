"""Artifacts: written canonically, read strictly, older forms read too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from modelkit import digest, modelpack
from modelkit.facts import Geometry, ModelFacts
from modelkit.modelpack import Layer

if TYPE_CHECKING:
    from collections.abc import Callable

FACTS = ModelFacts(
    format="Safetensors",
    family="llama",
    architecture="LlamaForCausalLM",
    parameter_count=7_600_000_000,
    quantization="16bit",
    supported_endpoint_types=("Chat", "ImageToText"),
    supported_features=("VisionInput", "ToolCalling"),
    facts=Geometry(
        layers=2, dtype_bytes={"BF16": 10}, tied_embeddings=False, chat_template="{{ long }}" * 1000
    ),
)
LAYERS = [
    Layer("a.safetensors", digest.of(b"a"), 10),
    Layer("b/c.safetensors", digest.of(b"b"), 20),
    Layer(modelpack.ROOT, digest.of(b"c"), 30, "weight.config", "tar"),
]


def test_what_is_written_reads_back() -> None:
    package = modelpack.pack(LAYERS, FACTS, "tokenizer_config.json")
    artifact = modelpack.read(package.manifest, package.config)
    assert artifact.layers == tuple(LAYERS)
    assert artifact.size == 60 + len(package.config)
    assert artifact.digest == digest.of(package.manifest)
    assert artifact.config_digest == digest.of(package.config)
    assert artifact.facts is not None
    assert artifact.facts.parameter_count == FACTS.parameter_count
    assert artifact.facts.facts.tied_embeddings is False
    assert artifact.facts.facts.chat_template == "tokenizer_config.json"
    assert b"{{ long }}" not in package.manifest


def test_equal_files_give_equal_bytes_and_nothing_tells_the_time() -> None:
    first, second = (modelpack.pack(LAYERS, FACTS, "t") for _ in range(2))
    assert first == second
    assert json.loads(first.config) == {
        "descriptor": {"name": "model", "family": "llama"},
        "config": {
            "architecture": "LlamaForCausalLM",
            "format": "safetensors",
            "paramSize": "7.6b",
            "quantization": "16bit",
            "capabilities": {"inputTypes": ["image", "text"], "outputTypes": ["text"], "toolUsage": True},
        },
        "modelfs": {"type": "layers", "diffIds": [layer.digest for layer in LAYERS]},
    }
    for document in (first.manifest, first.config):
        assert document == json.dumps(json.loads(document), sort_keys=True, separators=(",", ":")).encode()


def test_a_lone_file_is_named_and_unknown_facts_are_absent() -> None:
    package = modelpack.pack([LAYERS[0]], ModelFacts(format="GGUF"))
    config = json.loads(package.config)
    assert config["descriptor"] == {"name": "a.safetensors"}
    assert config["config"] == {"format": "gguf"}
    annotation = json.loads(package.manifest)["annotations"][modelpack.FACTS]
    assert json.loads(annotation) == {"format": "GGUF", "facts": {}}


def test_too_much_for_a_manifest_is_told_before_it_is_sent() -> None:
    layers = [Layer(f"{number:0200}.gguf", digest.of(b"x"), 1) for number in range(12_000)]
    with pytest.raises(ValueError, match="a manifest of 12000 layers"):
        modelpack.pack(layers, FACTS)


def changed(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> tuple[bytes, bytes]:
    package = modelpack.pack(LAYERS, FACTS)
    manifest, config = json.loads(package.manifest), json.loads(package.config)
    change(manifest, config)
    config_bytes = json.dumps(config).encode()
    described = manifest["config"]
    if described and described["digest"] == digest.of(package.config):
        described["digest"] = digest.of(config_bytes)
    return json.dumps(manifest).encode(), config_bytes


def legacy(manifest: dict[str, Any], config: dict[str, Any]) -> None:
    manifest["artifactType"] = manifest["artifactType"].replace("cncf", "cnai")
    manifest["config"]["mediaType"] = manifest["config"]["mediaType"].replace("cncf", "cnai")
    for layer in manifest["layers"]:
        layer["mediaType"] = layer["mediaType"].replace("cncf", "cnai")
        layer["annotations"] = {"org.cnai.model.filepath": layer["annotations"][modelpack.FILEPATH]}
    config["modelfs"]["diff_ids"] = None
    del config["modelfs"]["diffIds"]
    del manifest["annotations"]


def renamed(_: dict[str, Any], config: dict[str, Any]) -> None:
    config["modelfs"]["diff_ids"] = config["modelfs"].pop("diffIds")


def without_artifact_type(manifest: dict[str, Any], _: dict[str, Any]) -> None:
    del manifest["artifactType"]


@pytest.mark.parametrize("change", [legacy, renamed, without_artifact_type])
def test_older_and_plainer_forms_are_read(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
    artifact = modelpack.read(*changed(change))
    assert artifact.layers == tuple(LAYERS)


def put(path: str, value: Any, *, part: int = 0) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(*documents: dict[str, Any]) -> None:
        holder: Any = documents[part]
        *parents, last = [int(key) if key.isdecimal() else key for key in path.split("|")]
        for key in parents:
            holder = holder[key]
        holder[last] = value

    return change


BAD = {
    "schema": put("schemaVersion", 1),
    "no config": put("config", None),
    "other artifact": lambda manifest, _: (
        manifest.update(artifactType="application/x"),
        manifest["config"].update(mediaType="application/y"),
    ),
    "config digest": put("config|digest", digest.of(b"other")),
    "no layers": put("layers", []),
    "layer no object": put("layers|0", 7),
    "layer type": put("layers|0|mediaType", "application/vnd.oci.image.layer.v1.tar"),
    "layer digest": put("layers|0|digest", "sha256:x"),
    "layer size": put("layers|0|size", -1),
    "no path": put("layers|0|annotations", {}),
    "path outside": put("layers|0|annotations|org.cncf.model.filepath", "../x"),
    "path reserved": put("layers|0|annotations|org.cncf.model.filepath", ".ai-models/model.json"),
    "path twice": put("layers|0|annotations|org.cncf.model.filepath", "B/C.safetensors"),
    "raw layer as a directory": put("layers|0|annotations|org.cncf.model.filepath", "."),
    "facts": put("annotations|ai.deckhouse.io/model-facts", "{"),
    "facts no text": put("annotations|ai.deckhouse.io/model-facts", 1),
    "facts too long": put("annotations|ai.deckhouse.io/model-facts", " " * 300_000),
    "modelfs type": put("modelfs|type", "chunked", part=1),
    "no descriptor": lambda _, config: config.pop("descriptor"),
    "diff ids": put("modelfs|diffIds", [digest.of(b"a")], part=1),
    "diff ids no digests": put("modelfs|diffIds", ["a", "b", "c"], part=1),
}


@pytest.mark.parametrize("name", BAD)
def test_what_contradicts_itself_is_refused(name: str) -> None:
    with pytest.raises(modelpack.ManifestInvalid):
        modelpack.read(*changed(BAD[name]))


@pytest.mark.parametrize("manifest", [b"", b"[]", b"\xff", b'{"a":' * 100_000, bytes(5 << 20)])
def test_bytes_that_are_no_manifest_are_refused(manifest: bytes) -> None:
    with pytest.raises(modelpack.ManifestInvalid):
        modelpack.read(manifest, b"{}")


@pytest.mark.parametrize(
    ("parameters", "token"),
    [
        (None, None),
        (268_098_176, "268.1m"),
        (8_000_000_000, "8b"),
        (2_400_000_000_000, "2.4t"),
        (500, "500"),
        (7_000, "7k"),
    ],
)
def test_short_sizes(parameters: int | None, token: str | None) -> None:
    assert modelpack.size_token(parameters) == token
