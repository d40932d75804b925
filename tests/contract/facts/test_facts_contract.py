"""The catalogue's answer and the view of it in ai-inference, held together in both directions.

Neither module imports the other, so nothing but this test notices when one of them moves.
"""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiinference.api.reasons import ModelKind, ModelScope, OrderReason
from aiinference.models import cluster, rest
from aiinference.models.facts import ModelFacts
from aiinference.models.outcomes import Refusal
from aiinference.models.reference import Reference
from aimodels.api.model import AnyModel, ClusterModel, Model, ModelGeometry, ModelStatus, ResolvedStatus
from aimodels.api.reasons import EndpointType, ModelFeature, ModelFormat, ModelReason, Phase
from aimodels.lookup.answers import CLUSTER, NAMESPACED, LookupAnswer, NotReady, answer
from aimodels.lookup.reference import Reference as Asked
from aimodels.lookup.refusals import not_found, not_ready
from modelkit.facts import NUMBER_LIMIT, Geometry
from tests.kit.lookups import condition, model, ready_status

POSITIVE = st.integers(1, NUMBER_LIMIT)
COUNT = st.integers(0, NUMBER_LIMIT)
WORD = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=256)


def words(closed: Any) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from([str(one) for one in closed]), unique=True, max_size=16).map(tuple)


def _values(hint: str) -> st.SearchStrategy[Any]:
    if "dict" in hint:
        return st.dictionaries(st.sampled_from(["F16", "BF16", "Q4_K"]), COUNT, min_size=1)
    if "bool" in hint:
        return st.booleans()
    return COUNT if "int" in hint else WORD


GEOMETRY = st.builds(
    ModelGeometry,
    **{
        name: st.none() | _values(str(hint))
        for name, hint in get_type_hints(ModelGeometry).items()
        if name in ModelGeometry.__struct_fields__
    },
)
RESOLVED = st.builds(
    ResolvedStatus,
    format=st.sampled_from([str(one) for one in ModelFormat]),
    family=st.none() | WORD,
    architecture=st.none() | WORD,
    parameter_count=st.none() | POSITIVE,
    active_parameter_count=st.none() | POSITIVE,
    quantization=st.none() | WORD,
    context_window_tokens=st.none() | POSITIVE,
    supported_endpoint_types=words(EndpointType),
    supported_features=words(ModelFeature),
    facts=st.none() | GEOMETRY,
)
STATUS = st.one_of(
    st.builds(ready_status, RESOLVED),
    st.builds(
        lambda phase, reason, resolved: ModelStatus(
            phase=phase, resolved=resolved, conditions=(condition("False", reason, "Waiting."),)
        ),
        st.sampled_from([str(one) for one in Phase]),
        st.sampled_from([str(one) for one in ModelReason]),
        st.none() | RESOLVED,
    ),
    st.builds(ModelStatus),
    st.none(),
)
NAMESPACE = st.sampled_from([None, "support"])


def reference_of(one: AnyModel) -> Reference:
    kind = ModelKind(type(one).KIND.name)
    return Reference(kind, one.metadata.namespace or None, one.metadata.name)


def asked_of(one: AnyModel) -> str:
    return str(Asked(type(one), one.metadata.namespace, one.metadata.name))


def over_http(one: AnyModel) -> ModelFacts | Refusal:
    """Return what our side makes of the bytes that theirs sends."""
    try:
        status, body = 200, msgspec.json.encode(answer(one))
    except NotReady as why:
        problem = not_ready(asked_of(one), why)
        status, body = problem.status, problem.body()
    return rest._read(reference_of(one), status, body)


def over_the_object(one: AnyModel) -> ModelFacts | Refusal:
    """Return what our side makes of the object that theirs writes."""
    stored = msgspec.json.encode(one)
    view = cluster.ModelView if isinstance(one, Model) else cluster.ClusterModelView
    return cluster.facts(reference_of(one), msgspec.json.decode(stored, type=view))


@given(NAMESPACE, STATUS)
def test_both_ways_tell_the_same(namespace: str | None, status: ModelStatus | None) -> None:
    one = model("lm", namespace, status)
    assert over_http(one) == over_the_object(one)


@given(NAMESPACE, RESOLVED)
def test_nothing_that_is_sent_is_lost_and_nothing_is_added(
    namespace: str | None, resolved: ResolvedStatus
) -> None:
    sent = answer(model("lm", namespace, ready_status(resolved)))
    raw = msgspec.json.encode(sent)
    ours = msgspec.json.decode(raw, type=ModelFacts)
    assert msgspec.json.decode(msgspec.json.encode(ours)) == msgspec.json.decode(raw)
    assert msgspec.json.decode(msgspec.json.encode(ours), type=LookupAnswer) == sent


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [(LookupAnswer, ModelFacts), (ModelGeometry, Geometry)],
    ids=["answer", "geometry"],
)
def test_the_fields_are_the_same(theirs: type[msgspec.Struct], ours: type[msgspec.Struct]) -> None:
    assert theirs.__struct_encode_fields__ == ours.__struct_encode_fields__


def test_the_words_are_the_same() -> None:
    assert {CLUSTER, NAMESPACED} == {str(one) for one in ModelScope}
    assert {Model.KIND, ClusterModel.KIND} == {one.KIND for one in cluster._VIEWS.values()}
    assert {str(one) for one in ModelKind} == {kind.name for kind in (Model.KIND, ClusterModel.KIND)}


def test_a_missing_model_is_said_in_the_same_words() -> None:
    problem = not_found("ClusterModel lm")
    found = rest._read(Reference(ModelKind.CLUSTER_MODEL, None, "lm"), problem.status, problem.body())
    assert isinstance(found, Refusal)
    assert found.reason is OrderReason.MODEL_NOT_FOUND


def test_a_newer_catalogue_may_say_more() -> None:
    sent = msgspec.to_builtins(answer(model("lm", None, ready_status(ResolvedStatus(format="GGUF")))))
    newer = sent | {"license": "MIT", "facts": {"layers": 2, "newLayers": 3}}
    found = msgspec.convert(newer, ModelFacts)
    assert found.facts == Geometry(layers=2)
