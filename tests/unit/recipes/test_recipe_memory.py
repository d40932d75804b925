"""The need of memory, against what the engine says it allocates and against known geometries."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.recipes import memory
from aiinference.recipes.memory import GIB, MIB, Launch, Source, Subject
from modelkit.facts import Geometry
from tests.kit.vectors import cases

#: gemma-3-270m, Q4_K_M
GEMMA = Subject(
    geometry=Geometry(
        layers=18,
        hidden_size=640,
        intermediate_size=2048,
        attention_heads=4,
        key_value_heads=1,
        head_dim=256,
        vocabulary_size=262144,
        sliding_window=512,
        weight_bytes=246587904,
    ),
    architecture="gemma3",
    parameters=268098176,
    full_attention_every=6,
)


@pytest.mark.parametrize(
    ("launch", "kv_mib", "compute_mib"),
    [
        # as llama.cpp b11549 prints them: KV buffers, compute + output buffers
        (Launch(context_tokens=16384), 48 + 15, 35.28 + 1),
        (Launch(context_tokens=4096, parallel=8), 96 + 120, 23.28 + 8),
    ],
)
def test_the_buffers_are_those_that_the_engine_makes(
    launch: Launch, kv_mib: float, compute_mib: float
) -> None:
    need = memory.estimate(GEMMA, launch)
    assert need is not None
    assert need.kv == kv_mib * MIB
    assert compute_mib * MIB <= need.compute <= compute_mib * 1.1 * MIB


def test_a_decoder_that_pools_writes_the_logits_of_every_token_twice() -> None:
    # 591 tokens in steps of 256: 526 MiB more than after the start
    need = memory.estimate(GEMMA, Launch(context_tokens=2048, micro_batch=256, pooled=True))
    assert need is not None
    assert 526 * MIB * 0.95 <= need.compute <= 526 * MIB * 1.1


def test_the_need_is_the_sum_of_its_parts_and_a_margin() -> None:
    launch = Launch(context_tokens=4096, cache_bytes=7 * MIB, overhead_bytes=100 * MIB, margin_percent=10)
    need = memory.estimate(GEMMA, launch)
    assert need is not None
    parts = need.weights + need.kv + need.compute + need.cache + need.overhead
    assert (need.weights, need.cache, need.overhead) == (246587904, 7 * MIB, 100 * MIB)
    assert need.total % MIB == 0
    assert 0 <= need.total - parts * 1.1 < MIB


def test_checkpoints_keep_the_window_of_every_request() -> None:
    without = memory.estimate(GEMMA, Launch(context_tokens=8192, parallel=2))
    kept = memory.estimate(GEMMA, Launch(context_tokens=8192, parallel=2, checkpoints=3))
    assert without is not None
    assert kept is not None
    assert kept.cache - without.cache == 3 * 2 * 15 * MIB


def _subject(case: dict[str, Any]) -> Subject:
    geometry = Geometry(
        layers=case["layers"],
        hidden_size=case["hidden_size"],
        vocabulary_size=case["vocab_size"],
        attention_heads=case.get("heads"),
        key_value_heads=case.get("kv_heads"),
        head_dim=case.get("head_dim"),
        kv_lora_rank=case.get("kv_lora_rank"),
        qk_rope_head_dim=case.get("qk_rope_head_dim"),
    )
    return Subject(geometry=geometry, parameters=round(case["expected"]["params_b"] * 10**9))


@pytest.mark.parametrize("case", cases("models.json", "dense-tied", "dense-untied", "moe", "mla", "swa"))
def test_kv_follows_from_the_geometry(case: dict[str, Any]) -> None:
    keys = 2.0
    launch = Launch(context_tokens=1024, key_bytes=keys, value_bytes=keys)
    need = memory.estimate(_subject(case), launch)
    assert need is not None
    assert need.source is Source.GEOMETRY
    assert need.kv == case["expected"]["kv_bytes_per_token_bf16"] * 1024


@pytest.mark.parametrize("case", cases("models.json", "dense-tied", "dense-untied"))
def test_what_stands_in_for_an_unknown_geometry_is_not_less(case: dict[str, Any]) -> None:
    known = _subject(case)
    unknown = Subject(geometry=Geometry(), parameters=known.parameters)
    launch = Launch(context_tokens=8192)
    exact, assumed = memory.estimate(known, launch), memory.estimate(unknown, launch)
    assert exact is not None
    assert assumed is not None
    assert assumed.source is Source.PARAMETERS
    assert assumed.kv >= exact.kv
    assert assumed.total >= exact.total


def test_encoders_keep_nothing_of_a_context() -> None:
    bge = Subject(
        geometry=Geometry(layers=24, hidden_size=1024, vocabulary_size=250002), parameters=567750000
    )
    need = memory.estimate(
        Subject(bge.geometry, architecture="bert", parameters=bge.parameters),
        Launch(context_tokens=2048, micro_batch=2048, pooled=True),
    )
    assert need is not None
    assert need.kv == 0
    assert need.compute < GIB


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (Subject(Geometry(weight_bytes=10), parameters=8, size_bytes=20), 10),
        (Subject(Geometry(), parameters=8, size_bytes=20), 20),
        (Subject(Geometry(), parameters=8 * 10**9, bits_per_weight=4.89), 4_890_000_000),
        (Subject(Geometry(), parameters=1000), 2000),
        (Subject(Geometry()), None),
        (Subject(Geometry(weight_bytes=0), parameters=-1), None),
    ],
)
def test_the_weights_are_known_by_bytes_then_file_then_parameters(
    subject: Subject, expected: int | None
) -> None:
    assert memory.weights(subject) == expected


def test_without_any_size_there_is_no_estimate() -> None:
    assert memory.estimate(Subject(Geometry(layers=10)), Launch(context_tokens=1024)) is None


@given(
    context=st.integers(1, 512).map(lambda steps: steps * 256),
    parallel=st.integers(1, 16),
    pooled=st.booleans(),
)
def test_more_context_or_more_requests_never_need_less(context: int, parallel: int, pooled: bool) -> None:  # noqa: FBT001
    def total(context: int, parallel: int) -> int:
        need = memory.estimate(GEMMA, Launch(context_tokens=context, parallel=parallel, pooled=pooled))
        assert need is not None
        return need.total

    assert total(context, parallel) <= total(context + 256, parallel)
    assert total(context, parallel) <= total(context, parallel + 1)
