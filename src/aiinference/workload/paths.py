"""Which paths an inference API has.

What belongs here: the one table that the gate, the Ingress and the probes are made from. What does not: who
may call them.
"""

from __future__ import annotations

from typing import NamedTuple

from aiinference.api.reasons import EndpointType


class ApiPath(NamedTuple):
    """A path and the one method that it is called with."""

    method: str
    path: str


MODELS = ApiPath("GET", "/v1/models")
CHAT = ApiPath("POST", "/v1/chat/completions")
COMPLETIONS = ApiPath("POST", "/v1/completions")
EMBEDDINGS = ApiPath("POST", "/v1/embeddings")
RERANK = ApiPath("POST", "/v1/rerank")
#: the same as above, under the name that the first clients of rerankers have used
RERANK_SHORT = ApiPath("POST", "/rerank")

_BY_TYPE: dict[str, tuple[ApiPath, ...]] = {
    EndpointType.CHAT: (CHAT, COMPLETIONS, MODELS),
    EndpointType.EMBEDDINGS: (EMBEDDINGS, MODELS),
    EndpointType.RERANK: (RERANK_SHORT, RERANK, MODELS),
}


def of(endpoint_type: str | None) -> tuple[ApiPath, ...]:
    """Return the paths of an endpoint type; an order without a class has those of all, as none was chosen."""
    if endpoint_type is not None:
        return _BY_TYPE[endpoint_type]
    return tuple(dict.fromkeys(path for paths in _BY_TYPE.values() for path in paths))
