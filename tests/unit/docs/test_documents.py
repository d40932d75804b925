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
from aimodels.api import reasons
from aimodels.dmcr.settings import Settings as DmcrSettings
from aimodels.lookup.refusals import Reason as LookupReason
from aimodels.upload.refusals import Reason
from tests.kit.documents import ROOT, Document, documents

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENTS = documents()
CHART = ROOT / "modules/ai-models"
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
    schema = json.loads((CHART / "values.schema.json").read_text())
    settings = set(_settings(schema, schema["properties"]))
    for line in document.commands():
        if line.startswith("helm "):
            named = {part.partition("=")[0] for part in re.findall(r"--set (\S+)", line)}
            assert named <= settings, f"{document.name}: {named - settings}"


def _settings(schema: dict[str, Any], properties: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in properties.items():
        resolved = value
        if "$ref" in value:
            resolved = schema["definitions"][value["$ref"].rpartition("/")[2]]
        yield f"{path}{name}"
        yield from _settings(schema, resolved.get("properties", {}), f"{path}{name}.")


def test_the_administrator_finds_every_setting() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    leaves = {
        name
        for name in _settings(schema, schema["properties"])
        if not name.startswith(("global", "aiModels", "delivery.nodeCache"))
    }
    leaves -= {name.rpartition(".")[0] for name in leaves}
    for language in ("en", "ru"):
        (guide,) = [one for one in DOCUMENTS if one.name == f"docs/{language}/admin-guide.md"]
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
    kinds = [Reason, *(kind for kind in vars(reasons).values() if isinstance(kind, type(Enum)))]
    known = {str(word) for kind in kinds for word in kind}
    alerts = _alerts()
    for code in document.code:
        if _REASON.match(code):
            assert code in known, f"{document.name}: {code}"
        if code.startswith("D8AIModels"):
            assert code in alerts, f"{document.name}: {code}"


def _alerts() -> set[str]:
    text = (CHART / "templates/monitoring/prometheus-rule.yaml").read_text()
    kinds = ("TargetDown", "TargetAbsent")
    generated = {f"D8AIModels{part}{kind}" for part in re.findall(r'"(\w+)" \(list', text) for kind in kinds}
    return generated | set(re.findall(r"alert: (\w+)$", text, re.MULTILINE))


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
                name = f"{manifest['kind'].lower()}s.yaml"
                definition = yaml.safe_load((CHART / "templates/crds" / name).read_text())
                (version,) = definition["spec"]["versions"]
                source = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["source"]
                assert set(manifest["spec"]["source"]) <= set(source["properties"])


def test_the_module_s_settings_in_examples_fit_its_schema() -> None:
    schema = yaml.safe_load((CHART / "openapi/config-values.yaml").read_text())
    blocks = [block for document in DOCUMENTS for block in document.blocks("yaml")]
    configs = [one for one in map(yaml.safe_load, blocks) if one.get("kind") == "ModuleConfig"]
    assert configs
    for config in configs:
        assert config["metadata"]["name"] == "ai-models"
        assert config["spec"]["version"] == schema["x-config-version"]
        jsonschema.validate(config["spec"]["settings"], schema)


def _twins() -> list[tuple[Document, Document]]:
    by_name = {document.name: document for document in DOCUMENTS}
    pairs = [("README.md", "README.ru.md")]
    pairs += [("modules/ai-models/docs/README.md", "modules/ai-models/docs/README.ru.md")]
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
