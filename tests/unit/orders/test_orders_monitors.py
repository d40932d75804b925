"""Whether the cluster knows PodMonitors: one question for many orders, and nobody goes without its answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from aiinference.orders.monitors import FRESH_SECONDS, Monitors
from kubekit.errors import Unreachable
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from kubekit.client import Client


class Server:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self.away = False

    async def request(self, *_: str) -> bytes:
        self.asked += 1
        await self.answers.wait()
        if self.away:
            raise Unreachable
        return msgspec.json.encode({"resources": [{"name": "podmonitors"}]})


async def test_whoever_comes_while_it_is_asked_is_told_the_same() -> None:
    server, clock = Server(), ManualClock()
    monitors = Monitors(cast("Client", server), clock)
    several = [asyncio.create_task(monitors.known()) for _ in range(3)]
    await asyncio.sleep(0)
    server.answers.set()
    assert await asyncio.gather(*several) == [True, True, True]
    assert server.asked == 1
    await clock.advance(FRESH_SECONDS)
    assert await monitors.known()
    assert server.asked == 2


async def test_what_could_not_be_asked_is_asked_again() -> None:
    server = Server()
    monitors = Monitors(cast("Client", server), ManualClock())
    server.answers.set()
    server.away = True
    with pytest.raises(Unreachable):
        await monitors.known()
    server.away = False
    assert await monitors.known()
