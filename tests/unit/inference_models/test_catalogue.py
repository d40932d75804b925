"""One way to the catalogue after another, and what is made of an order's model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from aiinference.api.reasons import ModelKind, OrderReason
from aiinference.models import reference
from aiinference.models.catalogue import NoCatalogue, Transports
from aiinference.models.outcomes import Refusal, Unavailable
from aiinference.models.reference import Reference
from aiinference.models.resolving import ResolvedModel, model_of
from tests.kit.ordersmodels import model_facts, order, policy

if TYPE_CHECKING:
    from aiinference.models.facts import ModelFacts

SHARED = Reference(ModelKind.CLUSTER_MODEL, None, "lm")


@dataclass
class Way:
    """A transport that says one thing."""

    name: str
    says: ModelFacts | Refusal | Unavailable
    asked: list[Reference] = field(default_factory=list)

    async def facts(self, asked: Reference) -> ModelFacts | Refusal:
        self.asked.append(asked)
        if isinstance(self.says, Unavailable):
            raise self.says
        return self.says


FOUND = model_facts()
MISSING = Refusal(OrderReason.MODEL_NOT_FOUND, "There is no ClusterModel lm.")


async def test_the_second_way_is_taken_in_the_same_call() -> None:
    rest, objects = Way("Rest", Unavailable("no answer within 10 s")), Way("Kubernetes", FOUND)
    assert await Transports([rest, objects]).facts(SHARED) is FOUND
    assert (rest.asked, objects.asked) == ([SHARED], [SHARED])


@pytest.mark.parametrize("says", [FOUND, MISSING])
async def test_an_answer_of_the_first_way_is_an_answer(says: ModelFacts | Refusal) -> None:
    rest, objects = Way("Rest", says), Way("Kubernetes", Unavailable("not asked"))
    assert await Transports([rest, objects]).facts(SHARED) is says
    assert objects.asked == []


async def test_when_no_way_works_it_is_an_outage_and_says_both_causes() -> None:
    rest, objects = Way("Rest", Unavailable("refused")), Way("Kubernetes", Unavailable("Forbidden: no"))
    found = await Transports([rest, objects]).facts(SHARED)
    assert isinstance(found, Refusal)
    assert found.reason is OrderReason.CATALOG_UNAVAILABLE
    assert found.outage
    assert found.passing
    assert "Rest: refused; Kubernetes: Forbidden: no" in found.message


async def test_a_catalogue_that_is_turned_off_refuses_for_good() -> None:
    found = await model_of(order(), policy(), NoCatalogue())
    assert isinstance(found, Refusal)
    assert found.reason is OrderReason.CATALOG_DISABLED
    assert not found.passing
    assert "catalog.mode" in found.message


async def test_an_order_gets_its_model() -> None:
    way = Way("Rest", model_facts("lm-7b", parameter_count=7))
    found = await model_of(order("lm-7b"), policy(), Transports([way]))
    assert isinstance(found, ResolvedModel)
    assert found.facts.name == "lm-7b"
    assert found.resolution.parameter_count == 7


async def test_what_the_catalogue_or_the_policy_refuses_is_refused() -> None:
    assert await model_of(order(), policy(), Transports([Way("Rest", MISSING)])) is MISSING
    assert MISSING.passing
    assert not MISSING.outage
    way = Way("Rest", model_facts(supported_endpoint_types=("Rerank",)))
    found = await model_of(order(), policy("llm", "Chat"), Transports([way]))
    assert isinstance(found, Refusal)
    assert found.reason is OrderReason.ENDPOINT_TYPE_NOT_SUPPORTED


async def test_an_order_straight_from_a_hub_is_not_served_yet_and_says_what_is() -> None:
    way = Way("Rest", FOUND)
    ordered = order("Qwen/Qwen2.5-32B-Instruct-AWQ", src="HuggingFace", kind=None)
    found = await model_of(ordered, policy(), Transports([way]))
    assert isinstance(found, Refusal)
    assert found.reason is OrderReason.UNSUPPORTED_SOURCE
    assert "src: ai-models" in found.message
    assert way.asked == []


@pytest.mark.parametrize("named", [None, "support"])
def test_a_model_is_looked_for_in_the_orders_namespace(named: str | None) -> None:
    found = reference.of(order(kind="Model", of_namespace=named))
    assert found == Reference(ModelKind.MODEL, "support", "lm")
    assert str(found) == "Model support/lm"


def test_a_model_of_another_namespace_is_not_asked_for_with_our_rights() -> None:
    found = reference.of(order(kind="Model", of_namespace="others"))
    assert isinstance(found, Refusal)
    assert found.reason is OrderReason.MODEL_NOT_FOUND


def test_a_cluster_model_has_no_namespace() -> None:
    found = reference.of(order(kind="ClusterModel"))
    assert found == Reference(ModelKind.CLUSTER_MODEL, None, "lm")
    assert str(found) == "ClusterModel lm"
