"""Pure parts of the gateway: Content-Range, bodies, plans of parts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimodels.upload import multipart
from aimodels.upload.body import Body, ClientGone, Silent, Stopped
from aimodels.upload.ranges import Piece, parse
from webkit.problems import Problem

if TYPE_CHECKING:
    from starlette.types import Message

MIB = 1 << 20


@pytest.mark.parametrize(
    ("header", "length", "expected"),
    [
        (None, 5, None),
        ("bytes 0-4/10", 5, Piece(0, 5, 10)),
        ("bytes 5-9/10", 5, Piece(5, 5, 10)),
        ("bytes 5-9/10", None, Piece(5, 5, 10)),
        ("bytes 5-9/*", 5, Piece(5, 5, None)),
        ("bytes */10", 0, Piece(None, 0, 10)),
        ("bytes 10-10/10", 0, Piece(None, 0, 10)),
    ],
)
def test_content_ranges(header: str | None, length: int | None, expected: Piece | None) -> None:
    assert parse(header, length) == expected


@pytest.mark.parametrize(
    ("header", "length"),
    [
        ("bytes 0-4", 5),
        ("0-4/10", 5),
        ("bytes 0-4/10", 6),
        ("bytes 5-4/10", 0),
        ("bytes 5-10/10", 6),
        ("bytes */10", 3),
        ("bytes */*", 0),
        ("bytes -4/10", 4),
        ("bytes 99999999999999999999-99999999999999999999/*", 1),
        ("bytes 0-4/10\r\nx: y", 5),
        ("", 5),
    ],
)
def test_content_ranges_that_contradict(header: str, length: int) -> None:
    with pytest.raises(Problem) as caught:
        parse(header, length)
    assert caught.value.status == 400


def test_only_the_end_of_a_known_whole_is_the_last() -> None:
    assert [
        piece.last_one for piece in (Piece(0, 5, 10), Piece(5, 5, 10), Piece(5, 5, None), Piece(None, 0, 9))
    ] == [
        False,
        True,
        False,
        True,
    ]


def body(*messages: Message | None, idle: float = 30) -> Body:
    """Return a body that meets these messages; None is silence for ever."""
    left = list(messages)

    async def receive() -> Message:
        message = left.pop(0)
        if message is None:
            await asyncio.Event().wait()
        assert message is not None
        return message

    return Body(receive, idle)


def piece(content: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": content, "more_body": more}


async def collected(of: Body) -> list[bytes]:
    return [one async for one in of.pieces()]


async def test_the_head_is_looked_at_and_still_read() -> None:
    made = body(piece(b"ab"), piece(b""), piece(b"cdef"), piece(b"gh", more=False))
    assert await made.head(5) == b"abcdef"
    assert await collected(made) == [b"ab", b"cdef", b"gh"]


async def test_a_head_longer_than_the_body_is_the_body() -> None:
    made = body(piece(b"ab", more=False))
    assert await made.head(512) == b"ab"
    assert await collected(made) == [b"ab"]


@pytest.mark.parametrize("skip", [0, 1, 2, 3, 4, 5])
async def test_bytes_that_are_here_already_are_left_out(skip: int) -> None:
    made = body(piece(b"ab"), piece(b"cd"), piece(b"e", more=False))
    made.skip(skip)
    assert b"".join(await collected(made)) == b"abcde"[skip:]


async def test_a_client_that_leaves_ends_the_body() -> None:
    made = body(piece(b"ab"), {"type": "http.disconnect"})
    with pytest.raises(ClientGone):
        await collected(made)


@pytest.mark.looptime
async def test_silence_ends_the_body() -> None:
    made = body(piece(b"ab"), None, idle=7)
    with pytest.raises(Silent):
        await collected(made)
    assert asyncio.get_running_loop().time() == 7


@pytest.mark.looptime
async def test_our_own_end_comes_at_once() -> None:
    made = body(piece(b"ab"), None)
    reading = asyncio.create_task(collected(made))
    await asyncio.sleep(3)
    made.stop()
    with pytest.raises(Stopped):
        await reading
    assert asyncio.get_running_loop().time() == 3


async def test_a_body_that_was_stopped_is_not_begun() -> None:
    made = body(piece(b"ab", more=False))
    made.stop()
    with pytest.raises(Stopped):
        await collected(made)


@given(st.integers(1, multipart.MOST_BYTES), st.integers(1, 10_000))
def test_a_plan_covers_the_file_without_gaps(size: int, number: int) -> None:
    plan = multipart.plan("f", size, None)
    assert plan.count <= multipart.MOST_PARTS
    number = min(number, plan.count)
    start, end = plan.span(number)
    assert (start, end > start) == (0 if number == 1 else plan.span(number - 1)[1], True)
    assert plan.span(plan.count)[1] == size
    assert plan.whole(start) == list(range(1, number))
    assert len(plan.whole(size)) == plan.count


@pytest.mark.parametrize(
    ("size", "part"),
    [(0, None), (-1, None), (multipart.MOST_BYTES + 1, None), (100 * MIB, MIB), (1 << 40, 5 * MIB)],
)
def test_plans_that_cannot_be(size: int, part: int | None) -> None:
    with pytest.raises(Problem) as caught:
        multipart.plan("f", size, part)
    assert caught.value.status == 400


def test_there_is_no_part_outside_the_plan() -> None:
    plan = multipart.plan("f", 40 * MIB, None)
    for number in (0, -1, 4):
        with pytest.raises(Problem):
            plan.span(number)
