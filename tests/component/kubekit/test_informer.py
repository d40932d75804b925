"""An informer against a real API server, with things going wrong between them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import kubekit.client
from kubekit.client import Client, connect
from kubekit.errors import Unreadable
from kubekit.informer import Informer
from kubekit.resources import ConfigMap, Resource, resource
from kubekit.watch import WatchTiming
from opskit.retry import Backoff
from tests.kit.faultproxy import FaultProxy, Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kubekit.queue import Priority
    from kubekit.store import Change

pytestmark = pytest.mark.cluster

QUICK = WatchTiming(backoff=Backoff(first=0.05, most=0.2))
IMPATIENT = WatchTiming(server_timeout=2, idle_margin=0.5, backoff=Backoff(first=0.05, most=0.2))


@resource("v1", "ConfigMap", "configmaps")
class CountMap(Resource, frozen=True, kw_only=True):
    """A view that fits only the ConfigMaps without data: the others are undecodable to it."""

    data: dict[str, int] | None = None


class Story:
    """What an informer told, and waiting for it to have told enough."""

    def __init__(self, informer: Informer[Any]) -> None:
        self.told: list[tuple[str, str]] = []
        self._news = asyncio.Event()
        informer.subscribe(self._note)

    def _note(self, change: Change[Any], _priority: Priority) -> None:
        name = change.key[1]
        if name == "kube-root-ca.crt":
            return
        what = "gone" if change.after is None else "new" if change.before is None else "changed"
        self.told.append((name, what))
        self._news.set()

    async def until(self, *wanted: tuple[str, str]) -> None:
        async with asyncio.timeout(20):
            while not set(wanted) <= set(self.told):
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def running(informer: Informer[Any]) -> AsyncIterator[Story]:
    story = Story(informer)
    task = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(20):
            await informer.synced.wait()
        yield story
    finally:
        task.cancel()


@pytest.fixture
async def direct(control_plane: Path) -> AsyncIterator[Client]:
    async with connect(control_plane) as client:
        yield client


@pytest.fixture
async def proxy(control_plane: Path) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(control_plane) as proxy:
        yield proxy


async def make(client: Client, namespace: str, name: str, data: dict[str, str] | None = None) -> None:
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }
    if data:
        manifest["data"] = data
    await client.create(manifest)


async def names(client: Client, namespace: str) -> set[str]:
    return {item.metadata.name for item in await client.list(ConfigMap, namespace)}


def known(informer: Informer[Any]) -> set[str]:
    return {item.metadata.name for item in informer.store.list()}


def is_watch(request: Request) -> bool:
    return request.is_watch


def is_list(request: Request) -> bool:
    return request.is_list


async def test_what_happens_in_the_cluster_is_told_once(direct: Client, namespace: str) -> None:
    await make(direct, namespace, "before")
    informer = Informer(direct, ConfigMap, namespace=namespace)
    async with running(informer) as story:
        await make(direct, namespace, "after")
        await direct.patch(ConfigMap, "after", {"data": {"k": "v"}}, namespace=namespace)
        await direct.delete(ConfigMap, "before", namespace)
        await story.until(("before", "gone"))
        assert story.told == [
            ("before", "new"),
            ("after", "new"),
            ("after", "changed"),
            ("before", "gone"),
        ]


@pytest.mark.parametrize("how", ["status", "in-stream", "by the server"])
async def test_a_deletion_in_the_gap_is_told_after_410(
    direct: Client, proxy: FaultProxy, namespace: str, how: str
) -> None:
    for name in ("stays", "goes", "changes"):
        await make(direct, namespace, name)
    async with proxy.client() as client:
        informer = Informer(client, ConfigMap, namespace=namespace, timing=QUICK)
        async with running(informer) as story:
            held = proxy.hold(is_watch if how != "in-stream" else is_list)
            if how == "status":
                proxy.answer(410, is_watch)
                proxy.cut()
            elif how == "in-stream":
                await watching(proxy)
                proxy.silence()
                await proxy.inject_gone()
            else:
                proxy.rewrite(is_watch, resourceVersion="1")
                proxy.cut()
            await held.met.wait()
            story.told.clear()
            await direct.delete(ConfigMap, "goes", namespace)
            await direct.patch(ConfigMap, "changes", {"data": {"k": "v"}}, namespace=namespace)
            await make(direct, namespace, "comes")
            proxy.release(held)
            await story.until(("goes", "gone"), ("comes", "new"), ("changes", "changed"))
            assert sorted(story.told) == [("changes", "changed"), ("comes", "new"), ("goes", "gone")]
            assert known(informer) == await names(direct, namespace)


async def test_a_watch_that_is_cut_continues_where_it_was(
    direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    async with proxy.client() as client:
        informer = Informer(client, ConfigMap, namespace=namespace, timing=QUICK)
        async with running(informer) as story:
            await make(direct, namespace, "one")
            await story.until(("one", "new"))
            held = proxy.hold(is_watch)
            proxy.cut()
            await held.met.wait()
            await make(direct, namespace, "two")
            await direct.delete(ConfigMap, "one", namespace)
            proxy.release(held)
            await story.until(("two", "new"), ("one", "gone"))
            assert sum(request.is_list for request in proxy.requests) == 1


async def test_a_silent_connection_does_not_stay_silent(
    direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    async with proxy.client() as client:
        informer = Informer(client, ConfigMap, namespace=namespace, timing=IMPATIENT)
        async with running(informer) as story:
            await make(direct, namespace, "heard")
            await story.until(("heard", "new"))
            proxy.silence()
            await make(direct, namespace, "unheard")
            await direct.delete(ConfigMap, "heard", namespace)
            await story.until(("unheard", "new"), ("heard", "gone"))


async def test_one_undecodable_object_stops_nothing(direct: Client, namespace: str) -> None:
    await make(direct, namespace, "bad", {"k": "not a number"})
    await make(direct, namespace, "good")
    informer = Informer(direct, CountMap, namespace=namespace, timing=QUICK)
    async with running(informer) as story:
        await make(direct, namespace, "bad-later", {"k": "not a number"})
        await make(direct, namespace, "good-later")
        await story.until(("good", "new"), ("good-later", "new"))
        assert {key[1] for key in informer.store.undecodable} == {"bad", "bad-later", "kube-root-ca.crt"}
        with pytest.raises(Unreadable, match="bad"):
            informer.store.get(namespace, "bad")
        with pytest.raises(Unreadable):
            informer.store.require_whole()
        await direct.patch(ConfigMap, "bad", {"data": None}, namespace=namespace)
        await story.until(("bad", "new"))
        assert informer.store.get(namespace, "bad") is not None


async def test_a_list_that_expires_between_its_pages_begins_again(
    direct: Client, proxy: FaultProxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubekit.client, "PAGE_SIZE", 2)
    for number in range(5):
        await make(direct, namespace, f"m-{number}")
    proxy.answer(410, lambda request: "continue" in request.query)
    async with proxy.client() as client:
        informer = Informer(client, ConfigMap, namespace=namespace, timing=QUICK)
        async with running(informer):
            assert known(informer) == await names(direct, namespace)
    first_pages = [
        request for request in proxy.requests if request.is_list and "continue" not in request.query
    ]
    assert len(first_pages) == 2


async def test_errors_are_waited_out_as_long_as_the_server_asks(
    direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    await make(direct, namespace, "there")
    proxy.answer(503, is_list, times=2)
    proxy.answer(429, is_list, headers={"Retry-After": "1"})
    async with proxy.client() as client:
        informer = Informer(client, ConfigMap, namespace=namespace, timing=QUICK)
        async with running(informer):
            assert "there" in known(informer)
    lists = [request for request in proxy.requests if request.is_list]
    assert lists[3].at - lists[2].at >= 1


async def test_streams_that_end_at_once_do_not_become_a_storm(
    direct: Client, proxy: FaultProxy, namespace: str
) -> None:
    async with proxy.client() as client:
        informer = Informer(client, ConfigMap, namespace=namespace, timing=WatchTiming())
        proxy.rewrite(is_watch, times=100, timeoutSeconds="1")
        async with running(informer):
            third = proxy.hold(lambda request: is_watch(request) and len(proxy.requests) > 3)
            await third.met.wait()
    watches = [request.at for request in proxy.requests if request.is_watch]
    assert watches[1] - watches[0] >= 1 + 0.4
    assert watches[2] - watches[1] >= 1 + 0.8


async def test_a_rotated_token_is_read_again(proxy: FaultProxy, namespace: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    async with proxy.client(token_file=token) as client:
        await client.list(ConfigMap, namespace)
        token.write_text("second")
        proxy.answer(401, lambda request: request.authorization == "Bearer first")
        await client.list(ConfigMap, namespace)
    assert [request.authorization for request in proxy.requests] == [
        "Bearer first",
        "Bearer first",
        "Bearer second",
    ]


async def watching(proxy: FaultProxy) -> None:
    """Return when the proxy has seen the watch request answered."""
    async with asyncio.timeout(10):
        while not proxy.running_watches:
            await proxy.watch_started.wait()
