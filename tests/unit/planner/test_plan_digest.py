"""The digest says whether a running workload is still the planned one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aiinference.planner.contract import LaunchPlan
from aiinference.planner.digest import digest
from aiinference.planner.inventory import Inventory
from aiinference.planner.plan import Recipes, plan
from aiinference.recipes.catalogue import shipped
from tests.kit.launchplans import planned, request


def test_the_digest_of_the_demos_order_stays_what_it_was() -> None:
    """A change here rolls every running workload once a plan is made anew: it has to be meant."""
    expected = "sha256:027dd8104bbe1fcb72830dd7ff0a86b919a65c1e8634e1e63d78ff1645ce6ce6"
    assert planned(request()).digest == expected


def test_planning_again_changes_no_digest() -> None:
    assert planned(request(replanCount=3)).digest == planned(request()).digest


@pytest.mark.parametrize(
    "change",
    [
        {"launchStrategy": "Balance"},
        {"endpointType": "Embeddings"},
        {"model": {"name": "other"}},
        {"model": {"contextWindowTokens": 2048}},
    ],
)
def test_what_runs_otherwise_has_another_digest(change: dict[str, Any]) -> None:
    assert planned(request(**change)).digest != planned(request()).digest


def test_another_image_is_another_digest() -> None:
    found = plan(request(), Recipes(shipped(), {"llama": "another"}), Inventory())
    assert isinstance(found, LaunchPlan)
    assert found.digest != planned(request()).digest


def test_the_order_of_members_does_not_count() -> None:
    found = planned(request())
    turned = msgspec.structs.replace(
        found.recipe, ports=dict(reversed([*found.recipe.ports.items(), ("a", 1)]))
    )
    straight = msgspec.structs.replace(found.recipe, ports=dict([*found.recipe.ports.items(), ("a", 1)]))
    assert digest(found.resolved, 0, turned) == digest(found.resolved, 0, straight)
