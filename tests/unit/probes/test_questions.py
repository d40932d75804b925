from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.reasons import EndpointType
from aiinference.probes.questions import judge, question

CHAT = {"choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}]}
VECTOR = {"data": [{"embedding": [0.5, -1, 0]}]}
SCORE = {"results": [{"index": 0, "relevance_score": -3.5}]}
LIST = {"data": [{"id": "other"}, {"id": "llm"}]}


def _chat(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": "length"}]}


@pytest.mark.parametrize(
    ("endpoint", "method", "path", "fields"),
    [
        (
            EndpointType.CHAT,
            "POST",
            "/v1/chat/completions",
            {"max_tokens": 1, "temperature": 0, "stream": False},
        ),
        (EndpointType.EMBEDDINGS, "POST", "/v1/embeddings", {"input": "ping"}),
        (EndpointType.RERANK, "POST", "/v1/rerank", {"query": "ping", "documents": ["ping"]}),
        (None, "GET", "/v1/models", None),
    ],
)
def test_what_is_asked_is_small_and_always_the_same(
    endpoint: str | None, method: str, path: str, fields: dict[str, Any] | None
) -> None:
    asked = question(endpoint, "llm")
    assert (asked.method, asked.path) == (method, path)
    assert question(endpoint, "llm").body == asked.body
    if fields is None:
        assert asked.body is None
    else:
        assert asked.body is not None
        assert len(asked.body) < 200
        assert {"model": "llm", **fields}.items() <= json.loads(asked.body).items()


@pytest.mark.parametrize(
    ("endpoint", "answer"),
    [
        (EndpointType.CHAT, CHAT),
        (EndpointType.CHAT, _chat(content="")),
        (EndpointType.CHAT, _chat(content=None, reasoning_content="Hm")),
        (EndpointType.CHAT, _chat(content=None, tool_calls=[{"id": "1"}])),
        (EndpointType.EMBEDDINGS, VECTOR),
        (EndpointType.RERANK, SCORE),
        (None, LIST),
    ],
)
def test_a_real_answer_counts(endpoint: str | None, answer: dict[str, Any]) -> None:
    assert judge(question(endpoint, "llm"), 200, json.dumps(answer).encode()) == ""


@pytest.mark.parametrize(
    ("endpoint", "answer"),
    [
        (EndpointType.CHAT, {}),
        (EndpointType.CHAT, {"choices": []}),
        (EndpointType.CHAT, {"choices": None}),
        (EndpointType.CHAT, {"choices": ["x"]}),
        (EndpointType.CHAT, {"choices": {"0": {}}}),
        (EndpointType.CHAT, {"choices": [{"text": "x", "finish_reason": "stop"}]}),
        (EndpointType.CHAT, _chat(content=None)),
        (EndpointType.CHAT, _chat(content=5)),
        (
            EndpointType.CHAT,
            {"choices": [{"message": {"role": "user", "content": "x"}, "finish_reason": "x"}]},
        ),
        (EndpointType.CHAT, {"choices": [{"message": {"role": "assistant", "content": "x"}}]}),
        (EndpointType.CHAT, {"error": {"message": "broken"}}),
        (EndpointType.CHAT, VECTOR),
        (EndpointType.EMBEDDINGS, CHAT),
        (EndpointType.EMBEDDINGS, {"data": [{"embedding": []}]}),
        (EndpointType.EMBEDDINGS, {"data": [{"embedding": [0, 0.0]}]}),
        (EndpointType.EMBEDDINGS, {"data": [{"embedding": [1, None]}]}),
        (EndpointType.EMBEDDINGS, {"data": [{"embedding": [1, True]}]}),
        (EndpointType.EMBEDDINGS, {"data": [{"embedding": "AAAA"}]}),
        (EndpointType.RERANK, {"results": [{"index": 0}]}),
        (EndpointType.RERANK, {"results": [{"relevance_score": None}]}),
        (EndpointType.RERANK, {"results": [{"relevance_score": "1"}]}),
        (None, {"data": []}),
        (None, {"data": [{"id": "other"}]}),
        (None, {"data": "llm"}),
        (None, ["llm"]),
    ],
)
def test_a_200_with_anything_else_does_not(endpoint: str | None, answer: Any) -> None:
    told = judge(question(endpoint, "llm"), 200, json.dumps(answer).encode())
    assert told
    assert question(endpoint, "llm").path in told


@pytest.mark.parametrize(
    "body", [b"", b"<html>Welcome to nginx</html>", b"\xff\xfe", b"{", b'{"data":[{"embedding":[NaN]}]}']
)
def test_what_is_no_json_is_no_answer(body: bytes) -> None:
    assert "no JSON" in judge(question(EndpointType.EMBEDDINGS, "llm"), 200, body)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b"", "refused the order's own key"),
        (
            404,
            b'{"error":{"message":"no such route"}}',
            "does not know POST /v1/chat/completions: no such route",
        ),
        (500, b'{"error":{"message":"CUDA error"}}', "status 500: CUDA error"),
        (503, b'{"error":"Loading model"}', "status 503: Loading model"),
        (502, b"<h1>Bad\x1b[31m Gateway</h1>", "status 502: <h1>Bad [31m Gateway</h1>"),
        (302, b"", "status 302"),
    ],
)
def test_a_refusal_is_told_in_its_own_words(status: int, body: bytes, words: str) -> None:
    assert words in judge(question(EndpointType.CHAT, "llm"), status, body)


@given(st.sampled_from([*EndpointType, None]), st.integers(100, 599), st.binary(max_size=500))
def test_no_answer_can_break_the_judge_or_fill_the_status(
    endpoint: str | None, status: int, body: bytes
) -> None:
    told = judge(question(endpoint, "llm"), status, body)
    assert len(told) < 512
    assert all(letter.isprintable() for letter in told)
    assert told or status == 200


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "choices", "message", "embedding", "results", "id"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from([*EndpointType, None]), _JSON)
def test_no_shape_can_break_the_judge(endpoint: str | None, answer: Any) -> None:
    assert isinstance(judge(question(endpoint, "llm"), 200, json.dumps(answer).encode()), str)
