"""What is known of a model, as the catalogue's lookup tells it.

What belongs here: our own view of that answer. What does not: where it was asked (``rest``, ``cluster``).
The catalogue has a Struct of its own; a contract test holds the two together.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from aiinference.api.reasons import ModelScope
from modelkit.facts import NUMBER_LIMIT, Geometry

_WORD_LIMIT = 256
_MANY = 32

_Word = Annotated[str, Meta(max_length=_WORD_LIMIT)]
_Words = Annotated[tuple[_Word, ...], Meta(max_length=_MANY)]
_Positive = Annotated[int, Meta(ge=1, le=NUMBER_LIMIT)]


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A model that is ready; what is unknown is absent, never zero."""

    ready: bool
    reason: _Word
    scope: ModelScope
    name: _Word
    #: of a Model; a ClusterModel has none
    namespace: _Word | None = None
    digest: _Word
    size_bytes: _Positive
    format: _Word | None = None
    family: _Word | None = None
    architecture: _Word | None = None
    parameter_count: _Positive | None = None
    active_parameter_count: _Positive | None = None
    quantization: _Word | None = None
    context_window_tokens: _Positive | None = None
    supported_endpoint_types: _Words = ()
    supported_features: _Words = ()
    #: shape of the network, for whoever plans; nobody may need it
    facts: Geometry | None = None
