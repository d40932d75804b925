"""Transfers: what the catalogue allows one Job or one upload to do, as records in the bucket.

What belongs here: writing, reading, listing and revoking the records. What does not: grants (``tokens``,
``door``) and counting (``metering``). A record is never a root: it keeps no blob alive.

A record that is gone or revoked refuses, so a missing answer is never permission. Replicas remember a record
for ``FRESH_SECONDS``: that is how late a revocation made elsewhere may reach a request.

A transfer that nobody ends ends by itself, whether the catalogue lives or not: without a byte for its
``idle_seconds`` it refuses. Its record stays as it is: the catalogue sees it and decides what that means.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Literal

import msgspec

from aimodels.dmcr.caches import Cache
from aimodels.dmcr.layout import Versioned
from aimodels.dmcr.metering import meter_key
from aimodels.dmcr.problems import Conflict, Denied, Invalid, NotFound, TryAgain
from aimodels.dmcr.swaps import Held, Lost, Swaps
from modelio.wire import TRANSFER_ENDED, TRANSFER_ID, TransferSpec
from objectstore.port import NoSuchKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aimodels.dmcr.repositories import Repositories

PREFIX = "transfers/"
SUFFIX = ".json"
FRESH_SECONDS = 2.0
#: A revoked record stays longer than any grant of it; then its absence refuses just as well.
REVOKED_SECONDS = 3600
#: That of an upload tells the holder of its token what became of it.
REVOKED_UPLOAD_SECONDS = 24 * 3600
_FINAL_SECONDS = 60.0
#: A put renews a record, but not one that is as new as this.
_RENEWED_AFTER = 60
MOST_IDLE_SECONDS = 366 * 24 * 3600
MOST_BYTES = 1 << 50
_REMEMBERED = 4096
_TRIES = 20

_SERVICE_ACCOUNT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_POD_PREFIX = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?")
_REPOSITORY = re.compile(
    r"(?=.{1,255}$)[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_HASH = re.compile(r"[0-9a-f]{64}")


class Transfer(Versioned, frozen=True, kw_only=True):
    """``transfers/<id>.json``. ``life`` is the life of the repository that the transfer may touch.

    ``at`` is when it was allowed last, ``ended`` when it was revoked.
    """

    id: str
    spec: TransferSpec
    life: str
    state: Literal["active", "revoked"]
    at: int
    ended: int = 0


class Transfers:
    """The transfer records of one bucket."""

    def __init__(
        self, swaps: Swaps, repositories: Repositories, moved: Callable[[str], Awaitable[int]]
    ) -> None:
        """``moved`` tells when a byte of a transfer was counted last, 0 when none was."""
        self._swaps = swaps
        self._moved = moved
        self._repositories = repositories
        self._seen: Cache[tuple[float, Held[Transfer] | None]] = Cache(_REMEMBERED)

    async def put(self, transfer: str, spec: TransferSpec) -> None:
        """Allow the transfer or change what it may; 409 once it is revoked.

        A transfer that pushes opens its repository's record, one that only reads needs an open one.
        """
        check(transfer, spec)
        for _ in range(_TRIES):
            held = await self._load(transfer)
            try:
                if held is None:
                    await self._create(transfer, spec)
                else:
                    await self._update(held, spec)
            except Lost:
                continue
            return
        raise TryAgain(f"transfer {transfer} is changed by others all the time: try again")

    async def active(self, transfer: str) -> Transfer:
        """Return the record if the transfer may go on now, at most ``FRESH_SECONDS`` old; else refuse."""
        found = await self.known(transfer)
        await self.refuse_over(found)
        return found

    async def known(self, transfer: str) -> Transfer:
        """Return the record, over or not, at most ``FRESH_SECONDS`` old; refuse when there is none."""
        held = await self._fresh(transfer)
        if held is None:
            raise Denied(
                f"transfer {transfer} does not exist or has ended: the catalogue must allow it first"
            )
        return held.value

    async def refuse_over(self, found: Transfer, *, told: bool = False) -> None:
        """Refuse a transfer that was revoked or has lapsed; ``told``: the hash of its token with it."""
        if found.state == "revoked":
            why = "was revoked by the catalogue"
        elif await self._lapsed(found):
            why = f"has lapsed: no byte of it moved for {found.spec.idle_seconds} s"
        else:
            return
        revoked = found.state == "revoked"
        detail = {"tokenHash": found.spec.token_hash, "revoked": revoked} if told else None
        raise Denied(f"transfer {found.id} {why}", code=TRANSFER_ENDED, detail=detail)

    async def get(self, transfer: str) -> Transfer:
        """Return the record as it is now, revoked or not; 404 when there is none."""
        held = await self._load(transfer)
        if held is None:
            raise NotFound(f"transfer {transfer} does not exist", code="TRANSFER_UNKNOWN")
        return held.value

    async def all_active(self) -> AsyncIterator[Transfer]:
        """Yield every transfer that is not revoked; old revoked ones go, with their numbers."""
        keys = [key async for key in self._swaps.store.list(PREFIX) if key.endswith(SUFFIX)]
        for at in range(0, len(keys), 32):
            ids = [key.removeprefix(PREFIX).removesuffix(SUFFIX) for key in keys[at : at + 32]]
            for held in await asyncio.gather(*(self._fresh(transfer) for transfer in ids)):
                if held is not None and held.value.state == "active":
                    yield held.value
                elif held is not None and _forgotten(held.value) < self._swaps.now():
                    await self._swaps.store.delete(meter_key(held.value.id))
                    await self._swaps.store.delete(transfer_key(held.value.id))

    async def revoke(self, transfer: str) -> Transfer | None:
        """Refuse the transfer from now on; None when there is nothing to refuse. Repeatable."""
        for _ in range(_TRIES):
            held = await self._load(transfer)
            if held is None or held.value.state == "revoked":
                return held.value if held else None
            ended = msgspec.structs.replace(held.value, state="revoked", ended=self._swaps.now())
            try:
                self._remember(transfer, await self._swaps.swap(transfer_key(transfer), held, ended))
            except Lost:
                continue
            return ended
        raise TryAgain(f"transfer {transfer} is changed by others all the time: try again")

    async def _create(self, transfer: str, spec: TransferSpec) -> None:
        if "push" in spec.actions:
            record = await self._repositories.open(spec.repository)
        else:
            record = await self._repositories.find(spec.repository)
        value = Transfer(id=transfer, spec=spec, life=record.life, state="active", at=self._swaps.now())
        self._remember(transfer, await self._swaps.new(transfer_key(transfer), value))

    async def _update(self, held: Held[Transfer], spec: TransferSpec) -> None:
        found = held.value
        if found.state == "revoked":
            raise Conflict(f"transfer {found.id} is revoked: begin another one", code="TRANSFER_REVOKED")
        if found.spec.repository != spec.repository:
            raise Conflict(
                f"transfer {found.id} belongs to {found.spec.repository}: begin another one",
                code="TRANSFER_REVOKED",
            )
        now = self._swaps.now()
        if found.spec != spec or now - found.at > _RENEWED_AFTER:
            changed = msgspec.structs.replace(found, spec=spec, at=now)
            self._remember(found.id, await self._swaps.swap(transfer_key(found.id), held, changed))

    async def _lapsed(self, found: Transfer) -> bool:
        """Tell whether nothing moved for too long; the bytes counted are only asked for when it matters."""
        idle, now = found.spec.idle_seconds, self._swaps.now()
        if idle is None or now < found.at + idle:
            return False
        return now >= await self._moved(found.id) + idle

    async def _fresh(self, transfer: str) -> Held[Transfer] | None:
        """Return the record from memory while it is fresh; then an unchanged one is not read again."""
        if not TRANSFER_ID.fullmatch(transfer):
            return None
        now = self._swaps.clock.monotonic()
        seen = self._seen.get(transfer)
        if seen is not None and now - seen[0] < (_FINAL_SECONDS if _is_final(seen[1]) else FRESH_SECONDS):
            return seen[1]
        held = seen[1] if seen else None
        if held is not None:
            try:
                if (await self._swaps.store.head(transfer_key(transfer))).etag == held.etag:
                    self._seen.put(transfer, (now, held), 1)
                    return held
            except NoSuchKey:
                pass
        return await self._load(transfer)

    async def _load(self, transfer: str) -> Held[Transfer] | None:
        if not TRANSFER_ID.fullmatch(transfer):
            return None
        asked = self._swaps.clock.monotonic()
        held = await self._swaps.load(transfer_key(transfer), Transfer)
        self._seen.put(transfer, (asked, held), 1)
        return held

    def _remember(self, transfer: str, held: Held[Transfer]) -> None:
        self._seen.put(transfer, (self._swaps.clock.monotonic(), held), 1)


def _is_final(held: Held[Transfer] | None) -> bool:
    """Tell whether the record never changes any more."""
    return held is not None and held.value.state == "revoked"


def _forgotten(revoked: Transfer) -> int:
    """Return from when on a revoked record is of no use to anybody."""
    return revoked.ended + (REVOKED_UPLOAD_SECONDS if revoked.spec.purpose == "upload" else REVOKED_SECONDS)


def transfer_key(transfer: str) -> str:
    """Return the key of a transfer's record."""
    return f"{PREFIX}{transfer}{SUFFIX}"


def check(transfer: str, spec: TransferSpec) -> None:
    """Refuse ids and records that are not well-formed; the message names the field."""
    rules = [
        ("id", TRANSFER_ID.fullmatch(transfer)),
        ("serviceAccount", _SERVICE_ACCOUNT.fullmatch(spec.service_account)),
        ("podPrefix", _POD_PREFIX.fullmatch(spec.pod_prefix)),
        ("repository", _REPOSITORY.fullmatch(spec.repository)),
        ("digest", spec.digest is None or _DIGEST.fullmatch(spec.digest)),
        ("tokenHash", spec.token_hash is None or _HASH.fullmatch(spec.token_hash)),
        ("expectedBytes", spec.expected_bytes is None or 0 <= spec.expected_bytes <= MOST_BYTES),
        ("idleSeconds", spec.idle_seconds is None or 0 < spec.idle_seconds <= MOST_IDLE_SECONDS),
        ("actions", spec.actions and len(set(spec.actions)) == len(spec.actions)),
    ]
    wrong = [name for name, holds in rules if not holds]
    if wrong:
        raise Invalid(
            f"the transfer's {', '.join(wrong)} is not well-formed: correct it and put it again",
            code="TRANSFER_INVALID",
        )
