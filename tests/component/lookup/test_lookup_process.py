"""The lookup as a process with the chart's rights, before a real API server."""

from __future__ import annotations

import asyncio
import collections
import uuid
from itertools import islice
from typing import TYPE_CHECKING

import pytest
import yaml

from aimodels.api.model import ClusterModel, Model
from aimodels.lookup.desk import AT_ONCE
from tests.kit.faultproxy import FaultProxy
from tests.kit.lookupworld import DIGEST, RESOLVED, Api

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.faultproxy import Request
    from tests.kit.lookupworld import World

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]


FLOOD = AT_ONCE + 16


def fresh(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:6]}"


async def test_a_model_of_a_namespace_with_all_its_facts(world: World) -> None:
    name = fresh("own")
    await world.model(Model, name)
    status, body = await world.known(kind="Model", namespace=world.namespace, name=name)
    assert status == 200
    assert body == RESOLVED | {
        "ready": True,
        "reason": "Ready",
        "scope": "Namespaced",
        "name": name,
        "namespace": world.namespace,
        "digest": DIGEST,
        "sizeBytes": 253_000_000,
    }


async def test_a_model_of_the_cluster(world: World) -> None:
    name = fresh("shared")
    await world.model(ClusterModel, name)
    try:
        status, body = await world.known(kind="ClusterModel", name=name)
        assert (status, body["scope"]) == (200, "Cluster")
        assert "namespace" not in body
    finally:
        await world.client.delete(ClusterModel, name)


async def test_a_model_that_waits(world: World) -> None:
    name = fresh("waits")
    await world.model(Model, name, ready=False)
    status, body = await world.known(kind="Model", namespace=world.namespace, name=name)
    assert (status, body["reason"]) == (409, "ModelNotReady")
    assert body["message"].endswith("is not ready: WaitingForUserUpload: Upload the file.")


async def test_who_may_not_get_it_learns_nothing(world: World) -> None:
    name = fresh("hidden")
    await world.model(Model, name)
    await world.known(kind="Model", namespace=world.namespace, name=name)
    token = world.token("stranger")
    there = await world.api.ask(token, kind="Model", namespace=world.namespace, name=name)
    missing = await world.api.ask(token, kind="Model", namespace=world.namespace, name="absent")
    assert there[0] == missing[0] == 403
    assert str(there).replace(name, "absent") == str(missing)


async def test_who_may_is_told_that_it_is_missing(world: World) -> None:
    status, body = await world.api.ask(
        world.token("inference"), kind="Model", namespace=world.namespace, name="absent"
    )
    assert (status, body["reason"]) == (404, "ModelNotFound")


async def test_a_token_for_somebody_else_is_none_here(world: World) -> None:
    for token in ("", "nonsense", world.token("inference", audience="dmcr")):
        status, body = await world.api.ask(token, kind="ClusterModel", name="any")
        assert (status, body["reason"]) == (401, "Unauthorized")


async def test_every_question_leaves_a_line_without_its_token(world: World) -> None:
    token = world.token("stranger")
    await world.api.ask(token, kind="ClusterModel", name="audited")
    lines = [line for line in world.api.lines().splitlines() if "ClusterModel audited" in line]
    assert len(lines) == 1
    user = f"system:serviceaccount:{world.module_namespace}:stranger"
    for said in ('"model_lookup"', f'"{user}"', '"result":"Forbidden"', '"client_ip"'):
        assert said in lines[0].replace('": ', '":')
    assert token.rpartition(".")[2] not in world.api.lines()


async def test_without_an_api_server_it_says_so(world: World, tmp_path: Path) -> None:
    """The process reaches the cluster through a proxy that stops to pass reviews on."""
    async with FaultProxy(world.kubeconfig) as proxy:
        config = tmp_path / "proxy.kubeconfig"
        config.write_text(yaml.safe_dump(kubeconfig_of(proxy.url)))
        api = Api(config, world.module_namespace, world.certificate, tmp_path / "api.log")
        try:
            await api.start()
            token = world.token("inference")
            assert (await api.ask(token, kind="ClusterModel", name="absent"))[0] == 404
            for what in ("subjectaccessreviews", "tokenreviews"):
                proxy.answer(500, _asks_for(what))
                another = world.token("inference")
                status, body = await api.ask(another, kind="ClusterModel", name="absent")
                assert (status, body["reason"]) == (503, "APIServerUnavailable")
            assert (await api.ask(token, kind="ClusterModel", name="absent"))[0] == 404
        finally:
            await api.end()


async def test_a_flood_of_what_is_no_token_keeps_nobody_out_who_asked_before(
    world: World, tmp_path: Path
) -> None:
    """The API server is slow about the tokens of the flood, as it is about no other."""
    async with FaultProxy(world.kubeconfig) as proxy:
        config = tmp_path / "proxy.kubeconfig"
        config.write_text(yaml.safe_dump(kubeconfig_of(proxy.url)))
        api = Api(config, world.module_namespace, world.certificate, tmp_path / "api.log")
        try:
            await api.start()
            token = world.token("inference")
            assert (await api.ask(token, kind="ClusterModel", name="absent"))[0] == 404
            rule = proxy.hold(_asks_for("tokenreviews"), times=FLOOD)
            flood = [
                asyncio.create_task(api.ask(f"nonsense-{number}", kind="ClusterModel", name="absent"))
                for number in range(FLOOD)
            ]
            busy = [await one for one in islice(asyncio.as_completed(flood), FLOOD - AT_ONCE)]
            assert {(status, body["reason"]) for status, body in busy} == {(503, "Busy")}
            assert (await api.ask(token, kind="ClusterModel", name="absent"))[0] == 404
            proxy.release(rule)
            told = [body["reason"] for _, body in await asyncio.gather(*flood)]
            assert collections.Counter(told) == {"Busy": FLOOD - AT_ONCE, "Unauthorized": AT_ONCE}
        finally:
            await api.end()


def kubeconfig_of(server: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "one", "cluster": {"server": server}}],
        "users": [{"name": "one", "user": {}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "current-context": "one",
    }


def _asks_for(what: str) -> Callable[[Request], bool]:
    def matches(request: Request) -> bool:
        return what in request.path

    return matches
