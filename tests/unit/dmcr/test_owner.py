"""Whose bucket it is, and whether it is safe to write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.dmcr.layout import OWNER_KEY, OwnerMark, decode
from aimodels.dmcr.owner import Ownership
from aimodels.dmcr.swaps import Swaps
from objectstore.memory import MemoryStore
from objectstore.port import StoreUnavailable
from opskit.clock import ManualClock

if TYPE_CHECKING:
    import pytest


class Careless(MemoryStore):
    """A store that knows the headers and ignores them."""

    async def put(
        self,
        key: str,
        body: bytes | bytearray | memoryview,
        *,
        if_match: str | None = None,  # noqa: ARG002 - the point
        if_none_match: bool = False,  # noqa: ARG002 - the same
    ) -> str:
        return await super().put(key, body)


def ownership(store: MemoryStore, owner: str = "ours") -> Ownership:
    return Ownership(Swaps(store, ManualClock()), owner)


async def test_an_empty_bucket_gets_our_mark_and_is_ours_again_after_a_restart() -> None:
    store = MemoryStore()
    for _ in range(2):
        ours = ownership(store)
        assert ours.unready()
        await ours.look()
        assert ours.read_only is None
        assert ours.unready() is None
    assert decode((await store.get(OWNER_KEY)).body, OwnerMark).cluster == "ours"
    assert [key async for key in store.list("")] == [OWNER_KEY], "the probe leaves nothing behind"


async def test_a_bucket_of_another_installation_is_read_only() -> None:
    store = MemoryStore()
    await ownership(store, "theirs").look()
    ours = ownership(store)
    await ours.look()
    assert ours.read_only
    assert "theirs" in ours.read_only
    assert ours.unready() is None, "reading is served"


async def test_objects_without_a_mark_are_not_taken_over() -> None:
    store = MemoryStore()
    await store.put("repos/xx/somebody.json", b"{}")
    ours = ownership(store)
    await ours.look()
    assert ours.read_only
    assert OWNER_KEY in ours.read_only
    assert [key async for key in store.list("")] == ["repos/xx/somebody.json"]


async def test_a_store_whose_swaps_are_not_atomic_is_not_written_to() -> None:
    ours = ownership(Careless())
    await ours.look()
    assert ours.read_only
    assert "not atomic" in ours.read_only


async def test_a_mark_that_changes_under_a_running_replica_is_noticed() -> None:
    store = MemoryStore()
    ours = ownership(store)
    await ours.look()
    await store.delete(OWNER_KEY)
    await ownership(store, "theirs").look()
    await ours.look()
    assert ours.read_only


async def test_a_silent_store_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    ours = ownership(store)

    async def silent(key: str) -> None:
        raise StoreUnavailable(key)

    with monkeypatch.context() as patched:
        patched.setattr(store, "get", silent)
        await ours.look()
        assert ours.unready()
    await ours.look()
    with monkeypatch.context() as patched:
        patched.setattr(store, "get", silent)
        await ours.look()
    assert ours.read_only is None
