from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from aimodels.api.crds import crds
from aimodels.api.model import ClusterModel, Model

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_crds", ROOT / "tools/generate_crds.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_files_are_those_of_the_structs() -> None:
    stale = [path for path, text in generator().generated().items() if (ROOT / path).read_text() != text]
    assert stale == [], "run tools/generate_crds.py"


def test_the_chart_keeps_the_definitions_when_it_goes() -> None:
    for crd in crds():
        assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert crd["metadata"]["labels"] == {"heritage": "deckhouse", "module": "ai-models"}


def test_a_helm_template_has_no_braces_in_it() -> None:
    assert "{{" not in yaml.safe_dump(crds())


def test_schemas_are_structural() -> None:
    """Each node has a type; what a structural schema forbids is nowhere (Kubernetes 1.30 checks the same)."""
    for crd in crds():
        nodes = list(_nodes(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
        assert len(nodes) > 80
        for path, node in nodes:
            assert "type" in node, path
            assert not node.keys() & {"$ref", "anyOf", "allOf", "oneOf", "not", "default", "title"}, path


def _nodes(node: dict[str, Any], path: str = "") -> Any:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _nodes(node[key], f"{path}[{key}]")


def test_an_object_with_words_of_the_future_still_decodes() -> None:
    for kind in (Model, ClusterModel):
        body = {
            "metadata": {"name": "m"},
            "spec": {"source": {"torrent": {}, "url": "x"}},
            "status": {"phase": "Dreaming", "source": {"resolvedType": "Torrent"}, "more": 1},
        }
        model = msgspec.json.decode(msgspec.json.encode(body), type=kind)
        assert model.status
        assert model.status.phase == "Dreaming"
