"""What the documentation says exists: links, commands, settings, variables, reasons, files, twins."""

from __future__ import annotations

import json
import re
import shlex
from enum import Enum
from typing import TYPE_CHECKING, Any

import click
import jsonschema
import msgspec
import pytest
import yaml

from aictl.__main__ import main as aictl
from aiinference.api.reasons import OrderReason
from aimodels.api import reasons
from aimodels.dmcr.settings import Settings as DmcrSettings
from aimodels.lookup.refusals import Reason as LookupReason
from aimodels.upload.refusals import Reason
from tests.kit.documents import ROOT, Document, documents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOCUMENTS = documents()
CHART = ROOT / "modules/ai-models"
INFERENCE = ROOT / "modules/ai-inference"
_REASON = re.compile(r"(SharedPVC[A-Z]|Storage[A-Z](?!lass)|Insufficient|Unsupported|Publication|InUse)\w*$")

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)


@every_document
def test_links_lead_somewhere(document: Document) -> None:
    for link in document.links:
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (document.path.parent / path).resolve() if path else document.path
        assert target.exists(), f"{document.name}: {link}"
        if anchor:
            assert anchor in Document(target, target.read_text()).anchors(), f"{document.name}: {link}"


@every_document
def test_aictl_takes_every_command_line(document: Document) -> None:
    lines = [line for line in document.commands() if line.startswith("aictl ")]
    for line in [
        *lines,
        *(code for code in document.code if code.startswith("aictl ") and "..." not in code),
    ]:
        _check_aictl(line, document)


def _check_aictl(line: str, document: Document) -> None:
    words = shlex.split(line)[1:]
    context = click.Context(aictl)
    command = aictl.get_command(context, words[0])
    assert command is not None, f"{document.name}: {line}"
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    used = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
    assert used <= known, f"{document.name}: {line}"


@every_document
def test_make_has_every_target(document: Document) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {code.split()[1] for code in document.code if code.startswith("make ")}
    assert named <= targets, document.name


@every_document
def test_helm_sets_settings_that_exist(document: Document) -> None:
    for line in document.commands():
        if line.startswith("helm "):
            chart = INFERENCE if "ai-inference" in line else CHART
            schema = json.loads((chart / "values.schema.json").read_text())
            settings = set(_settings(schema, schema["properties"]))
            named = {part.partition("=")[0] for part in re.findall(r"--set (\S+)", line)}
            assert named <= settings, f"{document.name}: {named - settings}"


def _settings(schema: dict[str, Any], properties: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in properties.items():
        resolved = value
        if "$ref" in value:
            resolved = schema["definitions"][value["$ref"].rpartition("/")[2]]
        yield f"{path}{name}"
        yield from _settings(schema, resolved.get("properties", {}), f"{path}{name}.")


@pytest.mark.parametrize(
    ("chart", "page", "passed_over"),
    [
        (CHART, "admin-guide", ("global", "aiModels", "delivery.nodeCache")),
        (INFERENCE, "inference", ("global", "aiInference")),
    ],
    ids=["ai-models", "ai-inference"],
)
def test_the_administrator_finds_every_setting(chart: Path, page: str, passed_over: tuple[str, ...]) -> None:
    schema = json.loads((chart / "values.schema.json").read_text())
    leaves = {name for name in _settings(schema, schema["properties"]) if not name.startswith(passed_over)}
    leaves -= {name.rpartition(".")[0] for name in leaves}
    for language in ("en", "ru"):
        (guide,) = [one for one in DOCUMENTS if one.name == f"docs/{language}/{page}.md"]
        assert leaves - set(guide.code) == set(), language


def test_the_registry_s_guide_has_every_variable_and_no_other() -> None:
    fields = {f"DMCR_{field.name.upper()}" for field in msgspec.structs.fields(DmcrSettings)}
    for language in ("en", "ru"):
        (guide,) = [one for one in DOCUMENTS if one.name == f"docs/{language}/dmcr.md"]
        named = {word for code in guide.code for word in re.findall(r"DMCR_[A-Z0-9_]+", code)}
        assert named == fields, language


def test_the_gateway_s_refusals_are_all_described() -> None:
    for language in ("en", "ru"):
        (guide,) = [one for one in DOCUMENTS if one.name == f"docs/{language}/upload-api.md"]
        assert {str(reason) for reason in Reason} - set(guide.code) == set(), language


def test_the_lookup_s_refusals_are_all_described() -> None:
    for language in ("en", "ru"):
        (guide,) = [one for one in DOCUMENTS if one.name == f"docs/{language}/lookup-api.md"]
        assert {str(reason) for reason in LookupReason} - set(guide.code) == set(), language


@every_document
def test_reasons_and_alerts_are_of_the_vocabulary(document: Document) -> None:
    kinds = [Reason, OrderReason, *(kind for kind in vars(reasons).values() if isinstance(kind, type(Enum)))]
    known = {str(word) for kind in kinds for word in kind}
    alerts = _alerts()
    for code in document.code:
        if _REASON.match(code):
            assert code in known, f"{document.name}: {code}"
        if code.startswith("D8AI"):
            assert code in alerts, f"{document.name}: {code}"


def _alerts() -> set[str]:
    found = set()
    for chart, prefix in ((CHART, "D8AIModels"), (INFERENCE, "D8AIInference")):
        text = (chart / "templates/monitoring/prometheus-rule.yaml").read_text()
        for part in re.findall(r'"(\w+)" \(list', text):
            found |= {f"{prefix}{part}{kind}" for kind in ("TargetDown", "TargetAbsent")}
        found |= set(re.findall(r"alert: (\w+)$", text, re.MULTILINE))
    return found


@every_document
def test_files_of_the_project_are_where_they_are_said_to_be(document: Document) -> None:
    roots = ("modules/", "images/", "tests/", "tools/", "docs/", "src/", "bin/")
    for code in document.code:
        if code.startswith(roots) and not set(code) & set("*<> "):
            assert (ROOT / code).exists(), f"{document.name}: {code}"


@every_document
def test_manifests_are_of_kinds_and_fields_that_exist(document: Document) -> None:
    for block in document.blocks("yaml"):
        for manifest in yaml.safe_load_all(block):
            if manifest.get("apiVersion", "").startswith("ai.deckhouse.io"):
                (version,) = _definitions()[manifest["kind"]]["spec"]["versions"]
                spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
                jsonschema.validate(manifest["spec"], spec)
                assert list(_unknown_fields(manifest["spec"], spec)) == []


def _definitions() -> dict[str, Any]:
    files = [*CHART.glob("templates/crds/*.yaml"), *INFERENCE.glob("templates/crds/*.yaml")]
    return {
        made["spec"]["names"]["kind"]: made for made in (yaml.safe_load(file.read_text()) for file in files)
    }


def _unknown_fields(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    for name, inner in value.items() if isinstance(value, dict) else ():
        if name not in schema.get("properties", {}):
            yield name
        else:
            yield from _unknown_fields(inner, schema["properties"][name])


def test_the_module_s_settings_in_examples_fit_its_schema() -> None:
    blocks = [block for document in DOCUMENTS for block in document.blocks("yaml")]
    configs = [one for one in map(yaml.safe_load, blocks) if one.get("kind") == "ModuleConfig"]
    assert {config["metadata"]["name"] for config in configs} == {"ai-models", "ai-inference"}
    for config in configs:
        chart = ROOT / "modules" / config["metadata"]["name"]
        schema = yaml.safe_load((chart / "openapi/config-values.yaml").read_text())
        assert config["spec"]["version"] == schema["x-config-version"]
        jsonschema.validate(config["spec"]["settings"], schema)


def _twins() -> list[tuple[Document, Document]]:
    by_name = {document.name: document for document in DOCUMENTS}
    pairs = [("README.md", "README.ru.md")]
    pairs += [
        (f"modules/{module}/docs/README.md", f"modules/{module}/docs/README.ru.md")
        for module in ("ai-models", "ai-inference")
    ]
    pairs += [(name, name.replace("docs/en/", "docs/ru/")) for name in by_name if name.startswith("docs/en/")]
    return [(by_name[english], by_name[russian]) for english, russian in pairs]


@pytest.mark.parametrize(("english", "russian"), _twins(), ids=lambda document: document.name)
def test_twins_say_the_same(english: Document, russian: Document) -> None:
    assert [level for level, _ in english.headings] == [level for level, _ in russian.headings]
    assert english.blocks("sh", "yaml") == russian.blocks("sh", "yaml")
    assert english.prose.count("\n|") == russian.prose.count("\n|")


def test_decisions_are_all_listed() -> None:
    folder = ROOT / "docs/adr"
    listed = (folder / "README.md").read_text()
    for path in folder.glob("[0-9]*.md"):
        title = path.read_text().splitlines()[0].removeprefix("# ")
        number, _, words = title.partition(": ")
        assert f"[{number}]({path.name}) | {words}" in listed
