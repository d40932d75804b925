"""Every rule for classes and orders against a real API server: what it takes, what it refuses and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.api.classes import InferenceServiceClass
from aiinference.api.orders import InferenceService
from kubekit.client import Client, connect
from kubekit.errors import Invalid, KubeError
from tests.kit.inferenceapi import CHART, CLASS, CLUSTER_MODEL, HUB, MODEL, inference_class, order
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

Spec = dict[str, Any]


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(control_plane: Path) -> AsyncIterator[Client]:
    """Return a client of an API server that has our CRDs; nothing is stored, so that all tests share it."""
    async with connect(control_plane) as client:
        await install_definitions(client, CHART)
        yield client


async def a_class(client: Client, **spec: Any) -> Spec:
    made = await client.create(inference_class("tried", CLASS | spec), dry_run=True)
    found: Spec = made["spec"]
    return found


async def an_order(client: Client, model: Spec, /, name: str = "tried", **spec: Any) -> Spec:
    made = await client.create(order(name, "default", model, **spec), dry_run=True)
    found: Spec = made["spec"]
    return found


# ---- orders: the model ----

HUB_IDS = ["gpt2", "Qwen/Qwen2.5-32B-Instruct-AWQ", "intfloat/multilingual-e5-large", "o/" + "n" * 96]


@pytest.mark.parametrize("name", HUB_IDS)
async def test_a_repository_of_the_hub_is_taken(client: Client, name: str) -> None:
    await an_order(client, HUB | {"ref": {"name": name}})


@pytest.mark.parametrize(
    "name", ["a/b/c", "/b", "a/", "-a/b", "a b", "a/b?x=1", "../../x", "https://hub/x", "o/" + "n" * 97]
)
async def test_what_is_no_repository_is_refused(client: Client, name: str) -> None:
    with pytest.raises(Invalid, match="no id of a repository; write it as owner/name"):
        await an_order(client, HUB | {"ref": {"name": name}})


@pytest.mark.parametrize("model", [MODEL, CLUSTER_MODEL], ids=["Model", "ClusterModel"])
async def test_a_model_of_the_catalogue_is_taken(client: Client, model: Spec) -> None:
    assert (await an_order(client, model))["model"] == model


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5", "UPPER", "-a", "a..b", "a b"])
async def test_what_is_no_name_of_the_catalogue_is_refused(client: Client, name: str) -> None:
    with pytest.raises(Invalid, match="the catalogue has no objects of such a name; give the name"):
        await an_order(client, MODEL | {"ref": {"kind": "Model", "name": name}})


async def test_a_namespace_with_the_hub_is_refused(client: Client) -> None:
    with pytest.raises(Invalid, match=r"ref.namespace: .*belongs to no namespace; remove ref.namespace"):
        await an_order(client, {"src": "HuggingFace", "ref": {"name": "acme/llm", "namespace": "default"}})


async def test_a_namespace_with_a_cluster_model_is_refused(client: Client) -> None:
    ref = {"kind": "ClusterModel", "name": "llm", "namespace": "default"}
    with pytest.raises(Invalid, match=r"a ClusterModel belongs to no namespace; remove ref.namespace"):
        await an_order(client, {"src": "ai-models", "ref": ref})


async def test_a_kind_with_the_hub_is_refused(client: Client) -> None:
    with pytest.raises(Invalid, match=r"no object of the catalogue; remove ref.kind"):
        await an_order(client, {"src": "HuggingFace", "ref": {"name": "acme/llm", "kind": "Model"}})


async def test_a_model_of_the_catalogue_needs_its_kind(client: Client) -> None:
    with pytest.raises(Invalid, match=r"set ref.kind to Model or ClusterModel"):
        await an_order(client, {"src": "ai-models", "ref": {"name": "llm"}})


async def test_a_token_goes_with_the_hub(client: Client) -> None:
    await an_order(client, HUB | {"authSecretRef": {"name": "hf-token"}})
    await an_order(client, HUB | {"authSecretRef": {"name": "hf-token", "key": "HF_TOKEN"}})
    with pytest.raises(Invalid, match="is not fetched from there; remove authSecretRef"):
        await an_order(client, MODEL | {"authSecretRef": {"name": "hf-token"}})


@pytest.mark.parametrize("count", [7_000_000_000, "70B", "32b", "360m", "1.5T", 1])
async def test_a_count_of_parameters_is_a_text_or_a_number(client: Client, count: str | int) -> None:
    assert (await an_order(client, HUB | {"parameterCount": count}))["model"]["parameterCount"] == count
    await a_class(client, modelPolicy={"allowedEndpointTypes": ["Chat"], "maxParameterCount": count})


@pytest.mark.parametrize("count", ["70 B", "0b", "many", "-7B", "7k", 0, -1])
async def test_what_is_no_count_is_refused(client: Client, count: str | int) -> None:
    with pytest.raises(Invalid, match="no number of parameters; write it like 70B"):
        await an_order(client, HUB | {"parameterCount": count})
    with pytest.raises(Invalid, match="no number of parameters; write it like 70B"):
        await a_class(client, modelPolicy={"allowedEndpointTypes": ["Chat"], "maxParameterCount": count})


# ---- orders: the rest ----


@pytest.mark.parametrize("name", ["a", "support-llm", "a" * 52, "llm2"])
async def test_a_name_that_a_service_can_have_is_taken(client: Client, name: str) -> None:
    await an_order(client, HUB, name)


async def test_a_name_without_room_for_suffixes_is_refused(client: Client) -> None:
    with pytest.raises(Invalid, match=r"too long: .*choose a name of at most 52 characters"):
        await an_order(client, HUB, "a" * 53)


@pytest.mark.parametrize("name", ["2fast", "a.b", "a--b"])
async def test_a_name_that_no_service_or_host_can_have_is_refused(client: Client, name: str) -> None:
    with pytest.raises(Invalid, match="use lower-case letters, digits and single dashes"):
        await an_order(client, HUB, name)


@pytest.mark.parametrize("classes", [["nvidia-h100-mps-mig"], ["a", "b"], [f"class-{n}" for n in range(64)]])
async def test_device_classes_are_taken(client: Client, classes: list[str]) -> None:
    await an_order(client, HUB, resources={"accelerator": {"deviceClasses": classes}})


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([], "an empty list would allow no device; name a DeviceClass"),
        (["a", "a"], "Duplicate value"),
        (["A B"], "deviceClasses"),
        ([f"class-{n}" for n in range(65)], "at most 64 items"),
    ],
    ids=["empty", "twice", "name", "many"],
)
async def test_other_lists_of_device_classes_are_refused(
    client: Client, classes: list[str], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        await an_order(client, HUB, resources={"accelerator": {"deviceClasses": classes}})


@pytest.mark.parametrize("strategy", ["Latency", "Throughput", "Balance"])
async def test_a_strategy_is_taken(client: Client, strategy: str) -> None:
    await an_order(client, HUB, launchStrategy=strategy, inferenceServiceClassName="default-llm")


@pytest.mark.parametrize(
    "spec",
    [
        {"launchStrategy": "Fast"},
        {"inferenceServiceClassName": ""},
        {"inferenceServiceClassName": "Not A Name"},
        {"model": {"src": "Ollama", "ref": {"name": "llm"}}},
        {"model": {"src": "HuggingFace"}},
        {"model": {"ref": {"name": "llm"}}},
        {"model": HUB | {"ref": {"name": ""}}},
        {"model": HUB | {"ref": {"name": "x" * 254}}},
        {"model": HUB | {"authSecretRef": {"name": "s", "key": "a b"}}},
        {"model": MODEL | {"ref": {"kind": "Secret", "name": "llm"}}},
    ],
)
async def test_words_and_texts_outside_their_bounds_are_refused(client: Client, spec: Spec) -> None:
    with pytest.raises(Invalid):
        await an_order(client, spec.pop("model", HUB), **spec)


# ---- unknown fields ----

RUNTIME: Spec = {"runtime": {"image": "x", "args": ["--yes"]}}


async def test_a_runtime_block_is_refused_when_fields_are_validated(client: Client) -> None:
    path = InferenceService.KIND.path("default")
    manifest = order("tried", "default", HUB, **RUNTIME)
    with pytest.raises(KubeError, match=r'unknown field "spec.runtime"'):
        await client.request(
            "POST", path, body=manifest, params={"fieldValidation": "Strict", "dryRun": "All"}
        )


async def test_a_runtime_block_is_pruned_otherwise(client: Client) -> None:
    assert "runtime" not in await an_order(client, HUB, **RUNTIME)
    assert "replicas" not in await a_class(client, replicas=3)


# ---- classes ----


@pytest.mark.parametrize("types", [["Chat"], ["Rerank", "Chat"], ["Chat", "Embeddings", "Rerank"]])
async def test_endpoint_types_keep_their_order(client: Client, types: list[str]) -> None:
    made = await a_class(client, modelPolicy={"allowedEndpointTypes": types})
    assert made["modelPolicy"]["allowedEndpointTypes"] == types


@pytest.mark.parametrize("spec", [{}, {"modelPolicy": {}}, {"modelPolicy": {"allowedEndpointTypes": []}}])
async def test_a_class_without_endpoint_types_is_refused(client: Client, spec: Spec) -> None:
    with pytest.raises(Invalid, match=r"would get no inference API, .*; list Chat, Embeddings or Rerank"):
        await client.create(inference_class("tried", spec), dry_run=True)


@pytest.mark.parametrize("types", [["Chat", "Chat"], ["TextGeneration"], ["chat"], [""]])
async def test_other_endpoint_types_are_refused(client: Client, types: list[str]) -> None:
    with pytest.raises(Invalid, match="allowedEndpointTypes"):
        await a_class(client, modelPolicy={"allowedEndpointTypes": types})


ISSUER = {"certManager": {"clusterIssuerName": "selfsigned"}}
SECRET = {"customCertificate": {"secretName": "wildcard"}}
HTTPS = [
    {"mode": "CertManager"} | ISSUER,
    {"mode": "CustomCertificate"} | SECRET,
    {"mode": "OnlyInURI"},
    {"mode": "Disabled"},
]


@pytest.mark.parametrize("https", HTTPS, ids=lambda https: https["mode"])
async def test_a_certificate_that_fits_its_mode_is_taken(client: Client, https: Spec) -> None:
    await a_class(client, exposurePolicy={"type": "External", "https": https})


@pytest.mark.parametrize("https", HTTPS, ids=lambda https: https["mode"])
async def test_a_certificate_inside_the_cluster_is_refused(client: Client, https: Spec) -> None:
    await a_class(client, exposurePolicy={"type": "ClusterLocal", "authentication": "None"})
    with pytest.raises(Invalid, match="so no certificate; remove https, or set type: External"):
        await a_class(client, exposurePolicy={"type": "ClusterLocal", "https": https})


@pytest.mark.parametrize(
    ("https", "message"),
    [
        ({"mode": "CertManager"}, "mode CertManager needs a ClusterIssuer; name it in certManager"),
        (
            {"mode": "CustomCertificate"},
            "needs the Secret with the certificate; name it in customCertificate",
        ),
        *[
            (
                {"mode": mode} | ISSUER,
                "certManager belongs to mode CertManager and would be ignored; remove it",
            )
            for mode in ("OnlyInURI", "Disabled")
        ],
        *[
            ({"mode": mode} | SECRET, "customCertificate belongs to mode CustomCertificate .*; remove it")
            for mode in ("OnlyInURI", "Disabled")
        ],
        ({"mode": "CertManager"} | ISSUER | SECRET, "customCertificate belongs to mode CustomCertificate"),
        ({"mode": "CustomCertificate"} | ISSUER | SECRET, "certManager belongs to mode CertManager"),
        ({"mode": "CertManager"} | SECRET, "mode CertManager needs a ClusterIssuer"),
        (ISSUER, "https.mode: Required value"),
        ({"mode": "LetsEncrypt"}, "https.mode: Unsupported value"),
    ],
)
async def test_a_certificate_that_does_not_fit_is_refused(client: Client, https: Spec, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        await a_class(client, exposurePolicy={"type": "External", "https": https})


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"minSharePercent": 25, "maxSharePercent": 25},
        {"minSharePercent": 1, "maxSharePercent": 100},
        {"maxSharePercent": 40},
        {"allowedSharingModes": ["Shared"], "allowedPlacementTypes": ["WholeDevice"], "fallback": "CPU"},
        {"allowedDeviceClasses": ["nvidia-h100-mps-mig"], "maxAcceleratorCount": 2, "fallback": "None"},
    ],
)
async def test_an_accelerator_policy_is_taken(client: Client, policy: Spec) -> None:
    assert (await a_class(client, acceleratorPolicy=policy))["acceleratorPolicy"] == policy


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            {"minSharePercent": 60, "maxSharePercent": 25},
            "minSharePercent is above maxSharePercent, .*; lower",
        ),
        ({"minSharePercent": 0}, "minSharePercent"),
        ({"maxSharePercent": 101}, "maxSharePercent"),
        ({"maxAcceleratorCount": 0}, "maxAcceleratorCount"),
        ({"allowedDeviceClasses": []}, "an empty list would allow no device"),
        ({"allowedDeviceClasses": ["a", "a"]}, "Duplicate value"),
        ({"allowedSharingModes": []}, "an empty list would allow no device"),
        ({"allowedSharingModes": ["Exclusive"]}, "Unsupported value"),
        ({"allowedPlacementTypes": []}, "an empty list would allow no device"),
        ({"allowedPlacementTypes": ["Partition", "Partition"]}, "Duplicate value"),
        ({"fallback": "GPU"}, "Unsupported value"),
    ],
)
async def test_another_accelerator_policy_is_refused(client: Client, policy: Spec, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        await a_class(client, acceleratorPolicy=policy)


@pytest.mark.parametrize(
    "spec",
    [
        {"admissionPolicy": {"allowedNamespaces": ["*"]}},
        {"admissionPolicy": {"allowedNamespaces": ["support", "ml"]}},
        {"scalingPolicy": {"minReplicas": 1, "maxReplicas": 1}},
        {"scalingPolicy": {"minReplicas": 2}},
        {"scalingPolicy": {"allowedPriorityClassNames": ["demo-inference-high"], "maxReplicas": 4}},
        {"updatePolicy": {"strategy": "Recreate"}},
        {"updatePolicy": {"strategy": "OnDelete"}},
        {"updatePolicy": {"strategy": "RollingUpdate"}},
    ],
)
async def test_the_other_policies_are_taken(client: Client, spec: Spec) -> None:
    (policy,) = spec
    assert (await a_class(client, **spec))[policy] == spec[policy]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"admissionPolicy": {"allowedNamespaces": []}}, "would let nobody order; name a namespace"),
        (
            {"admissionPolicy": {"allowedNamespaces": ["team-*"]}},
            'no name of a namespace; give one name, or "*"',
        ),
        ({"admissionPolicy": {"allowedNamespaces": ["a" * 64]}}, "allowedNamespaces"),
        ({"admissionPolicy": {"allowedNamespaces": ["a", "a"]}}, "Duplicate value"),
        ({"admissionPolicy": {"allowedNamespaces": [f"n-{n}" for n in range(257)]}}, "at most 256 items"),
        (
            {"scalingPolicy": {"minReplicas": 3, "maxReplicas": 2}},
            "minReplicas is above maxReplicas, .*; lower",
        ),
        ({"scalingPolicy": {"minReplicas": 0}}, "minReplicas"),
        ({"scalingPolicy": {"maxReplicas": 1001}}, "maxReplicas"),
        ({"scalingPolicy": {"allowedPriorityClassNames": []}}, "names no PriorityClass; name one"),
        ({"updatePolicy": {"strategy": "Canary"}}, "Unsupported value"),
        ({"exposurePolicy": {"authentication": "Token"}}, "exposurePolicy.type: Required value"),
        ({"exposurePolicy": {"type": "Public"}}, "Unsupported value"),
        ({"exposurePolicy": {"type": "External", "authentication": "Basic"}}, "Unsupported value"),
    ],
)
async def test_the_other_policies_are_held_to_their_bounds(client: Client, spec: Spec, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        await a_class(client, **spec)


async def test_short_names_lead_to_the_kinds(client: Client) -> None:
    group = await client.request("GET", "/apis/ai.deckhouse.io/v1alpha1")
    for kind, short in ((InferenceService, b'"infs"'), (InferenceServiceClass, b'"infsc"')):
        assert short in group, kind
