"""Multipart uploads: clients that send a file in numbered parts, several at once and in any order.

What belongs here: what was announced, whose turn it is, which parts are whole. What does not: HTTP, and how
bytes get into the registry (``receiving``).

All parts but the last have one size, so the registry's offset alone tells which of them are here. A part
whose turn has not come waits with its body unread; what was announced is kept in memory only, and a client
that meets a restarted gateway announces it again and goes on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aimodels.upload.refusals import Reason, invalid
from webkit.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aimodels.upload.access import Access
    from aimodels.upload.body import Body
    from aimodels.upload.receiving import Receipt, Receiver
    from modelio.registry import UploadSession

MINIMUM_PART = 5 << 20
DEFAULT_PART = 16 << 20
MOST_PARTS = 10_000
MOST_BYTES = 5 << 40
_MEBIBYTE = 1 << 20
#: How long a part waits for those before it.
_TURN_SECONDS = 300.0
_REMEMBERED = 1024


@dataclass(frozen=True)
class Plan:
    """A file that is sent in parts: its name, its size, and the size of every part but the last."""

    filename: str
    size: int
    part: int

    @property
    def count(self) -> int:
        """Return how many parts there are."""
        return max(1, -(-self.size // self.part))

    def span(self, number: int) -> tuple[int, int]:
        """Return where a part begins and ends; Problem 400 when there is no such part."""
        if not 1 <= number <= self.count:
            raise invalid(f"there is no part {number} of {self.count}", "send the parts that init announced")
        start = (number - 1) * self.part
        return start, min(start + self.part, self.size)

    def whole(self, offset: int) -> list[int]:
        """Return the numbers of the parts that are here when so many bytes are."""
        return list(range(1, (self.count if offset >= self.size else offset // self.part) + 1))


def etag(number: int, end: int) -> str:
    """Return the ETag of a part that was received: it says how far the file is with it."""
    return f"{number}-{end:x}"


def plan(filename: str, size: int, part: int | None) -> Plan:
    """Return the plan for a file; Problem 400 for sizes that cannot be."""
    if not 0 < size <= MOST_BYTES:
        raise invalid(f"sizeBytes must be 1 to {MOST_BYTES}", "announce the size of the file")
    fitting = -(-size // (MOST_PARTS * _MEBIBYTE)) * _MEBIBYTE
    part = part or max(DEFAULT_PART, fitting)
    if part < min(MINIMUM_PART, size) or -(-size // part) > MOST_PARTS:
        raise invalid(
            f"parts of {part} bytes are not possible for {size}",
            f"parts have at least {MINIMUM_PART} bytes, and there are at most {MOST_PARTS}",
        )
    return Plan(filename, size, part)


@dataclass
class State:
    """What this process knows of one session."""

    probed: tuple[str, int, str] | None = None
    plan: Plan | None = None
    upload: UploadSession | None = None
    offset: int = 0
    busy: bool = False
    turn: asyncio.Condition = field(default_factory=asyncio.Condition)


class Multipart:
    """The multipart uploads of this process."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._states: OrderedDict[str, State] = OrderedDict()

    def state(self, session: str) -> State:
        """Return what is known of a session; the least used ones are forgotten."""
        state = self._states.setdefault(session, State())
        self._states.move_to_end(session)
        while len(self._states) > _REMEMBERED:
            self._states.popitem(last=False)
        return state

    async def begin(self, access: Access, filename: str, part: int | None) -> tuple[Plan, bool]:
        """Fix the plan of the file that was probed; False when it was fixed before."""
        state = self.state(access.session)
        if state.probed is None or state.probed[0] != filename:
            raise _conflict("this file has not been probed", "announce it by /probe, with its first bytes")
        wanted = plan(filename, state.probed[1], part)
        fresh = state.plan is None
        if not fresh and state.plan != wanted:
            raise _conflict("another file or part size was begun", "end that by /abort first")
        state.plan = wanted
        return wanted, fresh

    async def offset(self, access: Access) -> int:
        """Return how much is here, taking the upload over if nobody here writes to it."""
        state = self.state(access.session)
        async with state.turn:
            if state.upload is None and not state.busy:
                await self._open(access, state)
        return state.offset

    def taken_over(self, session: str) -> None:
        """Note that somebody else of this process has opened the upload: its offset may be another."""
        state = self.state(session)
        if not state.busy:
            state.upload = None

    async def part(self, access: Access, number: int, length: int, body: Body) -> str:
        """Receive a part when its turn comes, and return its ETag; one that is here already is dropped."""
        state = self.state(access.session)
        plan = announced(state)
        start, end = plan.span(number)
        if length != end - start:
            raise invalid(
                f"part {number} has {end - start} bytes, not {length}",
                f"all parts but the last have {plan.part}",
                Reason.PART_MISMATCH,
            )
        await self._take_turn(access, state, start)
        try:
            if number == 1 and state.offset == 0:
                await self._receiver.check(plan.filename, body)
            await self._pour(access, state, body, start, end)
        finally:
            async with state.turn:
                state.busy = False
                state.turn.notify_all()
        return etag(number, end)

    async def complete(self, access: Access, named: Sequence[tuple[int, str]]) -> Receipt:
        """Commit the file when the named parts are all of it."""
        state = self.state(access.session)
        plan = announced(state)
        expected = [(number, etag(number, plan.span(number)[1])) for number in range(1, plan.count + 1)]
        if [(number, tag.strip('"')) for number, tag in named] != expected:
            raise invalid(
                f"the parts named are not the {plan.count} of the file",
                "name every part once, in order, with the ETag of its answer",
                Reason.PART_MISMATCH,
            )
        await self._open(access, state)
        if state.offset != plan.size or state.upload is None:
            raise _conflict(
                f"{state.offset} of {plan.size} bytes are here",
                f"send the missing parts again, from {len(plan.whole(state.offset)) + 1} on",
                Reason.INCOMPLETE,
            )
        receipt = await self._receiver.commit(access, state.upload, plan.filename)
        self._states.pop(access.session, None)
        return receipt

    async def abort(self, access: Access) -> None:
        """Drop what was received and announced; the session stays usable."""
        self._states.pop(access.session, None)
        upload = await access.client.open_upload(access.repository, access.session)
        await upload.cancel()

    async def _take_turn(self, access: Access, state: State, start: int) -> None:
        """Return when nobody writes and everything before ``start`` is here; then we are the writer."""
        try:
            async with asyncio.timeout(_TURN_SECONDS), state.turn:
                while True:
                    if not state.busy:
                        if state.upload is None:
                            await self._open(access, state)
                        if state.offset >= start:
                            state.busy = True
                            return
                    await state.turn.wait()
        except TimeoutError:
            raise Problem(
                503,
                Reason.INCOMPLETE,
                "the parts before this one did not arrive in time",
                "send them, then this one again",
                headers={"retry-after": "5"},
            ) from None

    async def _pour(self, access: Access, state: State, body: Body, start: int, end: int) -> None:
        missing = max(0, end - max(start, state.offset))
        body.skip(end - start - missing)
        upload, state.upload = state.upload, None  # after a failure the registry has to say how much arrived
        if missing and upload:
            state.offset = await self._receiver.pour(access, upload, body, missing)
        else:
            await body.drop()
        state.upload = upload

    async def _open(self, access: Access, state: State) -> None:
        size = state.plan.size if state.plan else None
        state.upload = await access.client.open_upload(access.repository, access.session, size)
        state.offset = state.upload.offset


def announced(state: State) -> Plan:
    """Return the plan, or refuse when none was made here."""
    if state.plan is None:
        raise _conflict("no file was announced, or the gateway has restarted", "call /probe and /init again")
    return state.plan


def _conflict(message: str, next_step: str, reason: Reason = Reason.INVALID_REQUEST) -> Problem:
    return Problem(409, reason, message, next_step)
