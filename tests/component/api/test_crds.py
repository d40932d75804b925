"""Every rule of the CRDs against a real API server: what it lets through and what it refuses."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from aimodels.api.model import API_VERSION, ClusterModel, Model
from kubekit.client import Client, connect
from kubekit.errors import Invalid
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aimodels.api.model import AnyModel

Source = dict[str, Any]
UPLOAD: Source = {"upload": {}}
URL: Source = {"url": "https://huggingface.co/acme/llm"}
CATALOG: Source = {"catalog": {"name": "llm"}}
DIGEST = "sha256:" + "0" * 64
ARTIFACT = {"digest": DIGEST, "sizeBytes": 5}


class Api:
    """Models without a controller: what is created stays as it is."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.made: list[tuple[type[AnyModel], str]] = []

    async def create(self, kind: type[AnyModel], source: Source) -> dict[str, Any]:
        name = f"m-{uuid.uuid4().hex[:8]}"
        manifest = {
            "apiVersion": API_VERSION,
            "kind": kind.KIND.name,
            "metadata": {"name": name} | ({"namespace": self.namespace} if kind.KIND.namespaced else {}),
            "spec": {"source": source},
        }
        made = await self.client.create(manifest)
        self.made.append((kind, name))
        return made

    async def patch(self, made: dict[str, Any], body: Any, subresource: str | None = None) -> dict[str, Any]:
        metadata = made["metadata"]
        kind = Model if "namespace" in metadata else ClusterModel
        return await self.client.patch(
            kind, metadata["name"], body, namespace=metadata.get("namespace"), subresource=subresource
        )

    async def status(self, made: dict[str, Any], **status: Any) -> dict[str, Any]:
        return await self.patch(made, {"status": status}, "status")


@pytest.fixture(scope="module")
def served(control_plane: Path) -> Path:
    """Return the kubeconfig of an API server that has our CRDs."""

    async def install() -> None:
        async with connect(control_plane) as client:
            await install_definitions(client)

    asyncio.run(install())
    return control_plane


@pytest.fixture
async def api(served: Path) -> AsyncIterator[Api]:
    async with connect(served) as client:
        api = Api(client, "default")
        yield api
        for kind, name in api.made:
            await client.delete(kind, name, api.namespace if kind.KIND.namespaced else None)


def condition(**fields: Any) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": "False",
        "reason": "Pending",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    } | fields


@pytest.mark.parametrize("kind", [Model, ClusterModel])
@pytest.mark.parametrize("source", [UPLOAD, URL, CATALOG], ids=["upload", "url", "catalog"])
async def test_one_source_is_taken(api: Api, kind: type[AnyModel], source: Source) -> None:
    made = await api.create(kind, source)
    assert made["spec"]["source"] == source


@pytest.mark.parametrize("kind", [Model, ClusterModel])
@pytest.mark.parametrize(
    "source", [{}, UPLOAD | URL, URL | CATALOG, UPLOAD | CATALOG, UPLOAD | URL | CATALOG]
)
async def test_no_or_several_sources_are_refused(api: Api, kind: type[AnyModel], source: Source) -> None:
    with pytest.raises(Invalid, match="give exactly one of url, upload, catalog"):
        await api.create(kind, source)


async def test_a_secret_goes_with_the_url_of_a_model(api: Api) -> None:
    made = await api.create(Model, URL | {"authSecretRef": {"name": "hub"}})
    assert made["spec"]["source"]["authSecretRef"] == {"name": "hub"}


@pytest.mark.parametrize("source", [UPLOAD, CATALOG], ids=["upload", "catalog"])
async def test_a_secret_without_a_url_is_refused(api: Api, source: Source) -> None:
    with pytest.raises(Invalid, match="authSecretRef goes with url only"):
        await api.create(Model, source | {"authSecretRef": {"name": "hub"}})


async def test_a_secret_on_a_cluster_model_is_refused(api: Api) -> None:
    with pytest.raises(Invalid, match="a ClusterModel belongs to no namespace and cannot name a Secret"):
        await api.create(ClusterModel, URL | {"authSecretRef": {"name": "hub"}})


@pytest.mark.parametrize(
    "source", [{"url": ""}, {"url": "x" * 2049}, {"catalog": {}}, {"catalog": {"name": ""}}]
)
async def test_empty_and_endless_strings_are_refused(api: Api, source: Source) -> None:
    with pytest.raises(Invalid):
        await api.create(Model, source)


async def test_an_odd_url_is_taken_so_that_the_status_can_say_what_is_wrong(api: Api) -> None:
    await api.create(Model, {"url": "ftp://example.com/model"})


@pytest.mark.parametrize("kind", [Model, ClusterModel])
async def test_the_source_may_be_corrected_before_there_is_an_artifact(
    api: Api, kind: type[AnyModel]
) -> None:
    made = await api.create(kind, URL)
    await api.status(made, phase="Failed", observedGeneration=1)

    changed = await api.patch(made, {"spec": {"source": {"url": None, "upload": {}}}})

    assert changed["spec"]["source"] == UPLOAD
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize("kind", [Model, ClusterModel])
async def test_the_source_is_kept_once_there_is_an_artifact(api: Api, kind: type[AnyModel]) -> None:
    made = await api.create(kind, UPLOAD)
    await api.status(made, phase="Publishing", artifact=ARTIFACT)

    with pytest.raises(Invalid, match="the source cannot change once the model is stored"):
        await api.patch(made, {"spec": {"source": {"upload": None, "url": URL["url"]}}})

    await api.patch(made, {"metadata": {"labels": {"still": "editable"}}})


OBSERVED = [
    (UPLOAD, {"type": "upload"}),
    (URL, {"type": "url", "url": URL["url"]}),
    (CATALOG, {"type": "catalog", "catalog": {"name": "llm"}}),
    (
        {"catalog": {"name": "llm", "sourceName": "dmz"}},
        {"type": "catalog", "catalog": {"name": "llm", "sourceName": "dmz"}},
    ),
]


@pytest.mark.parametrize(("source", "observed"), OBSERVED)
async def test_a_ready_status_for_the_objects_source_is_taken(
    api: Api, source: Source, observed: dict[str, Any]
) -> None:
    made = await api.create(Model, source)
    await api.status(made, phase="Ready", observedSource=observed, artifact=ARTIFACT)


@pytest.mark.parametrize(
    ("source", "observed"),
    [
        (UPLOAD, None),
        (UPLOAD, OBSERVED[1][1]),
        (URL, {"type": "upload"}),
        (URL, {"type": "url", "url": "https://huggingface.co/acme/other"}),
        (CATALOG, {"type": "catalog", "catalog": {"name": "other"}}),
        (CATALOG, OBSERVED[3][1]),
        (OBSERVED[3][0], OBSERVED[2][1]),
        (OBSERVED[3][0], {"type": "catalog", "catalog": {"name": "llm", "sourceName": "other"}}),
    ],
)
async def test_a_ready_status_for_another_source_is_refused(
    api: Api, source: Source, observed: dict[str, Any] | None
) -> None:
    made = await api.create(Model, source)
    status = {"phase": "Ready", "artifact": ARTIFACT} | ({"observedSource": observed} if observed else {})
    with pytest.raises(Invalid, match="speaks of another source"):
        await api.status(made, **status)
    await api.status(made, **status | {"phase": "Publishing"})


async def test_conditions_are_a_map_by_type(api: Api) -> None:
    made = await api.create(Model, UPLOAD)
    await api.status(made, conditions=[condition(), condition(type="Progressing", status="True")])
    with pytest.raises(Invalid, match="Duplicate value"):
        await api.status(made, conditions=[condition(), condition()])


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Waiting"},
        {"progress": "101%"},
        {"progress": "5"},
        {"transfer": {"stage": "Sealing"}},
        {"transfer": {"stage": "Queued", "queuePosition": 0}},
        {"artifact": {"digest": "md5:1", "sizeBytes": 5}},
        {"artifact": {"digest": DIGEST, "sizeBytes": 0}},
        {"source": {"resolvedType": "FTP"}},
        {"resolved": {"format": "PyTorch"}},
        {"resolved": {"supportedEndpointTypes": ["Chat", "Chat"]}},
        {"resolved": {"supportedFeatures": ["Magic"]}},
        {"conditions": [condition(status="Maybe")]},
        {"conditions": [condition(reason="not a word")]},
        {"upload": {}},
    ],
)
async def test_words_and_numbers_outside_the_vocabulary_are_refused(api: Api, status: Source) -> None:
    made = await api.create(Model, UPLOAD)
    with pytest.raises(Invalid):
        await api.status(made, **status)


async def test_kubectl_shows_the_promised_columns(api: Api) -> None:
    made = await api.create(Model, UPLOAD)
    await api.status(
        made,
        phase="Ready",
        progress="100%",
        observedSource={"type": "upload"},
        source={"resolvedType": "Upload"},
        artifact=ARTIFACT | {"size": "5 B"},
        resolved={"format": "GGUF"},
        conditions=[
            condition(type="SourceChecked", status="True", reason="SourceAccepted"),
            condition(status="True", reason="Ready"),
        ],
    )

    columns, row = await table(api, made["metadata"]["name"])

    assert columns == {"Name": 0, "Phase": 0, "Reason": 0, "Progress": 0, "Format": 0, "Size": 0, "Age": 0,
                       "Source": 1, "Digest": 1}  # fmt: skip
    shown = dict(zip(columns, row, strict=True))
    assert shown["Reason"] == "Ready"
    assert shown["Size"] == "5 B"
    assert shown["Digest"] == DIGEST


async def table(api: Api, name: str) -> tuple[dict[str, int], list[str]]:
    """Ask for the object as kubectl does."""
    path = Model.KIND.path(api.namespace, name)
    request = api.client._session.build_request(
        "GET", path, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    )
    answer = (await api.client._session.send(request)).json()
    return {one["name"]: one["priority"] for one in answer["columnDefinitions"]}, answer["rows"][0]["cells"]
