"""The vectors of the catalogue that speak of names, files, formats and layers."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import msgspec
import pytest

from aimodels.publication import plan
from modelkit import archives, digest, inspection, modelpack, names, policy
from modelkit.archives import Member
from modelkit.errors import NotAModel
from modelkit.facts import Confidence, FactSheet, ModelFacts
from modelkit.formats import detect, endpoints
from modelkit.formats.config import Configuration
from modelkit.modelpack import Layer
from modelkit.policy import Format
from modelkit.reading import MemoryReader
from tests.kit import models
from tests.kit.vectors import cases

VECTORS = "delivery-and-publish.json"
MAGIC = {
    "GGUF": b"GGUF",
    "gzip": b"\x1f\x8b\x08\x00",
    "zip": b"PK\x03\x04",
    "zstd": b"\x28\xb5\x2f\xfd",
    "tar": b"",
}


@pytest.mark.parametrize("case", cases(VECTORS, "format-detection"))
def test_format(case: dict[str, Any]) -> None:
    paths = case["input"]["files"]
    top = archives.common_top(paths)
    stripped = [path[len(top) :] for path in paths]
    if "format" in case["expected"]:
        assert policy.detect_format(stripped) == case["expected"]["format"]
    else:
        with pytest.raises(NotAModel):
            policy.detect_format(stripped)


@pytest.mark.parametrize("case", cases(VECTORS, "file-policy"))
def test_file_policy(case: dict[str, Any]) -> None:
    found = policy.action(Format(case["input"]["format"]), case["input"]["path"])
    assert found == case["expected"]["action"]


@pytest.mark.parametrize("case", cases(VECTORS, "archive-magic"))
def test_magic(case: dict[str, Any]) -> None:
    first = case["input"]["first_bytes_hex"]
    head = b"\0\1\2\3" if first == "any" else bytes.fromhex(first)
    if case["expected"]["accepted"]:
        word = case["expected"]["container"].split()[0]
        assert detect.container(case["input"]["filename"], head) == word
    else:
        with pytest.raises(NotAModel):
            detect.container(case["input"]["filename"], head)


@pytest.mark.parametrize("case", cases(VECTORS, "upload-name-ok", "upload-name-reject"))
def test_upload_name(case: dict[str, Any]) -> None:
    word = case["expected"].get("container", "GGUF")
    if case["expected"]["accepted"]:
        assert detect.container(case["input"]["filename"], MAGIC[word]) == word
    else:
        with pytest.raises(NotAModel):
            detect.container(case["input"]["filename"], MAGIC[word])


def tar_of(*members: tarfile.TarInfo) -> MemoryReader:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return MemoryReader(stream.getvalue())


KINDS = {
    "symlink": tarfile.SYMTYPE,
    "device": tarfile.CHRTYPE,
    "fifo": tarfile.FIFOTYPE,
    "directory": tarfile.DIRTYPE,
}


@pytest.mark.parametrize("case", cases(VECTORS, "archive-safety"))
def test_archive_safety(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    entries = [tarfile.TarInfo(name) for name in given.get("entries", [given.get("entry", "x")])]
    if "entry_type" in given:
        entries[0].type = KINDS[given["entry_type"]]
    if expected.get("error"):
        with pytest.raises(NotAModel):
            archives.members(tar_of(*entries), "a.tar")
    else:
        found = [member.path for member in archives.members(tar_of(*entries), "a.tar")]
        assert found == expected.get("paths", [])


@pytest.mark.parametrize("case", cases(VECTORS, "media-type"))
def test_media_type(case: dict[str, Any]) -> None:
    given = case["input"]
    if "base" in given:
        text = modelpack.media_type(given["base"], given["encoding"])
        assert text == case["expected"]["media_type"]
        assert modelpack.parse_media_type(text) == (given["base"], given["encoding"])
    elif "part" in given:
        values = {
            "manifest mediaType": modelpack.MANIFEST,
            "artifactType": modelpack.ARTIFACT,
            "config mediaType": modelpack.CONFIG,
        }
        assert values[given["part"]] == case["expected"]["value"]
    else:
        with pytest.raises(modelpack.ManifestInvalid):
            modelpack.parse_media_type(given["media_type"])


@pytest.mark.parametrize("case", cases(VECTORS, "layer-plan"))
def test_layer_plan(case: dict[str, Any]) -> None:
    """The vectors put everything below ``model/``; a layer's path is relative to that directory here."""
    files = case["input"].get("files", {"model.gguf": 10})
    members = [Member(path, 0, size) for path, size in files.items()]
    planned = plan.layers(Format.GGUF if "model.gguf" in files else Format.SAFETENSORS, members)
    raw = [layer.path for layer in planned if layer.encoding == "raw"]
    wanted = case["expected"].get("raw_layers") or [
        one["target"] for one in case["expected"].get("layers", [])
    ]
    if wanted:
        assert raw == [path.removeprefix("model/") for path in wanted]
    small = next((layer for layer in planned if layer.encoding == "tar"), None)
    assert (small.path if small else None) == (modelpack.ROOT if "tar_layer" in case["expected"] else None)
    if small is not None:
        made = b"".join(one.made or b"" for one in small.segments)
        assert all(path.encode() in made for path in case["expected"]["tar_layer"])


def manifest_with(layers: int, diff_ids: int) -> tuple[bytes, bytes]:
    package = modelpack.pack(
        [Layer(f"m{number}.gguf", digest.of(bytes([number])), number) for number in range(layers)],
        ModelFacts(format="GGUF"),
    )
    ids = ",".join(f'"{digest.of(bytes([number]))}"' for number in range(diff_ids))
    start, end = package.config.index(b'"diffIds":['), package.config.index(b'],"type"')
    config = package.config[:start] + b'"diffIds":[' + ids.encode() + package.config[end:]
    manifest = package.manifest.replace(digest.of(package.config).encode(), digest.of(config).encode())
    return manifest, config


@pytest.mark.parametrize("case", cases(VECTORS, "digest"))
def test_digest(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    if "digest" in given:
        assert digest.is_digest(given["digest"]) is expected["valid"]
    elif "layer_bytes" in given:
        sizes = [*given["layer_bytes"]]
        layers = [Layer(f"m{size}.gguf", digest.of(str(size).encode()), size) for size in sizes]
        package = modelpack.pack(layers, ModelFacts(format="GGUF"))
        artifact = modelpack.read(package.manifest, package.config)
        assert artifact.size - len(package.config) == expected["artifact_sizeBytes"] - given["config_bytes"]
    elif "requested" in given:
        package = modelpack.pack([Layer("m.gguf", digest.of(b""), 0)], ModelFacts(format="GGUF"))
        with pytest.raises(modelpack.ManifestInvalid):
            modelpack.read(package.manifest, package.config + b" ")
    else:
        layers_count = given["layers"]
        manifest, config = manifest_with(layers_count, given.get("diffIds", 0))
        if expected["accepted"]:
            assert len(modelpack.read(manifest, config).layers) == layers_count
        else:
            with pytest.raises(modelpack.ManifestInvalid):
                modelpack.read(manifest, config)


@pytest.mark.parametrize("case", cases(VECTORS, "metadata"))
def test_metadata(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    sheet = FactSheet()
    if given.get("format") == "GGUF":
        assert msgspec.to_builtins(sheet.publish("GGUF")) == {"format": "GGUF", "facts": {}}
    elif "family_from" in expected:
        assert endpoints.family_of(given["architectures"][0]) == expected["family_from"].lower()
    elif "architecture" in expected:
        files = models.checkpoint(config={**models.CONFIG, **given})
        facts = inspection.inspect_files(models.readers(files)).facts
        assert (facts.architecture, facts.family) == (expected["architecture"], expected["family"])
    elif "contextWindowTokens" in expected:
        Configuration(given).learn(sheet)
        assert sheet.publish("Safetensors").context_window_tokens == expected["contextWindowTokens"]
    else:
        sheet.learn("parameter_count", 7_000_000_000, Confidence.ESTIMATED)
        found = sheet.publish("Safetensors")
        assert found.parameter_count is None
        assert found.withheld == ("parameterCount",)


def test_bad_names_are_refused_before_a_path_is_made() -> None:
    with pytest.raises(names.BadName):
        names.file_path("a/../../b")
