"""The planner as a process, asked by the controller's client: real tokens, rights and certificates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aiinference.planner import source
from aiinference.planner.client import PlannerUnavailable, opened
from aiinference.planner.contract import LaunchPlan, Refusal
from kubekit.errors import NotFound
from kubekit.resources import custom
from tests.kit.eventually import eventually
from tests.kit.launchplans import request
from tests.kit.plannerprocess import AUDIENCE, CONTROLLER, Running, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiinference.planner.contract import Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

_DEFINITION = custom(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def planner(control_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with running(control_plane, tmp_path_factory.mktemp("planner")) as made:
        yield made


async def asked(planner: Running, **more: Any) -> Answer:
    async with opened(planner.settings, planner.client) as client:
        return await client.plan(request(**more))


async def test_the_controller_gets_a_plan_in_a_cluster_without_accelerators(planner: Running) -> None:
    planner.show(CONTROLLER)
    found = await asked(planner)
    assert isinstance(found, LaunchPlan)
    assert found.resolved.device_class == "cpu"


async def test_a_refusal_comes_through_as_one(planner: Running) -> None:
    planner.show(CONTROLLER)
    found = await asked(planner, accelerator={})
    assert isinstance(found, Refusal)
    assert found.reason == "NoCapacity"


async def test_another_account_may_not_ask(planner: Running) -> None:
    planner.show("stranger")
    with pytest.raises(PlannerUnavailable, match="403 Forbidden"):
        await asked(planner)


@pytest.mark.parametrize("audience", ["https://kubernetes.default.svc", "ai-models"])
async def test_a_token_for_somebody_else_is_not_taken(planner: Running, audience: str) -> None:
    planner.show(CONTROLLER, audience)
    with pytest.raises(PlannerUnavailable, match="401 Unauthorized"):
        await asked(planner)


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(planner: Running) -> None:
    planner.show(CONTROLLER)
    elsewhere = replace(planner.settings, trust_namespace="kube-system", trust_config_map="kube-root-ca.crt")
    async with opened(elsewhere, planner.client) as client:
        with pytest.raises(PlannerUnavailable, match="certificate"):
            await client.plan(request())


async def test_accelerators_are_seen_within_seconds(planner: Running) -> None:
    planner.show(CONTROLLER)
    name = f"{source.PhysicalGpu.KIND.plural}.{source.PhysicalGpu.KIND.group}"
    await planner.client.create(_definition(name), kind=_DEFINITION)
    try:
        await eventually(lambda: _made(planner))
        capabilities = {"productName": "NVIDIA L4", "memoryMiB": 23034}
        status = {"status": {"capabilities": capabilities}}
        await planner.client.patch(source.PhysicalGpu, "node-a-0", status, subresource="status")
        await eventually(lambda: _named(planner, "NVIDIA L4"), within=2 * source.HELD_SECONDS + 10)
    finally:
        await planner.client.request("DELETE", _DEFINITION.path(name=name))


async def _made(planner: Running) -> bool:
    kind = source.PhysicalGpu.KIND
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": "node-a-0"}}
    try:
        await planner.client.create(body, kind=kind)
    except NotFound:
        return False
    return True


async def _named(planner: Running, product: str) -> bool:
    found = await asked(planner)
    return isinstance(found, Refusal) and product in found.message


def _definition(name: str) -> dict[str, Any]:
    kind = source.PhysicalGpu.KIND
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": kind.name, "plural": kind.plural, "listKind": f"{kind.name}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": kind.group, "scope": "Cluster", "names": names, "versions": [version]},
    }


async def test_the_log_tells_no_token(planner: Running) -> None:
    planner.show(CONTROLLER)
    await asked(planner)
    token = planner.settings.token_file.read_text()
    assert "planned" in planner.log.read_text()
    assert token not in planner.log.read_text()
    assert AUDIENCE in planner.log.read_text()
