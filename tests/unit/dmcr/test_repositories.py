"""Records: shared swaps, refusals that rest on what is written, limits, closed for good."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from aimodels.dmcr import layout
from aimodels.dmcr.caches import Cache
from aimodels.dmcr.layout import ManifestEntry, Record
from aimodels.dmcr.problems import NotFound, RegistryProblem
from aimodels.dmcr.repositories import Repositories, opened
from aimodels.dmcr.settings import Settings
from aimodels.dmcr.swaps import Swaps, Undecodable
from objectstore.memory import MemoryStore
from opskit import settings
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "models/team/tiny"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def repositories(store: MemoryStore) -> Repositories:
    return Repositories(Swaps(store, ManualClock()), "ours")


def tagged(record: Record | None, tag: str) -> Record:
    record = opened(record, NAME)
    return replace(record, tags={**record.tags, tag: "sha256:x"})


def without(record: Record | None, tag: str) -> Record:
    record = opened(record, NAME)
    if tag not in record.tags:
        raise NotFound(f"no tag {tag}")
    return replace(record, tags={name: to for name, to in record.tags.items() if name != tag})


async def test_closed_is_final_for_a_life_and_the_next_one_is_another(repositories: Repositories) -> None:
    first = await repositories.open(NAME)
    assert (await repositories.open(NAME)).life == first.life
    closed = await repositories.close(NAME)
    assert (closed.state, closed.life) == ("closed", first.life)
    assert (await repositories.close(NAME)).rev == closed.rev, "closing again writes nothing"
    with pytest.raises(NotFound):
        await repositories.create(NAME)
    again = await repositories.open(NAME)
    assert again.life != first.life
    assert not again.tags


async def test_a_missing_record_is_made_closed(repositories: Repositories) -> None:
    assert (await repositories.close(NAME)).state == "closed"
    with pytest.raises(NotFound):
        await repositories.find(NAME)


async def test_each_edit_of_a_batch_succeeds_or_is_refused_alone(repositories: Repositories) -> None:
    await repositories.open(NAME)
    await repositories.change(NAME, lambda record: tagged(record, "old"))
    results = await asyncio.gather(
        repositories.change(NAME, lambda record: without(record, "old")),
        repositories.change(NAME, lambda record: without(record, "old")),
        repositories.change(NAME, lambda record: tagged(record, "new")),
        return_exceptions=True,
    )
    assert [isinstance(result, NotFound) for result in results] == [False, True, False]
    assert (await repositories.find(NAME)).tags == {"new": "sha256:x"}


async def test_a_record_that_would_grow_too_large_is_refused_alone(
    repositories: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "RECORD_LIMIT", 2000)
    await repositories.open(NAME)

    def swollen(record: Record | None) -> Record:
        entry = ManifestEntry(key="k", media_type="m", size=1, at=1, blobs=1, annotations={"a": "x" * 3000})
        return replace(opened(record, NAME), manifests={"sha256:y": entry})

    results = await asyncio.gather(
        repositories.change(NAME, swollen),
        repositories.change(NAME, lambda record: tagged(record, "new")),
        return_exceptions=True,
    )
    assert isinstance(results[0], RegistryProblem)
    assert results[0].status == 413
    assert (await repositories.find(NAME)).tags == {"new": "sha256:x"}


@pytest.mark.parametrize("tags", [1, 10_000])
async def test_large_records_are_coded_beside_the_event_loop(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, tags: int
) -> None:
    threads = set[threading.Thread]()

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            threads.add(threading.current_thread())
            return call(*args)

        return wrapped

    monkeypatch.setattr(layout, "encode", noted(layout.encode))
    monkeypatch.setattr(layout, "decode", noted(layout.decode))
    whole = {f"t{number}": f"sha256:{number:064x}" for number in range(tags)}
    record = Record(name=NAME, life="l", owner="ours", state="open", tags=whole)
    await Swaps(store, ManualClock()).new(layout.record_key(NAME), record)
    assert (await Repositories(Swaps(store, ManualClock()), "ours").find(NAME)).tags == whole
    assert (threading.main_thread() in threads) is (tags == 1)


async def test_a_record_that_cannot_be_read_is_no_record_and_not_absent(
    repositories: Repositories, store: MemoryStore
) -> None:
    await store.put(layout.record_key(NAME), b"garbage")
    with pytest.raises(Undecodable):
        await repositories.open(NAME)
    assert (await store.get(layout.record_key(NAME))).body == b"garbage"


async def test_an_unchanged_record_is_not_read_again(
    repositories: Repositories, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await repositories.open(NAME)
    read: list[str] = []
    get = store.get

    async def counted(key: str) -> object:
        read.append(key)
        return await get(key)

    monkeypatch.setattr(store, "get", counted)
    for _ in range(3):
        await repositories.find(NAME)
    assert not read
    await Repositories(Swaps(store, ManualClock()), "ours").close(NAME)
    read.clear()
    with pytest.raises(NotFound):
        await repositories.find(NAME)
    assert len(read) == 1


def test_a_record_survives_its_encoding() -> None:
    entry = ManifestEntry(
        key="k", media_type="m", size=3, at=4, blobs=2, subject="s", annotations={"ü": "ß"}, children=("c",)
    )
    record = Record(
        rev="r", name=NAME, life="l", owner="o", state="open", tags={"t": "d"}, manifests={"d": entry}
    )
    assert layout.decode(layout.encode(record), Record) == record


def test_keys_of_names_never_nest() -> None:
    assert layout.record_key("a/b").endswith("/a!b.json")
    assert layout.manifest_key("a/b", "pid").split("/")[2:] == ["a!b", "pid"]


def test_a_cache_forgets_what_was_used_least_lately() -> None:
    cache: Cache[int] = Cache(10)
    for key, value in (("a", 1), ("b", 2)):
        cache.put(key, value, 5)
    assert cache.get("a") == 1
    cache.put("c", 3, 5)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    cache.put("huge", 4, 11)
    assert cache.get("huge") is None
    cache.drop("a")
    assert cache.get("a") is None


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({}, "DMCR_STORE is missing"),
        ({"DMCR_STORE": "memory:", "DMCR_AUTH": "grants"}, "DMCR_SIGNING_KEY_FILE"),
        ({"DMCR_STORE": "memory:", "DMCR_TLS_CERT_FILE": "/x"}, "together"),
        ({"DMCR_STORE": "memory:", "DMCR_LISTEN": "5000"}, "DMCR_LISTEN"),
        ({"DMCR_STORE": "memory:", "DMCR_STROE": "x"}, "DMCR_STROE is not a setting"),
    ],
)
def test_wrong_settings_are_named(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(settings.SettingsError, match=problem):
        settings.load(Settings, environ, "DMCR_")


def test_settings_hide_their_secrets() -> None:
    chosen = settings.load(Settings, {"DMCR_STORE": "memory:", "DMCR_S3_SECRET_KEY": "hush"}, "DMCR_")
    assert "hush" not in str(settings.describe(chosen))
    assert chosen.address() == ("::", 5000)
