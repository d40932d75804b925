"""More directed schedules: lost answers of every kind of write, sharing, references that go meanwhile.

The numbers are the rows of the interleavings that must be covered, as in ``test_interleavings``.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from aimodels.dmcr import layout, parts
from aimodels.dmcr.layout import Pointer, Reader, Session
from aimodels.dmcr.swaps import Swaps
from objectstore.port import StoreUnavailable
from opskit.clock import ManualClock
from tests.kit.dmcr import digest_of
from tests.kit.dmcrworld import MANIFEST, NAME, TINY_PARTS, Replica, World, manifest_of
from tests.kit.scheduledstore import at_once
from tests.kit.sweeper import Sweeper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from tests.kit import asgi
    from tests.kit.scheduledstore import Sent

CONFIG = b'{"descriptor":{"name":"tiny"}}'
LAYER = bytes(range(200))
OTHER, THIRD = "models/team/other", "models/team/third"
UPLOADS = f"/v2/{NAME}/blobs/uploads/"
TAGGED = f"/v2/{NAME}/manifests/t"
BLOB = f"/v2/{NAME}/blobs/{digest_of(LAYER)}"
HALF_A_DAY_LATER = int(ManualClock().now().timestamp()) + (13 + 24) * 3600
_CONDITIONAL = ("repos/", "blobs/", "uploads/")


@pytest.fixture(autouse=True)
def _tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "plan_for", lambda _length, **_: TINY_PARTS)


@pytest.fixture
def world() -> World:
    return World()


async def pushed(world: World, replica: Replica, *blobs: bytes, name: str = NAME) -> None:
    for blob in blobs:
        answer = await world.do(replica, "POST", f"/v2/{name}/blobs/uploads/?digest={digest_of(blob)}", blob)
        assert answer.status == 201, answer


async def committed(world: World, replica: Replica, body: bytes, tag: str = "t", name: str = NAME) -> None:
    answer = await world.do(replica, "PUT", f"/v2/{name}/manifests/{tag}", body, Content_Type=MANIFEST)
    assert answer.status == 201, answer


async def whole(world: World, replica: Replica, body: bytes, name: str = NAME) -> bool:
    """Tell whether a manifest over config and layer can be pulled."""
    manifest = await world.do(replica, "GET", f"/v2/{name}/manifests/{digest_of(body)}")
    blobs = [
        await world.do(replica, "GET", f"/v2/{name}/blobs/{digest_of(blob)}") for blob in (CONFIG, LAYER)
    ]
    return [manifest.body, *(blob.body for blob in blobs)] == [body, CONFIG, LAYER]


def is_conditional(sent: Sent) -> bool:
    return sent.verb == "put" and sent.key.startswith(_CONDITIONAL) and not sent.key.endswith(".tail")


async def with_time_outs(
    world: World, replica: Replica, call: Awaitable[Any], which: Callable[[Sent], bool], *, executed: bool
) -> Any:
    """Run to the end; of the requests named the first, the third and so on get no answer."""
    task, lost = asyncio.ensure_future(call), False
    await world.network.rest()
    for _ in range(2000):
        if task.done():
            return task.result()
        if not world.network.waiting:
            await replica.clock.advance(5)
            await world.network.rest()
            continue
        sent = world.network.waiting[0]
        lost = lost ^ which(sent)
        if not (lost and which(sent)):
            await world.network.execute(sent)
        elif executed:
            await world.network.lose_answer(sent)
        else:
            await world.network.fail(sent, StoreUnavailable("no answer"))
    raise AssertionError(world.network.schedule[-30:])


class Case(NamedTuple):
    """An operation: method, target, status, what must hold after it, and its resume key."""

    method: str
    target: str
    status: int
    holds: Callable[[World, asgi.Answer], bool]
    key: str = ""


def layer_of(world: World) -> Pointer:
    found = world.pointer(digest_of(LAYER))
    assert found is not None
    return found


def readers(world: World) -> set[str]:
    return {reader.repo for reader in layer_of(world).repos.values()}


WHOLE = digest_of(manifest_of(CONFIG, LAYER))
#: of the blob that no manifest names
LOOSE = b"loose"
CASES = {
    "delete a tag": Case(
        "DELETE", TAGGED, 202, lambda world, _: not world.record().tags and WHOLE in world.record().manifests
    ),
    "delete a manifest": Case(
        "DELETE", f"/v2/{NAME}/manifests/{WHOLE}", 202, lambda world, _: not world.record().manifests
    ),
    "delete a blob": Case(
        "DELETE",
        f"/v2/{NAME}/blobs/{digest_of(LOOSE)}",
        202,
        lambda world, _: (pointer := world.pointer(digest_of(LOOSE))) is not None and not pointer.repos,
    ),
    "head": Case(
        "HEAD",
        BLOB,
        200,
        lambda world, _: [one.until for one in layer_of(world).repos.values()] == [HALF_A_DAY_LATER],
    ),
    "mount": Case(
        "POST",
        f"/v2/{OTHER}/blobs/uploads/?mount={digest_of(LAYER)}&from={NAME}",
        201,
        lambda world, _: readers(world) == {NAME, OTHER},
    ),
    "take over": Case(
        "POST",
        UPLOADS,
        202,
        lambda _, answer: answer.headers["dmcr-attempt"] == "2",
        "k",
    ),
}


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("name", CASES)
async def test_25_a_lost_answer_of_any_operation_is_decided_by_reading(
    world: World, name: str, *, executed: bool
) -> None:
    replica, case = world.replica("one"), CASES[name]
    await pushed(world, replica, CONFIG, LAYER, LOOSE)
    await committed(world, replica, manifest_of(CONFIG, LAYER))
    await world.do(replica, "POST", UPLOADS, dmcr_resume_key="k")
    await replica.clock.advance(13 * 3600)
    keyed = {"dmcr-resume-key": case.key} if case.key else {}
    call = replica.send(case.method, case.target, b"", keyed)
    answer = await with_time_outs(world, replica, call, is_conditional, executed=executed)
    assert answer.status == case.status, answer
    assert case.holds(world, answer)


@pytest.mark.parametrize("executed", [True, False])
async def test_25_a_lost_answer_to_closing_closes_once(world: World, *, executed: bool) -> None:
    replica = world.replica("one")
    await pushed(world, replica, CONFIG)
    call = replica.registry.repositories.close(NAME)
    await with_time_outs(world, replica, call, is_conditional, executed=executed)
    assert world.record().state == "closed"


@pytest.mark.parametrize("executed", [True, False])
async def test_25_a_lost_answer_to_cancelling_cancels_once(world: World, *, executed: bool) -> None:
    replica = world.replica("one")
    opened = await world.do(replica, "POST", UPLOADS)
    call = replica.send("DELETE", opened.headers["location"], b"", {})
    answer = await with_time_outs(world, replica, call, is_conditional, executed=executed)
    assert answer.status == 204
    assert [session.state for _, session in world.each("uploads/", Session)] == ["void"]


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("verb", ["create_multipart", "upload_part", "complete_multipart"])
async def test_25_a_lost_answer_of_a_multipart_step_costs_no_byte_that_is_there(
    world: World, verb: str, *, executed: bool
) -> None:
    replica = world.replica("one")
    opened = await world.do(replica, "POST", UPLOADS)
    target = f"{opened.headers['location']}?digest={digest_of(LAYER)}"
    first = replica.send("PUT", target, LAYER, {})
    answer = await with_time_outs(world, replica, first, lambda sent: sent.verb == verb, executed=executed)
    if answer.status == 503:  # the store has joined nothing: the same close again, without a byte
        answer = await world.do(replica, "PUT", target)
    assert answer.status == 201, answer
    assert replica.meter.arrived == len(LAYER)
    await pushed(world, replica, CONFIG)
    body = manifest_of(CONFIG, LAYER)
    await committed(world, replica, body)
    assert await whole(world, replica, body)


@pytest.mark.parametrize("lost", [True, False])
async def test_19_closing_between_the_final_swap_and_its_answer(world: World, *, lost: bool) -> None:
    replica, catalogue = world.replica("one"), world.replica("catalogue")
    await pushed(world, replica, CONFIG, LAYER)
    body = manifest_of(CONFIG, LAYER)
    push = await world.start(replica, "PUT", TAGGED, body, Content_Type=MANIFEST)
    await world.network.execute(await world.network.run_until("one", "put", "repos/"))
    final = await world.network.run_until("one", "put", "repos/")
    assert final.again() is not None
    assert world.record().tags == {"t": digest_of(body)}
    await world.network.finish(catalogue.registry.repositories.close(NAME), "catalogue")
    if lost:
        await world.network.fail(final, StoreUnavailable("no answer"))
    answer = await world.network.finish(push, "one")
    assert answer.status in (404, 503), "what is closed is never told as committed"
    assert world.record().state == "closed"
    await world.network.finish(catalogue.registry.repositories.open(NAME), "catalogue")
    assert (await world.do(replica, "GET", TAGGED)).status == 404


async def test_20_a_referrer_pushed_while_its_subject_goes_stays_and_names_it(world: World) -> None:
    one, two = world.replica("one"), world.replica("two")
    await pushed(world, one, CONFIG, LAYER)
    subject = manifest_of(CONFIG, LAYER)
    await committed(world, one, subject, "subject")
    named = {"mediaType": MANIFEST, "digest": digest_of(subject), "size": len(subject)}
    referrer = manifest_of(CONFIG, LAYER, note="about it", subject=named)
    push = await world.start(one, "PUT", TAGGED, referrer, Content_Type=MANIFEST)
    await world.network.run_until("one", "put", "manifests/")
    assert (await world.do(two, "DELETE", f"/v2/{NAME}/manifests/{digest_of(subject)}")).status == 202
    answer = await world.network.finish(push, "one")
    assert (answer.status, answer.headers["oci-subject"]) == (201, digest_of(subject))
    listed = await world.do(two, "GET", f"/v2/{NAME}/referrers/{digest_of(subject)}")
    assert [item["digest"] for item in json.loads(listed.body)["manifests"]] == [digest_of(referrer)]
    assert await whole(world, two, referrer)


async def test_17_a_tag_removed_right_after_a_second_one_was_set(world: World) -> None:
    one, two = world.replica("one"), world.replica("two")
    await pushed(world, one, CONFIG, LAYER)
    body = manifest_of(CONFIG, LAYER)
    await committed(world, one, body, "first")
    second = await world.start(two, "PUT", f"/v2/{NAME}/manifests/second", body, Content_Type=MANIFEST)
    swap = await world.network.run_until("two", "put", "repos/")
    remove = await world.start(one, "DELETE", f"/v2/{NAME}/manifests/first")
    assert (await world.network.finish(remove, "one")).status == 202
    assert swap in world.network.waiting
    assert (await world.network.finish(second, "two")).status == 201
    assert world.record().tags == {"second": digest_of(body)}
    await sweep(world)
    await sweep(world)
    assert await whole(world, one, body)


async def sweep(world: World) -> None:
    sweeper = Sweeper(Swaps(world.network.store("sweeper"), ManualClock(), world.fresh))
    await world.network.finish(sweeper.cycle(), "sweeper")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("ahead", [0, 3])
async def test_22_a_shared_blob_goes_with_its_last_manifest(
    world: World, order: tuple[int, ...], ahead: int
) -> None:
    """Three manifests in two repositories; while each goes, a third repository mounts the layer."""
    one, two = world.replica("one"), world.replica("two")
    places = [(NAME, manifest_of(CONFIG, LAYER, note=note)) for note in "ab"]
    places.append((OTHER, manifest_of(CONFIG, LAYER, note="c")))
    for name in (NAME, OTHER):
        await pushed(world, one, CONFIG, LAYER, name=name)
    for name, body in places:
        await committed(world, one, body, "x", name)
    left = [places[at] for at in order]
    while left:
        name, body = left.pop(0)
        target = f"/v2/{THIRD}/blobs/uploads/?mount={digest_of(LAYER)}&from={name}"
        mount = await world.start(two, "POST", target)
        for _ in range(ahead):
            if world.network.of("two"):
                await world.network.execute(world.network.of("two")[0])
        remove = await world.start(one, "DELETE", f"/v2/{name}/manifests/{digest_of(body)}")
        assert (await world.network.finish(remove, "one")).status == 202
        assert (await world.network.finish(mount, "two")).status == 201
        await sweep(world)
        await sweep(world)
        for other, kept in left:
            assert await whole(world, two, kept, other)
    assert world.keys("data/") == []
    assert (await world.do(one, "HEAD", f"/v2/{THIRD}/blobs/{digest_of(LAYER)}")).status == 404
    await pushed(world, one, CONFIG, LAYER)
    await committed(world, one, places[0][1])
    assert await whole(world, two, places[0][1])


async def test_28_clocks_far_apart_cost_leases_and_no_bytes(world: World) -> None:
    """A replica a week behind gives leases that are over, one ahead writes longer ones; bytes stay."""
    behind, ahead = world.replica("behind"), world.replica("ahead")
    await ahead.clock.advance(7 * 24 * 3600)
    await pushed(world, behind, CONFIG, LAYER)
    body = manifest_of(CONFIG, LAYER)
    assert (await world.do(ahead, "HEAD", BLOB)).status == 200
    pointer = world.pointer(digest_of(LAYER))
    assert pointer is not None
    until = int(ahead.clock.now().timestamp()) + 24 * 3600
    assert list(pointer.repos.values()) == [Reader(repo=NAME, until=until)]
    await committed(world, behind, body)
    assert (await world.do(behind, "HEAD", BLOB)).status == 200
    pointer = world.pointer(digest_of(LAYER))
    assert pointer is not None
    assert [reader.until for reader in pointer.repos.values()] == [until], "a longer promise stands"
    await sweep(world)
    await sweep(world)
    for replica in (behind, ahead):
        assert await whole(world, replica, body)
    assert layout.data_key(pointer.data or "") in world.keys("data/")


@pytest.mark.parametrize("damage", ["garbage", "gone", "manifest gone"])
async def test_9_damage_of_one_repository_is_told_there_and_nowhere_else(world: World, damage: str) -> None:
    replica = world.replica("one")
    body = manifest_of(CONFIG, LAYER)
    for name in (NAME, OTHER):
        await pushed(world, replica, CONFIG, LAYER, name=name)
        await committed(world, replica, body, name=name)
    key = layout.record_key(NAME) if damage != "manifest gone" else world.record().manifests[WHOLE].key
    fresh = world.replica("fresh")
    world.network.after_step = lambda: None  # the invariants are broken on purpose
    if damage == "garbage":
        at_once(world.network.bucket.put(key, b"{"))
    else:
        at_once(world.network.bucket.delete(key))
    assert (await world.do(fresh, "GET", TAGGED)).status == (500 if damage == "garbage" else 404)
    push = await world.do(fresh, "PUT", f"/v2/{NAME}/manifests/u", body, Content_Type=MANIFEST)
    assert push.status == {"garbage": 500, "gone": 404, "manifest gone": 201}[damage]
    assert await whole(world, fresh, body, OTHER)
    assert await whole(world, fresh, body) is (damage == "manifest gone"), "pushing it again heals it"


@pytest.mark.parametrize("size", [30, 64, 150])
@pytest.mark.parametrize("steps", range(14))
async def test_16_a_process_that_dies_anywhere_in_a_patch_costs_its_bytes_and_nothing_more(
    world: World, size: int, steps: int
) -> None:
    """Whatever it had sent is executed later, in the worst of moments: when all is committed."""
    one, two = world.replica("one"), world.replica("two")
    opened = await world.do(one, "POST", UPLOADS, dmcr_resume_key="k")
    patch = await world.start(one, "PATCH", opened.headers["location"], LAYER[:size])
    for _ in range(steps):
        if world.network.of("one"):
            await world.network.execute(world.network.of("one")[0])
    late = one.store.end()
    patch.cancel()
    await asyncio.gather(patch, return_exceptions=True)
    taken = await world.do(two, "POST", UPLOADS, dmcr_resume_key="k")
    location, offset = taken.headers["location"], int(taken.headers["dmcr-offset"])
    assert offset in {0, 64, 128, size}
    sent = await world.do(two, "PATCH", location, LAYER[offset:199])
    assert sent.headers["dmcr-offset"] == "199"
    told = await world.do(two, "GET", location)
    assert told.headers["dmcr-digest"] == digest_of(LAYER[:199])
    closed = await world.do(two, "PUT", f"{location}?digest={digest_of(LAYER)}", LAYER[199:])
    assert closed.status == 201
    assert not [key for key in world.keys("uploads/") if key.endswith(".tail")]
    for sent_before in late:
        sent_before.again()
        world.check()
    await pushed(world, two, CONFIG)
    body = manifest_of(CONFIG, LAYER)
    await committed(world, two, body)
    assert await whole(world, two, body)


async def test_a_blob_of_one_part_costs_seven_writes_one_after_the_other(world: World) -> None:
    """Session, tail, its journal with the begin, data, seal, pointer, done; the tail goes beside the last."""
    replica = world.replica("one")
    await pushed(world, replica, CONFIG)
    before = len(world.network.schedule)
    opened = await world.do(replica, "POST", UPLOADS)
    location = opened.headers["location"]
    assert (await world.do(replica, "PATCH", location, LAYER[:60])).status == 202
    close = await world.start(replica, "PUT", f"{location}?digest={digest_of(LAYER[:60])}")
    done = await world.network.run_until("one", "delete", "uploads/")
    assert {sent.verb for sent in world.network.waiting} == {"put", "delete"}
    assert done in world.network.waiting
    assert (await world.network.finish(close, "one")).status == 201
    writes = [line.split(": ")[1] for line in world.network.schedule[before:] if ": put " in line]
    kinds = [("tail" if line.endswith(".tail") else line.split()[1].partition("/")[0]) for line in writes]
    assert kinds == ["uploads", "tail", "uploads", "data", "uploads", "blobs", "uploads"]


@pytest.mark.parametrize("then", ["patch", "digest"])
async def test_15_a_stale_tail_of_other_bytes_is_never_taken_for_ours(world: World, then: str) -> None:
    replica = world.replica("one")
    opened = await world.do(replica, "POST", UPLOADS)
    location = opened.headers["location"]
    assert (await world.do(replica, "PATCH", location, LAYER[:100])).status == 202
    sid = location.rpartition("/")[2].partition(".")[0]
    at_once(world.network.bucket.put(layout.tail_key(sid), b"x" * 36))  # an older attempt's, late
    if then == "digest":
        assert "dmcr-digest" not in (await world.do(replica, "GET", location)).headers
        return
    told = await world.do(replica, "PATCH", location, LAYER[100:])
    assert (told.status, told.headers["dmcr-offset"]) == (416, "64")
    assert (await world.do(replica, "PATCH", location, LAYER[64:])).status == 202
    assert (await world.do(replica, "PUT", f"{location}?digest={digest_of(LAYER)}")).status == 201
