"""Applying, finalizers, events and reviews against a real API server."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kubekit.apply import Applier
from kubekit.client import Client, connect
from kubekit.errors import Conflict
from kubekit.events import Recorder
from kubekit.finalizer import add_finalizer, remove_finalizer
from kubekit.resources import ConfigMap, Event, Namespace
from kubekit.reviews import POD_NAME, Attributes, Identity, review_access, review_token
from tests.kit.accounts import Accounts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OURS = "example.com/ours"


@pytest.fixture
async def client(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        yield client


def config(namespace: str, data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": namespace} | metadata,
        "data": data,
    }


async def test_the_whole_intent_is_applied_and_what_it_drops_goes(client: Client, namespace: str) -> None:
    applier = Applier(client, "test")
    await applier.apply(config(namespace, {"a": "1", "b": "2"}))
    await client.patch(ConfigMap, "c", {"data": {"theirs": "x"}}, namespace=namespace)

    await applier.apply(config(namespace, {"a": "1"}))

    assert (await client.get(ConfigMap, "c", namespace)).data == {"a": "1", "theirs": "x"}


async def test_another_life_of_a_name_is_never_touched(client: Client, namespace: str) -> None:
    applier = Applier(client, "test")
    made = await applier.apply(config(namespace, {"a": "1"}))
    other = str(uuid.uuid4())

    with pytest.raises(Conflict):
        await applier.apply(config(namespace, {"a": "2"}, uid=other))
    with pytest.raises(Conflict):
        await client.delete(ConfigMap, "c", namespace, uid=other)
    assert await client.delete(ConfigMap, "c", namespace, uid=made["metadata"]["uid"])
    assert not await client.delete(ConfigMap, "c", namespace)


async def test_a_finalizer_holds_the_object_and_lets_it_go(client: Client, namespace: str) -> None:
    await client.create(config(namespace, {}, finalizers=["example.com/theirs"]))
    seen = await client.get(ConfigMap, "c", namespace)
    await add_finalizer(client, seen, OURS)
    await add_finalizer(client, await client.get(ConfigMap, "c", namespace), OURS)

    seen = await client.get(ConfigMap, "c", namespace)
    assert seen.metadata.finalizers == ["example.com/theirs", OURS]
    await client.delete(ConfigMap, "c", namespace)
    seen = await client.get(ConfigMap, "c", namespace)
    assert OURS in seen.metadata.finalizers
    await remove_finalizer(client, seen, OURS)
    seen = await client.get(ConfigMap, "c", namespace)
    await remove_finalizer(client, seen, "example.com/theirs")
    assert await client.find(ConfigMap, "c", namespace) is None
    await remove_finalizer(client, seen, "example.com/theirs")


async def test_the_first_finalizer_is_added_too(client: Client, namespace: str) -> None:
    await client.create(config(namespace, {}))
    seen = await client.get(ConfigMap, "c", namespace)
    await add_finalizer(client, seen, OURS)
    seen = await client.get(ConfigMap, "c", namespace)
    await remove_finalizer(client, seen, OURS)
    assert (await client.get(ConfigMap, "c", namespace)).metadata.finalizers == []


async def test_finalizers_that_somebody_changed_meanwhile_are_not_overwritten(
    client: Client, namespace: str
) -> None:
    await client.create(config(namespace, {}, finalizers=["example.com/a"]))
    seen = await client.get(ConfigMap, "c", namespace)
    other = msgspec.structs.replace(
        seen, metadata=msgspec.structs.replace(seen.metadata, uid=str(uuid.uuid4()))
    )
    await client.patch(ConfigMap, "c", {"metadata": {"finalizers": []}}, namespace=namespace)
    with pytest.raises(Conflict):
        await add_finalizer(client, seen, OURS)
    with pytest.raises(Conflict):
        await add_finalizer(client, other, OURS)


@pytest.mark.parametrize("kind", ["Normal", "Warning"])
async def test_an_event_is_found_with_its_object(client: Client, namespace: str, kind: Any) -> None:
    await client.create(config(namespace, {}))
    seen = await client.get(ConfigMap, "c", namespace)

    await Recorder(client, "test").event(seen, kind, "Happened", "m" * 2000)

    (event,) = await client.list(Event, namespace)
    assert event.involved_object.uid == seen.metadata.uid
    assert (event.type, event.reason, len(event.message)) == (kind, "Happened", 1024)
    assert event.reporting_component == "test"


async def test_an_event_of_a_cluster_wide_object_is_where_kubectl_looks(
    client: Client, namespace: str
) -> None:
    seen = await client.get(Namespace, namespace)
    await Recorder(client, "test").event(seen, "Normal", "Happened", "x")
    found = [
        one for one in await client.list(Event, "default") if one.involved_object.uid == seen.metadata.uid
    ]
    assert [one.reason for one in found] == ["Happened"]


async def test_an_event_that_is_refused_stops_nobody(client: Client, namespace: str) -> None:
    seen = await client.get(Namespace, namespace)
    metadata = msgspec.structs.replace(seen.metadata, namespace="no-such-namespace")
    await Recorder(client, "test").event(
        msgspec.structs.replace(seen, metadata=metadata), "Normal", "Happened", "x"
    )


async def test_a_token_tells_who_it_is_for_its_audience_only(
    client: Client, control_plane: Path, namespace: str
) -> None:
    accounts = Accounts(control_plane, namespace)
    try:
        account = accounts.account("worker")
        accounts.pod("worker-1", account)
        token = accounts.token(account, "worker-1", audience="dmcr")
    finally:
        accounts.close()

    who = await review_token(client, token, ["dmcr"])
    assert who
    assert who.username == f"system:serviceaccount:{namespace}:worker"
    assert who.first(POD_NAME) == "worker-1"
    assert who.first("nothing") is None
    assert await review_token(client, token, ["other"]) is None
    assert await review_token(client, token) is None
    assert await review_token(client, "rubbish", ["dmcr"]) is None


async def test_access_follows_the_clusters_own_rules(client: Client, namespace: str) -> None:
    admin = Identity(username="jane", groups=["system:masters"])
    nobody = Identity(username="joe", groups=["system:authenticated"])
    wish = Attributes(verb="get", group="ai.deckhouse.io", resource="models", namespace=namespace, name="m")
    assert (await review_access(client, admin, wish)).allowed
    assert not (await review_access(client, nobody, wish)).allowed
