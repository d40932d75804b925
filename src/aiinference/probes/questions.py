"""What an order is asked, and which answers count. Pure.

What belongs here: requests and the judgement of answers. What does not: sending them.

A runtime may say that it is well while what computes is dead, so it is asked to compute: as little as
possible, the same every time, and what comes back has to be an answer. A status of 200 alone is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from aiinference.api.reasons import EndpointType
from aiinference.workload import paths

if TYPE_CHECKING:
    from collections.abc import Callable

#: of an answer; a vector with 16 bits of index has about half of it
ANSWER_LIMIT = 1 << 20
_OK = 200
_UNAUTHORIZED = 401
_NOT_FOUND = 404
_SHOWN = 200
_WORD = "ping"


@dataclass(frozen=True)
class Question:
    """One request, and what is wrong with an answer's body; nothing is when it returns an empty text."""

    method: str
    path: str
    body: bytes | None
    wrong: Callable[[Any], str]


def question(endpoint_type: str | None, model: str) -> Question:
    """Return what an order is asked; without an endpoint type, only whether it knows its model."""
    match endpoint_type:
        case EndpointType.CHAT:
            body = {
                "messages": [{"role": "user", "content": _WORD}],
                "max_tokens": 1,
                "temperature": 0,
                "seed": 0,
                "stream": False,
            }
            return _post(paths.CHAT, model, body, _wrong_chat)
        case EndpointType.EMBEDDINGS:
            return _post(paths.EMBEDDINGS, model, {"input": _WORD}, _wrong_vector)
        case EndpointType.RERANK:
            body = {"query": _WORD, "documents": [_WORD]}
            return _post(paths.RERANK, model, body, _wrong_score)
    return Question(*paths.MODELS, None, lambda answer: _wrong_list(answer, model))


def judge(asked: Question, status: int, body: bytes) -> str:
    """Return what is wrong with an answer, for a person; empty when it counts."""
    if status == _UNAUTHORIZED:
        return "The API refused the order's own key. Is the Secret with the key changed by hand?"
    if status == _NOT_FOUND:
        return f"The API does not know {asked.method} {asked.path}: {_told(body)}"
    if status != _OK:
        return f"{asked.method} {asked.path} was answered with status {status}: {_told(body)}"
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return f"{asked.method} {asked.path} was answered with something that is no JSON: {_shown(body)}"
    wrong = asked.wrong(answer)
    return wrong and f"{asked.method} {asked.path} was answered, but {wrong}: {_shown(body)}"


def _post(path: paths.ApiPath, model: str, fields: dict[str, Any], wrong: Callable[[Any], str]) -> Question:
    return Question(*path, msgspec.json.encode({"model": model, **fields}), wrong)


def _wrong_chat(answer: Any) -> str:
    choice = _first(answer, "choices")
    if choice is None:
        return "it holds no choice"
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return "its choice holds no message of the assistant"
    # One token may be the beginning of a thought, which engines tell apart from the text.
    texts = [message.get(name) for name in ("content", "reasoning_content", "reasoning")]
    if not (any(isinstance(text, str) for text in texts) or message.get("tool_calls")):
        return "its message holds no text"
    return "" if isinstance(choice.get("finish_reason"), str) else "its choice does not say why it ended"


def _wrong_vector(answer: Any) -> str:
    vector = (_first(answer, "data") or {}).get("embedding")
    if not isinstance(vector, list) or not vector:
        return "it holds no vector"
    if not all(_is_number(number) for number in vector):
        return "its vector holds something that is no number"
    return "" if any(vector) else "its vector is all zero"


def _wrong_score(answer: Any) -> str:
    result = _first(answer, "results")
    if result is None:
        return "it holds no result"
    return "" if _is_number(result.get("relevance_score")) else "its result holds no score"


def _wrong_list(answer: Any, model: str) -> str:
    listed = answer.get("data") if isinstance(answer, dict) else None
    names = {one.get("id") for one in listed if isinstance(one, dict)} if isinstance(listed, list) else set()
    return "" if model in names else f"the model {model} is not in its list"


def _first(answer: Any, field: str) -> dict[str, Any] | None:
    found = answer.get(field) if isinstance(answer, dict) else None
    first = found[0] if isinstance(found, list) and found else None
    return first if isinstance(first, dict) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _told(body: bytes) -> str:
    """Return the message of an error in the form of the API, or what there is."""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return _shown(body)
    error = answer.get("error") if isinstance(answer, dict) else None
    told = error.get("message") if isinstance(error, dict) else error
    return _shown(told.encode()) if isinstance(told, str) else _shown(body)


def _shown(body: bytes) -> str:
    text = body[: 4 * _SHOWN].decode(errors="replace")
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())[:_SHOWN]
