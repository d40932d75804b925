from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest

from kubekit.errors import Gone, KubeError, ServerError, TooManyRequests, Unreachable
from kubekit.resources import ConfigMap
from kubekit.watch import Relisted, State, Watcher, WatchTiming
from kubekit.wire import Page
from opskit.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kubekit.client import Client

EVENT = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"%d"}}}'
BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}'
GONE = b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}'


class ScriptedServer:
    """Answers watches by a script: an error, or lines and how long the stream stays open after them."""

    def __init__(self, *watches: KubeError | tuple[list[bytes], float]) -> None:
        self.script = list(watches)
        self.lists: list[float] = []
        self.watches: list[tuple[float, str]] = []
        self.failing_lists: list[KubeError] = []

    async def page(self, *_: object, **__: object) -> Page[ConfigMap]:
        self.lists.append(asyncio.get_running_loop().time())
        if self.failing_lists:
            raise self.failing_lists.pop(0)
        return Page([], "100", "")

    @asynccontextmanager
    async def stream(
        self, _path: str, *, params: dict[str, str], idle: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert idle > float(params["timeoutSeconds"])
        self.watches.append((asyncio.get_running_loop().time(), params["resourceVersion"]))
        if not self.script:
            await asyncio.Event().wait()
        answer = self.script.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        yield self._lines(*answer)

    @staticmethod
    async def _lines(lines: list[bytes], lasting: float) -> AsyncIterator[bytes]:
        for line in lines:
            yield line
        await asyncio.sleep(lasting)


async def follow(server: ScriptedServer, seconds: float = 4000) -> tuple[Watcher[ConfigMap], list[Any]]:
    timing = WatchTiming(spread=0, backoff=Backoff(first=1, most=30, jitter=0))
    watcher = Watcher(cast("Client", server), ConfigMap, timing=timing)
    told: list[Any] = []
    task = asyncio.create_task(watcher.run(told.append))
    await asyncio.sleep(seconds)
    task.cancel()
    return watcher, told


def versions(server: ScriptedServer) -> list[str]:
    return [version for _, version in server.watches]


@pytest.mark.looptime
async def test_a_watch_continues_from_the_newest_version_seen() -> None:
    server = ScriptedServer(([EVENT % 105], 300), ([BOOKMARK % 180], 300))
    watcher, told = await follow(server)
    assert versions(server) == ["100", "105", "180"]
    assert len(server.lists) == 1
    assert watcher.state is State.LISTED
    assert len(told) == 2


@pytest.mark.looptime
@pytest.mark.parametrize("gone", [Gone(410, "Expired", "old"), ([GONE], 0.0)])
async def test_gone_means_a_new_list_after_a_pause(gone: KubeError | tuple[list[bytes], float]) -> None:
    server = ScriptedServer(([EVENT % 105], 300), gone)
    _, told = await follow(server)
    assert [round(at) for at in server.lists] == [0, 301]
    assert versions(server) == ["100", "105", "100"]
    assert [type(event) is Relisted for event in told] == [True, False, True]


@pytest.mark.looptime
async def test_pauses_grow_while_it_fails_and_begin_anew_after_a_whole_watch() -> None:
    def down() -> KubeError:
        return ServerError(503, "", "down")

    server = ScriptedServer(down(), down(), down(), ([], 300), down())
    await follow(server)
    times = [at for at, _ in server.watches]
    pauses = [round(after - before) for before, after in pairwise(times)]
    assert pauses == [1, 2, 4, 300, 1]
    assert len(server.lists) == 1


@pytest.mark.looptime
async def test_watches_that_a_proxy_cuts_each_minute_are_no_failures() -> None:
    class Cut(ScriptedServer):
        @staticmethod
        async def _lines(lines: list[bytes], lasting: float) -> AsyncIterator[bytes]:
            await asyncio.sleep(lasting)
            raise Unreachable("cut")
            yield lines

    server = Cut(*[([], 60.0)] * 20)
    await follow(server)
    pauses = {round(after - before) for (before, _), (after, _) in pairwise(server.watches)}
    assert pauses == {61}
    assert len(server.lists) == 1


@pytest.mark.looptime
async def test_a_version_that_never_works_is_given_up_for_a_list() -> None:
    server = ScriptedServer(*[ServerError(504, "Timeout", "too large resource version")] * 6)
    await follow(server)
    assert len(server.lists) == 2


@pytest.mark.looptime
async def test_a_list_that_fails_is_begun_again_when_the_server_says() -> None:
    server = ScriptedServer()
    server.failing_lists = [TooManyRequests(429, "", "slow", retry_after=50), ServerError(500, "", "x")]
    _, told = await follow(server)
    assert [round(at) for at in server.lists] == [0, 50, 52]
    assert [type(event) for event in told] == [Relisted]


@pytest.mark.looptime
async def test_a_line_that_is_no_json_is_no_end() -> None:
    server = ScriptedServer(([b"<html>"], 0.0), ([EVENT % 105], 300))
    _, told = await follow(server)
    assert len(told) == 2
    assert versions(server)[:2] == ["100", "100"]


@pytest.mark.looptime
async def test_age_counts_from_the_last_sign_of_life() -> None:
    server = ScriptedServer(([BOOKMARK % 101], 300))
    watcher, _ = await follow(server, seconds=200)
    assert watcher.age() == pytest.approx(200, abs=1)
    assert Watcher(cast("Client", server), ConfigMap).age() == float("inf")
