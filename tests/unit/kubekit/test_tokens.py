"""Reviews of tokens, remembered."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from kubekit import tokens
from kubekit.errors import Unreachable
from kubekit.tokens import Overloaded, TokenReviews
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client import Client


class Server:
    """Accepts tokens that begin with "good"; JWTs by their subject."""

    def __init__(self) -> None:
        self.asked = 0
        self.seen = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()
        self.error: Exception | None = None
        self.withdrawn: set[str] = set()
        self._held = ""

    def hold(self, which: str) -> None:
        """Keep questions about tokens that begin so until ``answers`` is set."""
        self._held = which
        self.answers.clear()
        self.seen.clear()

    async def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self.asked += 1
        self.seen.set()
        token: str = manifest["spec"]["token"]
        if token.startswith(self._held):
            await self.answers.wait()
        if self.error is not None:
            raise self.error
        if token in self.withdrawn or not token.startswith(("good", "e")):
            return {"status": {"user": {}}}
        return {"status": {"authenticated": True, "user": {"username": "alice"}, "audiences": ["us"]}}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def reviews(server: Server, clock: ManualClock) -> TokenReviews:
    return TokenReviews(cast("Client", server), ["us"], clock=clock)


def jwt(payload: bytes) -> str:
    """Return a token of the form of a JWT, whatever its payload says."""
    return ".".join(["e30", base64.urlsafe_b64encode(payload).decode().rstrip("="), "sig"])


def living(seconds: float, clock: ManualClock) -> str:
    return jwt(json.dumps({"exp": clock.now().timestamp() + seconds}).encode())


async def test_an_answer_holds_for_a_moment(
    reviews: TokenReviews, server: Server, clock: ManualClock
) -> None:
    for token in ("good", "bad"):
        server.asked = 0
        for _ in range(3):
            who = await reviews.identify(token)
            assert (who.username if who else None) == ("alice" if token == "good" else None)
        assert server.asked == 1
        await clock.advance(tokens.REMEMBERED_SECONDS)
        await reviews.identify(token)
        assert server.asked == 2


async def test_no_answer_holds_longer_than_the_token(
    reviews: TokenReviews, server: Server, clock: ManualClock
) -> None:
    token = living(3, clock)
    await reviews.identify(token)
    await clock.advance(2.9)
    await reviews.identify(token)
    assert server.asked == 1
    await clock.advance(0.1)
    await reviews.identify(token)
    assert server.asked == 2


@pytest.mark.parametrize(
    "payload", [b"{}", b"\xff", b"[]", b'{"exp": "soon"}', b'{"exp": null}', b"", b'{"exp": 1e400}']
)
async def test_a_token_that_tells_no_end_is_reviewed_like_any_other(
    reviews: TokenReviews, server: Server, payload: bytes
) -> None:
    token = jwt(payload)
    assert await reviews.identify(token)
    assert await reviews.identify(token)
    assert server.asked == 1


async def test_a_payload_that_is_no_base64(reviews: TokenReviews) -> None:
    assert await reviews.identify("e30.a.sig")
    assert await reviews.identify("e30.\u00e9.sig")


async def test_a_lapsed_answer_is_of_no_use_when_the_server_is_down(
    reviews: TokenReviews, server: Server, clock: ManualClock
) -> None:
    await reviews.identify("good")
    server.error = Unreachable("no answer")
    assert await reviews.identify("good")
    await clock.advance(tokens.REMEMBERED_SECONDS)
    with pytest.raises(Unreachable):
        await reviews.identify("good")
    server.error = None
    assert await reviews.identify("good")


async def test_one_question_for_all_who_wait(reviews: TokenReviews, server: Server) -> None:
    server.answers.clear()
    waiting = [asyncio.create_task(reviews.identify("good")) for _ in range(20)]
    await server.seen.wait()
    waiting[0].cancel()
    server.answers.set()
    found = await asyncio.gather(*waiting[1:])
    assert all(found)
    assert server.asked == 1


async def test_more_tokens_than_may_wait_are_refused(reviews: TokenReviews, server: Server) -> None:
    server.answers.clear()
    waiting = [asyncio.create_task(reviews.identify(f"good-{number}")) for number in range(tokens._WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await reviews.identify("good-more")
    assert server.asked <= tokens._AT_ONCE
    server.answers.set()
    await asyncio.gather(*waiting)
    assert await reviews.identify("good-more")


async def test_the_memory_is_bounded_and_holds_no_token(reviews: TokenReviews) -> None:
    for number in range(tokens._REMEMBERED + 10):
        await reviews.identify(f"good-{number}")
        await reviews.identify(f"bad-{number}")
    for kept in (reviews._good, reviews._others):
        assert len(kept) == tokens._REMEMBERED
        assert not any("-" in key for key in kept)


async def test_a_flood_of_what_is_no_token_is_not_before_nor_instead_of_a_token(
    reviews: TokenReviews, server: Server, clock: ManualClock
) -> None:
    await reviews.identify("good")
    for number in range(tokens._REMEMBERED + 1):
        await reviews.identify(f"bad-{number}")
    assert reviews.knows("good")
    assert not reviews.knows("bad-1")
    await clock.advance(tokens.REMEMBERED_SECONDS)
    server.hold("bad")
    flood = [asyncio.create_task(reviews.identify(f"bad-{number}")) for number in range(tokens._WAITING)]
    await server.seen.wait()
    assert await reviews.identify("good"), "asked anew, beside those that wait"
    with pytest.raises(Overloaded):
        await reviews.identify("good-but-new")
    server.answers.set()
    assert set(await asyncio.gather(*flood)) == {None}


async def test_a_token_that_is_withdrawn_is_a_stranger_from_then_on(
    reviews: TokenReviews, server: Server, clock: ManualClock
) -> None:
    await reviews.identify("good")
    server.withdrawn.add("good")
    await clock.advance(tokens.REMEMBERED_SECONDS)
    assert await reviews.identify("good") is None
    assert not reviews.knows("good")


@pytest.mark.parametrize("token", ["", "g" * (tokens.MOST_TOKEN_BYTES + 1)])
async def test_what_can_be_no_token_is_not_asked_about(
    reviews: TokenReviews, server: Server, token: str
) -> None:
    assert await reviews.identify(token) is None
    assert server.asked == 0
