"""The class's policy against the model's facts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.reasons import EndpointType, ModelScope, OrderReason
from aiinference.models.matrix import resolve, within
from aiinference.models.outcomes import Refusal, Resolution
from tests.kit.ordersmodels import DEFAULT_TYPES, model_facts, order, policy
from tests.kit.vectors import cases

BILLION = 10**9
CATALOGUE_TYPES = (
    "Chat",
    "TextGeneration",
    "Embeddings",
    "Rerank",
    "SpeechToText",
    "ImageToText",
    "VideoGeneration",
)


def resolved(*arguments: Any) -> Resolution:
    found = resolve(*arguments)
    assert isinstance(found, Resolution)
    return found


def refused(*arguments: Any) -> Refusal:
    found = resolve(*arguments)
    assert isinstance(found, Refusal)
    return found


@pytest.mark.parametrize("case", cases("allocator.json", "endpoint-choice"))
def test_the_vectors_of_the_choice(case: dict[str, Any]) -> None:
    types = case["input"]["catalog_endpoint_types"]
    facts = None if types is None else model_facts(supported_endpoint_types=tuple(types))
    found = resolve(policy("llm", *case["input"]["class_list"]), facts, order())
    if "endpoint_type" in case["expected"]:
        assert isinstance(found, Resolution)
        assert found.endpoint_type == case["expected"]["endpoint_type"]
    else:
        assert isinstance(found, Refusal)
        assert found.reason == OrderReason.ENDPOINT_TYPE_NOT_SUPPORTED


SIZES = [
    case for case in cases("name-parsing.json", None) if case.values[0].get("pitfall") == "size-precedence"
]


@pytest.mark.parametrize("case", SIZES)
def test_the_vectors_of_who_knows_the_size(case: dict[str, Any]) -> None:
    known = case["catalog_parameter_count"]
    facts = model_facts(case["name"], parameter_count=known)
    ordered = order(case["name"], parameter_count=case["order_parameter_count"])
    assert resolved(policy(), facts, ordered).parameter_count == case["expected"]["params"]


def test_a_refusal_names_what_the_model_can_do_and_what_the_class_allows() -> None:
    found = refused(policy("llm", "Chat"), model_facts(supported_endpoint_types=("Embeddings",)), order())
    assert "llm allows Chat" in found.message
    assert "asked for Embeddings" in found.message


def test_a_model_that_tells_nothing_of_its_use_is_served_as_the_class_likes_best() -> None:
    assert resolved(policy(), model_facts(), order()).endpoint_type is EndpointType.CHAT


def test_what_a_newer_class_allows_is_passed_over() -> None:
    found = resolved(policy("new", "SpeechToText", "Chat"), model_facts(), order())
    assert found.endpoint_type is EndpointType.CHAT
    only = refused(policy("new", "SpeechToText"), model_facts(), order())
    assert only.reason is OrderReason.ENDPOINT_TYPE_NOT_SUPPORTED


def test_without_a_class_nothing_is_chosen_and_nothing_limited() -> None:
    facts = model_facts(supported_endpoint_types=("SpeechToText",), parameter_count=10**12)
    assert resolved(policy(None), facts, order()) == Resolution(None, ModelScope.CLUSTER, 10**12)


def test_the_scope_is_the_catalogues() -> None:
    assert resolved(policy(), model_facts(namespace="support"), order()).scope is ModelScope.NAMESPACED
    assert resolved(policy(), None, order(src="HuggingFace", kind=None)).scope is None


def test_an_embedder_from_the_hub_is_served_as_chat_and_nobody_refuses() -> None:
    ordered = order("intfloat/multilingual-e5-large", src="HuggingFace", kind=None)
    assert resolved(policy(), None, ordered) == Resolution(EndpointType.CHAT, None, None)


@pytest.mark.parametrize(
    ("limit", "size", "fits"),
    [
        (70 * BILLION, 70_553_706_496, True),  # Llama-3.3-70B
        (70 * BILLION, 72_706_203_648, False),  # Qwen2.5-72B
        (7 * BILLION, 7_615_616_512, True),  # Qwen2.5-7B
        (7 * BILLION, 8_030_261_248, False),  # Llama-3.1-8B
        (32 * BILLION, 32_763_876_352, True),  # Qwen2.5-32B
        (1_500_000_000, 1_543_714_304, True),  # Qwen2.5-1.5B
        (1_500_000_000, 1_720_574_976, False),  # Qwen3-1.7B
        (360_000_000, 360_999_999, True),
        (360_000_000, 361_821_120, False),  # written to the million
        (2_400 * BILLION, 2_400 * BILLION, True),
        (1, 1, True),
        (1, 2, False),
    ],
)
def test_a_limit_is_as_precise_as_it_is_written(limit: int, size: int, *, fits: bool) -> None:
    assert within(limit, size) is fits
    found = resolve(policy(max_parameter_count=limit), model_facts(parameter_count=size), order())
    assert isinstance(found, Resolution) is fits
    if isinstance(found, Refusal):
        assert found.reason is OrderReason.PARAMETER_COUNT_EXCEEDED


@given(st.integers(1, 10**15), st.integers(1, 10**15))
def test_a_limit_lets_all_below_it_through_and_never_a_billion_more(limit: int, size: int) -> None:
    if size <= limit:
        assert within(limit, size)
    if size >= limit + BILLION:
        assert not within(limit, size)


#: source, the catalogue's fact, what the order says, the model's name -> what a limit of 70B makes of it
WHO_COUNTS = [
    ("ai-models", 32 * BILLION, None, "lm", None),
    ("ai-models", 72 * BILLION, "7B", "lm-7b", "ParameterCountExceeded"),
    ("ai-models", 32 * BILLION, "405B", "lm-405b", None),
    ("ai-models", None, None, "lm-32b", None),
    ("ai-models", None, None, "lm-72b", "ParameterCountExceeded"),
    ("ai-models", None, "7B", "lm-72b", "ParameterCountExceeded"),
    ("ai-models", None, "405B", "lm-7b", None),
    ("ai-models", None, None, "lm", "ParameterCountUnknown"),
    ("ai-models", None, "7B", "lm", "ParameterCountUnknown"),
    ("HuggingFace", None, "7B", "acme/lm", None),
    ("HuggingFace", None, "72B", "acme/lm-7b", "ParameterCountExceeded"),
    ("HuggingFace", None, "7B", "acme/lm-72b", None),
    ("HuggingFace", None, None, "acme/lm-72b", "ParameterCountExceeded"),
    ("HuggingFace", None, None, "acme/lm", "ParameterCountUnknown"),
]


@pytest.mark.parametrize(("src", "known", "said", "name", "reason"), WHO_COUNTS)
def test_whose_word_on_the_size_counts_against_a_limit(
    src: str, known: int | None, said: str | None, name: str, reason: str | None
) -> None:
    """In the catalogue its fact, then the name; straight from the hub what the order says, then the name."""
    facts = model_facts(name, parameter_count=known) if src == "ai-models" else None
    found = resolve(
        policy(max_parameter_count=70 * BILLION), facts, order(name, src=src, parameter_count=said)
    )
    assert (found.reason if isinstance(found, Refusal) else None) == reason


def test_what_the_order_says_of_a_size_is_planned_with_when_the_catalogue_tells_none() -> None:
    assert resolved(policy(), model_facts(), order(parameter_count="7B")).parameter_count == 7 * BILLION
    assert resolved(policy(), model_facts("chat-large"), order("chat-large")).parameter_count is None


def test_a_size_that_nobody_tells_comes_with_a_next_step_that_helps() -> None:
    limited = policy(max_parameter_count=70 * BILLION)
    stored = refused(limited, model_facts("chat-large"), order("chat-large", parameter_count="7B"))
    assert "does not count" in stored.message
    assert "class without a limit" in stored.message
    hub = refused(limited, None, order("acme/chat-large", src="HuggingFace", kind=None))
    assert "Set spec.model.parameterCount" in hub.message


def test_a_size_that_cannot_be_read_is_told() -> None:
    found = refused(policy(), model_facts(), order(parameter_count="many"))
    assert found.reason is OrderReason.PARAMETER_COUNT_UNKNOWN
    assert "'many'" in found.message


TYPES = st.lists(st.sampled_from(CATALOGUE_TYPES), unique=True).map(tuple)
FACTS = st.builds(
    model_facts, supported_endpoint_types=TYPES, parameter_count=st.none() | st.integers(1, 10**13)
)
POLICIES = st.builds(
    lambda types, most, classless: policy(None if classless else "llm", *types, max_parameter_count=most),
    st.lists(st.sampled_from(DEFAULT_TYPES), unique=True, min_size=1),
    st.none() | st.integers(1, 10**13),
    st.booleans(),
)
ORDERS = st.builds(
    order, st.sampled_from(["lm", "lm-7b", "qwen2-5-32b"]), parameter_count=st.none() | st.just("14B")
)


@given(POLICIES, st.none() | FACTS, ORDERS)
def test_whatever_is_given_ends_in_one_of_both(given_policy: Any, facts: Any, ordered: Any) -> None:
    found = resolve(given_policy, facts, ordered)
    if isinstance(found, Refusal):
        assert found.message.endswith(".")
        assert not found.passing
        return
    if given_policy.class_name is None:
        assert found.endpoint_type is None
    else:
        able = facts.supported_endpoint_types if facts else ()
        left = [one for one in given_policy.endpoint_types if not able or one in able]
        assert found.endpoint_type == left[0]
    if facts is not None and facts.parameter_count is not None:
        assert found.parameter_count == facts.parameter_count
        if given_policy.max_parameter_count is not None:
            assert within(given_policy.max_parameter_count, facts.parameter_count)
