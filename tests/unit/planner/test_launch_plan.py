"""The plan: pure, the same for the same, and either whole or a reason with numbers."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiinference.api.reasons import EndpointType, LaunchStrategy
from aiinference.planner.contract import Answer, LaunchPlan, LaunchRequest, Refusal
from aiinference.planner.inventory import Accelerator, Inventory
from aiinference.planner.plan import Recipes, on_processor, plan
from aiinference.recipes.catalogue import shipped
from tests.kit.launchplans import IMAGES, MODEL, RECIPES, planned, refused, request
from tools.engine_options import Options

GIB = 1 << 30
LARGE = {"parameterCount": 70 * 10**9, "sizeBytes": 43 * GIB, "facts": {}, "architecture": "llama"}
STRATEGIES = [str(strategy) for strategy in LaunchStrategy]
ENDPOINTS = [str(endpoint) for endpoint in EndpointType]


def option(found: LaunchPlan, name: str) -> str | None:
    command = found.recipe.command
    return command[command.index(name) + 1] if name in command else None


def test_a_plan_says_all_that_a_pod_needs() -> None:
    found = planned(request())
    recipe = found.recipe
    assert msgspec.to_builtins(found.resolved) == {"deviceClass": "cpu"}
    assert (recipe.engine, recipe.engine_version, recipe.image) == ("llama.cpp", "b11549", IMAGES["llama"])
    assert recipe.command[:2] == ("/usr/bin/python3", "/opt/llama/serve.py")
    assert recipe.model_path == "/data/modelcache/models/gemma" == option(found, "--model")
    assert (option(found, "--alias"), option(found, "--host")) == ("gemma", "127.0.0.1")
    assert int(option(found, "--port") or 0) == recipe.ports["http"] == 8001
    assert recipe.resources.cpu == "1" == option(found, "--threads")
    assert recipe.resources.memory_bytes == found.need.total_bytes
    assert found.recipe_source == "compiled"
    assert found.accelerator_count == 0


@pytest.mark.parametrize(("endpoint", "strategy"), list(itertools.product([None, *ENDPOINTS], STRATEGIES)))
def test_every_line_is_one_that_the_engine_takes(endpoint: str | None, strategy: str) -> None:
    found = planned(request(endpointType=endpoint, launchStrategy=strategy))
    assert Options.read("llama-server-b11549").problems(found.recipe.command[2:]) == []
    assert int(option(found, "--ctx-size") or 0) == found.recipe.context_tokens * found.recipe.parallel


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_the_strategies_really_differ(endpoint: str) -> None:
    latency, balance, throughput = (
        planned(request(endpointType=endpoint, launchStrategy=strategy)).recipe
        for strategy in ("Latency", "Balance", "Throughput")
    )
    assert len({latency.command, balance.command, throughput.command}) == 3
    assert latency.parallel < balance.parallel < throughput.parallel
    assert latency.context_tokens >= throughput.context_tokens


def test_the_strategy_of_an_order_that_names_none_is_latency() -> None:
    assert planned(request()) == planned(request(launchStrategy="Latency"))


@pytest.mark.parametrize(
    ("endpoint", "options"),
    [("Chat", set()), ("Embeddings", {"--embedding", "--pooling"}), ("Rerank", {"--rerank"})],
)
def test_each_api_is_started_as_such(endpoint: str, options: set[str]) -> None:
    found = planned(request(endpointType=endpoint)).recipe.command
    assert {word for word in found if word in {"--embedding", "--pooling", "--rerank"}} == options


@pytest.mark.parametrize(
    ("facts", "architecture", "pooling", "batch"),
    [
        ({}, "gemma3", "last", "256"),
        ({}, "bert", "mean", "2048"),
        ({"pooling": "none"}, "gemma3", "last", "256"),
        ({"pooling": "last"}, "qwen3", None, "256"),
        ({"pooling": "cls"}, "bert", None, "2048"),
    ],
)
def test_an_input_is_pooled_as_the_model_says_within_one_step_where_it_has_to_be(
    facts: dict[str, Any], architecture: str, pooling: str | None, batch: str
) -> None:
    model = {"facts": MODEL["facts"] | facts, "architecture": architecture}
    found = planned(request(model, endpointType="Embeddings"))
    assert option(found, "--pooling") == pooling
    assert option(found, "--ubatch-size") == option(found, "--batch-size") == batch


def test_a_context_is_never_longer_than_the_models() -> None:
    found = planned(request({"contextWindowTokens": 4096}))
    assert found.recipe.context_tokens == 4096


def test_a_context_is_cut_until_the_replica_fits() -> None:
    facts = {"layers": 80, "keyValueHeads": 32, "headDim": 128, "weightBytes": 10 * GIB}
    model = {"facts": facts, "architecture": "llama", "sizeBytes": 10 * GIB}
    found = planned(request(model))
    assert 2048 <= found.recipe.context_tokens < 16384
    assert found.need.total_bytes <= 32 * GIB


def test_more_weights_get_more_cores() -> None:
    cores = [
        planned(request({"facts": {"weightBytes": size}, "sizeBytes": size})).recipe.resources.cpu
        for size in (GIB // 2, 2 * GIB, 5 * GIB, 12 * GIB)
    ]
    assert cores == ["1", "2", "4", "8"]


@pytest.mark.parametrize("endpoint", ["Embeddings", "Rerank"])
def test_an_order_without_a_class_is_served_as_its_model_can_be(endpoint: str) -> None:
    able = {"supportedEndpointTypes": ["TextGeneration", endpoint]}
    assert planned(request(able, endpointType=None)) == planned(request(able, endpointType=endpoint))


def test_a_class_without_accelerator_policy_gets_the_same_plan_by_the_same_code() -> None:
    asked = request(accelerator={})
    assert on_processor(asked, RECIPES) == planned(request())


def test_an_unknown_geometry_is_replaced_by_the_number_of_parameters() -> None:
    facts = {"weightBytes": MODEL["facts"]["weightBytes"]}
    found = planned(request({"facts": facts}))
    assert (found.need.source, planned(request()).need.source) == ("parameters", "geometry")
    assert found.need.total_bytes > planned(request()).need.total_bytes


def test_a_size_that_the_order_tells_will_do() -> None:
    unknown = {"parameterCount": None, "sizeBytes": None, "facts": None}
    found = planned(request(unknown, parameterCount=8 * 10**9))
    assert found.need.weights_bytes == 4_890_000_000


# refusals


def test_no_size_at_all_is_no_plan() -> None:
    found = refused(request({"parameterCount": None, "sizeBytes": None, "facts": None}))
    assert found.reason == "NoCompatibleRuntimeAvailable"
    assert "spec.model.parameterCount" in found.next_step


@pytest.mark.parametrize("kind", ["Safetensors", "Diffusers", None])
def test_a_format_without_a_recipe_is_refused(kind: str | None) -> None:
    found = refused(request({"format": kind}))
    assert found.reason == "NoCompatibleRuntimeAvailable"
    assert "GGUF" in found.next_step


def test_a_type_of_weights_that_the_engine_does_not_read_is_refused() -> None:
    found = refused(request({"quantization": "TQ9_X"}))
    assert found.reason == "QuantizationMismatch"
    assert "TQ9_X" in found.message


def test_a_type_of_weights_that_is_not_known_is_tried() -> None:
    assert planned(request({"quantization": None}))


def test_a_need_above_the_limit_is_told_in_numbers() -> None:
    found = refused(request(LARGE))
    assert found.reason == "NoCapacity"
    (candidate,) = found.candidates
    assert candidate.device_class == "cpu"
    assert candidate.available_gib == 32
    assert candidate.need_gib is not None
    assert candidate.missing_gib == pytest.approx(candidate.need_gib - 32, abs=0.02)
    assert "weights 43.0" in found.message
    assert "launchStrategy" not in found.next_step


def test_the_strategy_that_would_do_is_named() -> None:
    facts = {"layers": 64, "keyValueHeads": 32, "headDim": 128, "weightBytes": 15 * GIB}
    model = {"facts": facts, "architecture": "llama", "sizeBytes": 15 * GIB}
    found = refused(request(model, launchStrategy="Throughput"))
    assert "Set launchStrategy Latency" in found.next_step
    assert planned(request(model, launchStrategy="Latency"))


def test_a_cluster_without_accelerators_and_a_class_without_fallback_have_no_capacity() -> None:
    found = refused(request(accelerator={}))
    assert found.reason == "NoCapacity"
    assert "acceleratorPolicy.fallback" in found.next_step


def test_an_engine_without_an_image_is_refused() -> None:
    found = plan(request(), Recipes(shipped(), {}), Inventory())
    assert isinstance(found, Refusal)
    assert "llama" in found.next_step


CARDS = (
    Accelerator("node-a-0", "NVIDIA L4", 24 * GIB),
    Accelerator("node-b-0", "NVIDIA T4", 15 * GIB),
    Accelerator("node-c-0", "a device without a driver"),
)


def test_a_card_that_holds_the_model_lacks_a_recipe() -> None:
    found = refused(request(), Inventory(CARDS))
    assert found.reason == "NoCompatibleRuntimeAvailable"
    assert {one.reason for one in found.candidates} == {"NoCompatibleRuntimeAvailable"}


def test_cards_that_are_all_too_small_are_no_capacity_with_numbers() -> None:
    found = refused(request(LARGE), Inventory(CARDS[:2]))
    assert found.reason == "NoCapacity"
    assert [(one.name, one.available_gib, one.missing_gib) for one in found.candidates] == [
        ("node-a-0", 24, 19),
        ("node-b-0", 15, 28),
    ]


def test_the_furthest_candidate_decides_the_reason() -> None:
    found = refused(request(LARGE), Inventory(CARDS))
    assert found.reason == "NoCompatibleRuntimeAvailable"
    assert found.candidates[0].name == "node-c-0"


def test_a_refusal_stays_short_in_a_large_cluster() -> None:
    many = tuple(Accelerator(f"gpu-{number}", "NVIDIA T4", 15 * GIB) for number in range(5000))
    found = refused(request(LARGE), Inventory(many))
    assert len(found.candidates) == 32
    assert len(msgspec.json.encode(found)) < 16384


# properties

MODELS = st.fixed_dictionaries(
    {
        "name": st.just("m"),
        "format": st.sampled_from(["GGUF", "Safetensors"]),
        "architecture": st.sampled_from(["llama", "gemma3", "bert", "qwen3"]),
    },
    optional={
        "parameterCount": st.integers(1, 10**12),
        "sizeBytes": st.integers(1, 10**12),
        "quantization": st.sampled_from(["Q4_K_M", "Q8_0", "unheard"]),
        "contextWindowTokens": st.integers(1, 10**7),
        "facts": st.dictionaries(
            st.sampled_from(
                ["layers", "hiddenSize", "keyValueHeads", "headDim", "slidingWindow", "weightBytes"]
            ),
            st.integers(-5, 10**12),
        ),
    },
)
REQUESTS = st.builds(
    lambda **parts: msgspec.convert(parts, LaunchRequest),
    model=MODELS,
    endpointType=st.sampled_from([None, *ENDPOINTS]),
    launchStrategy=st.sampled_from(STRATEGIES),
    accelerator=st.sampled_from([{}, {"fallback": "CPU"}]),
)
DEVICES = st.lists(
    st.builds(
        Accelerator,
        st.text("abc", min_size=1, max_size=3),
        st.sampled_from(["L4", "T4"]),
        st.one_of(st.none(), st.integers(1, 200 * GIB)),
    ),
    max_size=6,
    unique_by=lambda one: one.name,
)


@given(REQUESTS, DEVICES, st.randoms())
@settings(max_examples=200)
def test_the_answer_depends_on_nothing_but_what_is_asked(
    asked: LaunchRequest, devices: list[Accelerator], random: Any
) -> None:
    first = plan(asked, RECIPES, Inventory(tuple(devices)))
    random.shuffle(devices)
    shuffled = msgspec.structs.replace(shipped(), recipes=shipped().recipes[::-1])
    assert plan(asked, Recipes(shuffled, IMAGES), Inventory(tuple(devices))) == first
    assert msgspec.json.decode(msgspec.json.encode(first), type=Answer) == first


@given(REQUESTS)
@settings(max_examples=200)
def test_what_is_planned_is_within_the_limit_and_what_is_not_says_why(asked: LaunchRequest) -> None:
    found = plan(asked, RECIPES, Inventory())
    if isinstance(found, LaunchPlan):
        assert found.need.total_bytes <= 32 * GIB
        assert found.recipe.context_tokens % 256 == 0
        assert Options.read("llama-server-b11549").problems(found.recipe.command[2:]) == []
    else:
        assert found.message
        assert found.next_step
        assert len(found.message) < 1024
