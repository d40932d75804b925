"""Which recipe a model gets, what its layers become, and the line that starts the engine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.reasons import EndpointType, LaunchStrategy
from aiinference.recipes import command
from aiinference.recipes.catalogue import Catalogue, Engine, Layer, RecipeSource, Record, shipped
from aiinference.recipes.choose import Wanted, choose, endpoint
from aiinference.recipes.merge import merged
from tests.kit.vectors import cases

CHAT, LATENCY = EndpointType.CHAT, LaunchStrategy.LATENCY
WANTED = Wanted(format="GGUF", family="qwen3", model="mine", endpoint=CHAT, hardware="cpu")


def record(name: str, **more: Any) -> Record:
    shape = {
        "name": name,
        "engine": "llama.cpp",
        "match": {"formats": ["GGUF"]},
        "variants": {"Chat": {}},
        "hardware": {"cpu": {}},
    }
    return msgspec.convert(shape | more, Record)


def catalogue(*records: Record) -> Catalogue:
    return msgspec.structs.replace(shipped(), recipes=records)


#: the others speak of the class, or of files
LOOKUPS = [one for one in cases("recipes.json", "lookup-order") if "preset" in one.values[0]["input"]]


@pytest.mark.parametrize("case", LOOKUPS)
def test_sources_are_preferred_in_their_order(case: dict[str, Any]) -> None:
    given_, expected = case["input"], case["expected"]
    sources = [
        source
        for source, there in (
            (RecipeSource.FALLBACK, True),
            (RecipeSource.PRESET, given_["preset"]),
            (RecipeSource.COMPILED, given_["compiled_record"]),
        )
        if there
    ]
    found = choose(
        catalogue(*(record(f"a-{source}", source=source) for source in sources)),
        Wanted("GGUF", None, "mine", CHAT, "cpu", fallback=given_["fallback_enabled"]),
    )
    assert (found.source if found else None) == expected.get("recipe_source")


def test_a_recipe_that_names_more_is_preferred() -> None:
    found = [
        record("a-any"),
        record("b-family", match={"formats": ["GGUF"], "families": ["qwen3"]}),
        record("c-model", match={"formats": ["GGUF"], "families": ["qwen3"], "models": ["mine"]}),
    ]
    for most in (3, 2, 1):
        chosen = choose(catalogue(*found[:most]), WANTED)
        assert chosen is found[most - 1]


@given(st.permutations([record("x"), record("y"), record("z", source="preset")]))
def test_the_choice_does_not_depend_on_the_order_of_recipes(records: list[Record]) -> None:
    chosen = choose(catalogue(*records), WANTED)
    assert chosen is not None
    assert chosen.name == "x"


@pytest.mark.parametrize(
    "other",
    [
        {"match": {"formats": ["Safetensors"]}},
        {"match": {"formats": ["GGUF"], "families": ["llama"]}},
        {"match": {"formats": ["GGUF"], "models": ["another"]}},
        {"variants": {"Rerank": {}}},
        {"hardware": {"hopper": {}}},
    ],
)
def test_a_recipe_for_something_else_is_not_taken(other: dict[str, Any]) -> None:
    assert choose(catalogue(record("other", **other)), WANTED) is None


@pytest.mark.parametrize(
    ("asked", "supported", "expected"),
    [
        (EndpointType.RERANK, ["Chat"], "Rerank"),
        (None, ["TextGeneration", "Rerank", "Embeddings"], "Embeddings"),
        (None, ["Chat", "Embeddings"], "Chat"),
        (None, [], "Chat"),
    ],
)
def test_an_order_that_asks_for_no_api_gets_the_models_first(
    asked: EndpointType | None, supported: list[str], expected: str
) -> None:
    assert endpoint(asked, supported) == expected


def test_a_later_layer_wins_in_the_order_of_the_catalogue_algorithm() -> None:
    (case,) = [one.values[0] for one in cases("recipes.json", "catalogue-algorithm") if "order" in str(one)]
    order = [layer for layer in case["expected"]["order"] if layer != "feature"]

    def layer(name: str) -> dict[str, Any]:
        later = order[order.index(name) :]
        return {"arguments": {f"--{one}": name for one in later}, "env": {one.upper(): name for one in later}}

    layered = record(
        "layered",
        base=layer("base"),
        variants={"Chat": layer("variant") | {"strategies": {"Latency": layer("strategy")}}},
        hardware={"cpu": layer("hardware")},
    )
    whole = merged(layered, CHAT, "cpu", LATENCY)
    assert whole.arguments == {f"--{name}": name for name in order}
    assert whole.env == {name.upper(): name for name in order}


def test_null_takes_an_option_out_and_another_strategy_does_not_count() -> None:
    layered = record(
        "layered",
        base={"arguments": {"--a": 1, "--b": 2}, "sizing": {"parallel": 1, "contextTokens": 4096}},
        variants={
            "Chat": {
                "strategies": {
                    "Latency": {"arguments": {"--a": None}, "sizing": {"parallel": 3}},
                    "Throughput": {"arguments": {"--b": None}, "sizing": {"parallel": 9}},
                }
            }
        },
    )
    whole = merged(layered, CHAT, "cpu", LATENCY)
    assert whole.arguments == {"--b": 2}
    assert (whole.sizing.parallel, whole.sizing.context_tokens) == (3, 4096)


ENGINE = msgspec.structs.replace(shipped().engines[0], entrypoint=("/bin/engine",))


def line(arguments: dict[str, Any], engine: Engine = ENGINE, **values: Any) -> tuple[str, ...]:
    return command.line(engine, Layer(arguments=arguments), values)


def test_the_line_begins_with_the_entrypoint_and_fills_in_what_is_known() -> None:
    words = line({"--model": "{model}", "--on": True, "--off": False, "--n": 3}, model="/m")
    assert words == ("/bin/engine", "--model", "/m", "--on", "--n", "3")


def test_an_option_whose_value_is_not_known_is_left_out() -> None:
    assert line({"--pooling": "{pooling}", "--n": 0}, pooling=None) == ("/bin/engine", "--n", "0")


def test_a_value_is_not_filled_in_again() -> None:
    assert line({"--alias": "{name}"}, name="{model}", model="/m") == ("/bin/engine", "--alias", "{model}")
