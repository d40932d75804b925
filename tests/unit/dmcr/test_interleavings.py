"""Directed schedules: what each of them once cost somebody, and what must come of it here.

The numbers are the rows of the interleavings that must be covered.
"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from aimodels.dmcr import layout, parts
from aimodels.dmcr.layout import Pointer, Reader, Session, SessionState
from objectstore.port import StoreUnavailable
from tests.kit.dmcr import digest_of
from tests.kit.dmcrworld import MANIFEST, NAME, TINY_PARTS, Replica, World, manifest_of
from tests.kit.scheduledstore import at_once

CONFIG = b'{"descriptor":{"name":"tiny"}}'
LAYER = bytes(range(200))
UPLOADS = f"/v2/{NAME}/blobs/uploads/"


@pytest.fixture(autouse=True)
def _tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "plan_for", lambda _length, **_: TINY_PARTS)


@pytest.fixture
def world() -> World:
    return World()


def target(digest: str) -> str:
    return f"{UPLOADS}?digest={digest}"


async def pushed(world: World, replica: Replica, *blobs: bytes, name: str = NAME) -> None:
    for blob in blobs:
        answer = await world.do(replica, "POST", f"/v2/{name}/blobs/uploads/?digest={digest_of(blob)}", blob)
        assert answer.status == 201, answer


async def committed(world: World, replica: Replica, body: bytes, tag: str = "published") -> None:
    answer = await world.do(replica, "PUT", f"/v2/{NAME}/manifests/{tag}", body, Content_Type=MANIFEST)
    assert answer.status == 201, answer


async def whole(world: World, replica: Replica, data: bytes, name: str = NAME) -> bool:
    answer = await world.do(replica, "GET", f"/v2/{name}/blobs/{digest_of(data)}")
    return answer.status == 200 and answer.body == data


async def steps(world: World, actor: str, count: int) -> None:
    """Execute that many of the actor's requests, fewer when it ends before."""
    for _ in range(count):
        await world.network.rest()
        if world.network.of(actor):
            await world.network.execute(world.network.of(actor)[0])


def condemn(world: World, digest: str, state: str = "condemned") -> None:
    pointer = world.pointer(digest)
    assert pointer is not None
    if state == "condemned":
        changed = Pointer(
            state="condemned",
            since=1,
            data=pointer.data,
            size=pointer.size,
            repos=pointer.repos,
            trash=pointer.trash,
        )
    else:
        changed = Pointer(state="dead", since=1, trash=(*pointer.trash, pointer.data or ""))
    world.write(layout.pointer_key(digest), changed)


@pytest.mark.parametrize("found", ["absent", "dead", "condemned"])
async def test_12_two_replicas_upload_one_digest_and_one_copy_stays(world: World, found: str) -> None:
    one, two = world.replica("one"), world.replica("two")
    digest = digest_of(LAYER)
    if found != "absent":
        await pushed(world, one, LAYER)
        condemn(world, digest)
        if found == "dead":
            condemn(world, digest, "dead")
    first = await world.start(one, "POST", target(digest), LAYER)
    await world.network.run_until("one", "put", "blobs/")
    second = await world.start(two, "POST", target(digest), LAYER)
    await world.network.run_until("two", "put", "blobs/")
    assert (await world.network.finish(first, "one")).status == 201
    assert (await world.network.finish(second, "two")).status == 201
    pointer = world.pointer(digest)
    assert pointer is not None
    assert pointer.state == "live"
    data = {key.rpartition("/")[2] for key in world.keys("data/")}
    assert data == {pointer.data, *pointer.trash}, "every other copy is on the trash"
    assert await whole(world, two, LAYER)


async def test_13_a_late_second_delete_of_old_bytes_does_not_touch_a_new_push(world: World) -> None:
    replica, sweeper = world.replica("one"), world.network.store("sweeper")
    await pushed(world, replica, LAYER)
    digest = digest_of(LAYER)
    condemn(world, digest)
    condemn(world, digest, "dead")
    old = world.keys("data/")[0]
    task = asyncio.create_task(sweeper.delete(old))
    delete = await world.network.run_until("sweeper", "delete", "data/")
    await pushed(world, replica, LAYER)
    await world.network.execute(delete)
    await task
    delete.again()
    assert await whole(world, replica, LAYER)
    pointer = world.pointer(digest)
    assert pointer is not None
    assert layout.data_key(pointer.data or "") != old


async def test_14_a_session_created_late_a_second_time_names_no_bytes(world: World) -> None:
    replica = world.replica("one")
    first = await world.start(replica, "POST", target(digest_of(LAYER)), LAYER)
    create = await world.network.run_until("one", "put", "uploads/")
    assert (await world.network.finish(first, "one")).status == 201
    await world.network.finish(replica.swaps.store.delete(create.key))
    create.again()
    session = world.load(create.key, Session)
    assert session is not None
    assert (session.state, session.data) == ("new", None)
    world.check()
    assert await whole(world, replica, LAYER)


async def test_15_a_stale_part_of_other_bytes_is_told_and_sent_again(world: World) -> None:
    one, two = world.replica("one"), world.replica("two")
    wrong, right = b"x" * 64 + LAYER[64:], LAYER
    opened = await world.do(one, "POST", UPLOADS, dmcr_resume_key="k")
    stale = await world.start(one, "PATCH", opened.headers["location"], wrong[:64])
    late = await world.network.run_until("one", "upload_part", "data/")
    taken = await world.do(two, "POST", UPLOADS, dmcr_resume_key="k")
    location = taken.headers["location"]
    assert taken.headers["dmcr-attempt"] == "2"
    assert (await world.do(two, "GET", opened.headers["location"])).status == 409
    # attempt 2 has the same multipart upload only if its id was journaled; put the part where it is used
    assert (await world.do(two, "PATCH", location, right[:128])).status == 202
    session = world.load(layout.session_key(location.rpartition("/")[2].partition(".")[0]), Session)
    assert session is not None
    data = layout.data_key(session.data or "")
    at_once(world.network.bucket.upload_part(data, session.upload or "", 1, wrong[:64]))
    await world.network.execute(late)
    assert (await world.network.finish(stale, "one")).status == 409
    told = await world.do(two, "PUT", f"{location}?digest={digest_of(right)}", right[128:])
    assert told.status == 416
    assert told.headers["dmcr-offset"] == "0"
    assert (await world.do(two, "PATCH", location, right)).status == 202
    assert (await world.do(two, "PUT", f"{location}?digest={digest_of(right)}")).status == 201
    assert await whole(world, two, right)


async def test_15_a_stale_whole_body_never_replaces_what_a_pointer_names(world: World) -> None:
    one, two = world.replica("one"), world.replica("two")
    wrong, right = b"other bytes", b"right bytes"
    opened = await world.do(one, "POST", UPLOADS, dmcr_resume_key="k")
    stale = await world.start(one, "PUT", f"{opened.headers['location']}?digest={digest_of(wrong)}", wrong)
    late = await world.network.run_until("one", "put", "data/")
    taken = await world.do(two, "POST", UPLOADS, dmcr_resume_key="k")
    closed = await world.do(two, "PUT", f"{taken.headers['location']}?digest={digest_of(right)}", right)
    assert closed.status == 201
    await world.network.execute(late)
    assert (await world.network.finish(stale, "one")).status == 409
    assert await whole(world, two, right)


async def test_16_an_upload_cut_inside_a_part_resumes_on_another_replica(world: World) -> None:
    one, two = world.replica("one"), world.replica("two")
    opened = await world.do(one, "POST", UPLOADS, dmcr_resume_key="k")
    await world.start(one, "PATCH", opened.headers["location"], [LAYER[:130], LAYER[130:]])
    await world.network.run_until("one", "put", "uploads/")
    for _ in range(6):  # one part and its journal, then the process is gone
        if world.network.of("one"):
            await world.network.execute(world.network.of("one")[0])
    taken = await world.do(two, "POST", UPLOADS, dmcr_resume_key="k")
    offset = int(taken.headers["dmcr-offset"])
    assert offset % 64 == 0
    assert offset > 0
    location = taken.headers["location"]
    assert (await world.do(two, "PATCH", location, LAYER[offset:150])).status == 202
    told = await world.do(two, "GET", location)
    assert told.headers["dmcr-digest"] == digest_of(LAYER[:150])
    assert (await world.do(two, "PUT", f"{location}?digest={digest_of(LAYER)}", LAYER[150:])).status == 201
    assert two.meter.arrived == len(LAYER) - offset
    assert await whole(world, two, LAYER)


async def test_18_two_pushes_to_one_tag_both_commit_and_tags_of_one_push_move_together(world: World) -> None:
    one, two = world.replica("one"), world.replica("two")
    await pushed(world, one, CONFIG, LAYER)
    first, second = manifest_of(CONFIG, LAYER, note="1"), manifest_of(CONFIG, LAYER, note="2")
    tags = f"/v2/{NAME}/manifests/{digest_of(first)}?tag=a&tag=b"
    task = await world.start(one, "PUT", tags, first, Content_Type=MANIFEST)
    await world.network.run_until("one", "put", "manifests/")
    other = await world.start(two, "PUT", f"/v2/{NAME}/manifests/a", second, Content_Type=MANIFEST)
    await world.network.run_until("two", "put", "manifests/")
    assert (await world.network.finish(task, "one")).status == 201
    assert world.record().tags == {"a": digest_of(first), "b": digest_of(first)}
    assert (await world.network.finish(other, "two")).status == 201
    assert world.record().tags == {"a": digest_of(second), "b": digest_of(first)}
    assert set(world.record().manifests) == {digest_of(first), digest_of(second)}


async def test_18_sixteen_pushes_share_swaps_of_the_record_and_each_201_holds(world: World) -> None:
    replica = world.replica("one")
    await pushed(world, replica, CONFIG, LAYER)
    bodies = [manifest_of(CONFIG, LAYER, note=str(index)) for index in range(16)]
    before = len([line for line in world.network.schedule if "put repos/" in line])
    tasks = [
        await world.start(replica, "PUT", f"/v2/{NAME}/manifests/t{index}", body, Content_Type=MANIFEST)
        for index, body in enumerate(bodies)
    ]
    answers = await world.network.finish(asyncio.gather(*tasks))
    assert [answer.status for answer in answers] == [201] * 16
    assert world.record().tags == {f"t{index}": digest_of(body) for index, body in enumerate(bodies)}
    assert not world.record().pending
    swaps = len([line for line in world.network.schedule if "put repos/" in line]) - before
    assert swaps < 16


async def test_19_closing_during_a_validation_ends_the_push(world: World) -> None:
    replica, catalogue = world.replica("one"), world.replica("catalogue")
    await pushed(world, replica, CONFIG, LAYER)
    body = manifest_of(CONFIG, LAYER)
    push = await world.start(replica, "PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=MANIFEST)
    await world.network.run_until("one", "get", "blobs/")
    await world.network.finish(catalogue.registry.repositories.close(NAME), "catalogue")
    assert (await world.network.finish(push, "one")).status == 404
    assert world.record().state == "closed"
    assert not world.record().manifests


async def test_19_a_created_again_name_inherits_nothing(world: World) -> None:
    replica = world.replica("one")
    await pushed(world, replica, CONFIG, LAYER)
    opened = await world.do(replica, "POST", UPLOADS, dmcr_resume_key="k")
    await world.network.finish(replica.registry.repositories.close(NAME))
    assert (await world.do(replica, "GET", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")).status == 404
    assert (await world.do(replica, "PATCH", opened.headers["location"], b"late")).status == 404
    await world.network.finish(replica.registry.repositories.open(NAME))
    assert (await world.do(replica, "HEAD", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")).status == 404
    assert (await world.do(replica, "PATCH", opened.headers["location"], b"late")).status == 404
    again = await world.do(replica, "POST", UPLOADS, dmcr_resume_key="k")
    assert again.headers["location"] != opened.headers["location"]
    refused = await world.do(
        replica, "PUT", f"/v2/{NAME}/manifests/t", manifest_of(CONFIG, LAYER), Content_Type=MANIFEST
    )
    assert refused.status == 404


async def test_19_an_upload_that_was_sealed_when_its_repository_closed_gives_no_access(world: World) -> None:
    replica, catalogue = world.replica("one"), world.replica("catalogue")
    upload = await world.start(replica, "POST", target(digest_of(LAYER)), LAYER)
    await world.network.run_until("one", "put", "blobs/")
    await world.network.finish(catalogue.registry.repositories.close(NAME), "catalogue")
    await world.network.finish(upload, "one")
    assert (await world.do(replica, "GET", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")).status == 404


@pytest.mark.parametrize("executed", [True, False])
async def test_25_a_time_out_of_any_conditional_write_is_decided_by_reading(
    world: World, *, executed: bool
) -> None:
    replica = world.replica("one")
    body = manifest_of(CONFIG, LAYER)

    async def through(method: str, path: str, data: bytes, **headers: str) -> int:
        """Run a request in which each conditional write times out once."""
        task, failed = await world.start(replica, method, path, data, **headers), set[str]()
        for _ in range(2000):
            if task.done():
                return task.result().status
            if not world.network.waiting:
                await replica.clock.advance(5)
                await world.network.rest()
                continue
            sent = world.network.waiting[0]
            conditional = sent.verb == "put" and sent.key.startswith(("repos/", "blobs/", "uploads/"))
            count = sum(sent.key in line for line in world.network.schedule if "put" in line)
            if conditional and f"{sent.key} {count}" not in failed and len(failed) <= count:
                failed.add(f"{sent.key} {count + 1}")
                await (
                    world.network.lose_answer(sent)
                    if executed
                    else world.network.fail(sent, StoreUnavailable("no answer"))
                )
            else:
                await world.network.execute(sent)
        raise AssertionError(world.network.schedule[-30:])

    for blob in (CONFIG, LAYER):
        assert await through("POST", target(digest_of(blob)), blob) == 201
    assert await through("PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=MANIFEST) == 201
    assert world.record().tags == {"t": digest_of(body)}
    assert not world.record().pending
    assert len(world.keys("data/")) == 2
    assert await whole(world, replica, LAYER)


async def test_25_a_write_whose_fate_is_unknown_is_not_repeated(world: World) -> None:
    """The tag was set by us, then moved by another; a repetition of ours would move it back."""
    one, two = world.replica("one"), world.replica("two")
    await pushed(world, one, CONFIG, LAYER)
    first, second = manifest_of(CONFIG, LAYER, note="1"), manifest_of(CONFIG, LAYER, note="2")
    await committed(world, one, first, "x")
    await committed(world, one, second, "y")
    ours = await world.start(one, "PUT", f"/v2/{NAME}/manifests/t", first, Content_Type=MANIFEST)
    swap = await world.network.run_until("one", "put", "repos/")
    await world.network.lose_answer(swap)
    await committed(world, two, second, "t")
    assert (await world.network.finish(ours, "one")).status == 503
    assert world.record().tags["t"] == digest_of(second)


@pytest.mark.parametrize("before", ["absent", "dead"])
async def test_10_a_pointer_write_after_its_session_was_cancelled_fails(world: World, before: str) -> None:
    replica = world.replica("one")
    digest = digest_of(LAYER)
    if before == "dead":
        await pushed(world, replica, LAYER)
        condemn(world, digest)
        condemn(world, digest, "dead")
    upload = await world.start(replica, "POST", target(digest), LAYER)
    await world.network.run_until("one", "put", "blobs/")
    key, session = next((k, s) for k, s in world.each("uploads/", Session) if s.state == "sealed")
    world.write(key, _with_state(session, "cancelled"))
    pointer = world.pointer(digest) or Pointer(state="dead", since=1)
    world.write(
        layout.pointer_key(digest), Pointer(state="dead", since=1, trash=(*pointer.trash, session.data or ""))
    )
    world.write(key, _with_state(session, "void"))
    assert (await world.network.finish(upload, "one")).status in (409, 503)
    found = world.pointer(digest)
    assert found is not None
    assert found.state == "dead"
    assert session.data in found.trash
    await pushed(world, replica, LAYER)
    assert await whole(world, replica, LAYER)


async def test_bytes_that_an_earlier_try_gave_up_are_never_named_again(world: World) -> None:
    """Our copy went on the trash as a duplicate, the pointer died since: naming it would lose a blob."""
    one, two = world.replica("one"), world.replica("two")
    digest = digest_of(LAYER)
    await pushed(world, two, LAYER, name="models/team/other")
    opened = await world.do(one, "POST", UPLOADS, dmcr_resume_key="k")
    location = opened.headers["location"]
    upload = await world.start(one, "PUT", f"{location}?digest={digest}", LAYER)
    write = await world.network.run_until("one", "put", "blobs/")
    await world.network.lose_answer(write)
    condemn(world, digest)
    condemn(world, digest, "dead")
    assert (await world.network.finish(upload, "one")).status == 503
    assert (await world.do(one, "PUT", f"{location}?digest={digest}")).status == 503
    found = world.pointer(digest)
    assert found is not None
    assert found.state == "dead"
    again = await world.do(one, "POST", UPLOADS, dmcr_resume_key="k")
    assert again.headers["dmcr-offset"] == "0"
    closed = await world.do(one, "PUT", f"{again.headers['location']}?digest={digest}", LAYER)
    assert closed.status == 201
    assert await whole(world, one, LAYER)


async def test_1_a_condemned_blob_is_rescued_by_head_and_by_a_commit(world: World) -> None:
    replica = world.replica("one")
    await pushed(world, replica, CONFIG, LAYER)
    condemn(world, digest_of(LAYER))
    assert await whole(world, replica, LAYER), "a reader takes a condemned blob as a live one"
    assert (await world.do(replica, "HEAD", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")).status == 200
    condemn(world, digest_of(CONFIG))
    await committed(world, replica, manifest_of(CONFIG, LAYER))
    for blob in (CONFIG, LAYER):
        pointer = world.pointer(digest_of(blob))
        assert pointer is not None
        assert pointer.state == "live"


async def test_5_a_blob_that_died_between_head_and_commit_is_named_and_may_be_pushed_again(
    world: World,
) -> None:
    replica = world.replica("one")
    await pushed(world, replica, CONFIG, LAYER)
    condemn(world, digest_of(LAYER))
    condemn(world, digest_of(LAYER), "dead")
    body = manifest_of(CONFIG, LAYER)
    refused = await world.do(replica, "PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=MANIFEST)
    assert refused.status == 404
    assert b"MANIFEST_BLOB_UNKNOWN" in refused.body
    assert digest_of(LAYER).encode() in refused.body
    assert not world.record().pending
    await pushed(world, replica, LAYER)
    await committed(world, replica, body)


async def test_3_a_push_whose_pending_entry_was_taken_back_does_not_commit(world: World) -> None:
    replica = world.replica("one")
    await pushed(world, replica, CONFIG, LAYER)
    push = await world.start(
        replica, "PUT", f"/v2/{NAME}/manifests/t", manifest_of(CONFIG, LAYER), Content_Type=MANIFEST
    )
    await world.network.run_until("one", "get", "blobs/")
    record = world.record()
    world.write(layout.record_key(NAME), _without_pending(record))
    assert (await world.network.finish(push, "one")).status == 503
    assert not world.record().manifests


async def test_20_a_child_deleted_while_its_index_is_pushed_refuses_the_index(world: World) -> None:
    one, two = world.replica("one"), world.replica("two")
    await pushed(world, one, CONFIG, LAYER)
    child = manifest_of(CONFIG, LAYER)
    await committed(world, one, child, "child")
    index = (
        b'{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":'
        b'[{"mediaType":"%s","digest":"%s","size":%d}]}'
    ) % (MANIFEST.encode(), digest_of(child).encode(), len(child))
    kind = "application/vnd.oci.image.index.v1+json"
    push = await world.start(one, "PUT", f"/v2/{NAME}/manifests/index", index, Content_Type=kind)
    await world.network.run_until("one", "put", "manifests/")
    assert (await world.do(two, "DELETE", f"/v2/{NAME}/manifests/{digest_of(child)}")).status == 202
    assert (await world.network.finish(push, "one")).status == 404
    assert not world.record().manifests


async def test_21_deleting_a_blob_against_a_commit_in_every_order() -> None:
    """Every split of the commit's requests around every split of the deletion's."""
    outcomes = set()
    for ahead in range(12):
        for before in range(14):
            world = World()
            one, two = world.replica("one"), world.replica("two")
            await pushed(world, one, CONFIG, LAYER)
            body = manifest_of(CONFIG, LAYER)
            remove = await world.start(two, "DELETE", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")
            await steps(world, "two", ahead)
            push = await world.start(one, "PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=MANIFEST)
            await steps(world, "one", before)
            removed = await world.network.finish(remove, "two")
            answer = await world.network.finish(push, "one")
            outcomes.add((removed.status, answer.status))
            if answer.status == 201:
                assert await whole(world, one, LAYER)
    assert outcomes == {(409, 201), (202, 404), (405, 201), (409, 404)}


async def test_a_blob_on_its_way_out_is_served_and_not_committed(world: World) -> None:
    one, two = world.replica("one"), world.replica("two")
    await pushed(world, one, CONFIG, LAYER)
    remove = await world.start(two, "DELETE", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")
    flag = await world.network.run_until("two", "put", "blobs/")
    await world.network.execute(flag)
    assert await whole(world, one, LAYER)
    assert (await world.do(one, "HEAD", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")).status == 404
    body = manifest_of(CONFIG, LAYER)
    assert (await world.do(one, "PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=MANIFEST)).status == 404
    assert (await world.network.finish(remove, "two")).status == 202


async def test_a_pointer_without_its_bytes_is_404_and_a_push_heals_it_everywhere(world: World) -> None:
    replica = world.replica("one")
    other = "models/team/other"
    await pushed(world, replica, CONFIG, LAYER)
    await pushed(world, replica, LAYER, name=other)
    pointer = world.pointer(digest_of(LAYER))
    assert pointer is not None
    at_once(world.network.bucket.delete(layout.data_key(pointer.data or "")))
    blob = f"/v2/{NAME}/blobs/{digest_of(LAYER)}"
    assert (await world.do(replica, "HEAD", blob)).status == 404
    assert (await world.do(replica, "GET", blob)).status == 404
    body = manifest_of(CONFIG, LAYER)
    refused = await world.do(replica, "PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=MANIFEST)
    assert refused.status == 404
    await pushed(world, replica, LAYER)
    assert await whole(world, replica, LAYER)
    assert await whole(world, replica, LAYER, name=other)


async def test_19_a_push_that_meets_a_new_life_leaves_no_trace_in_it(world: World) -> None:
    replica, catalogue = world.replica("one"), world.replica("catalogue")
    await pushed(world, replica, CONFIG, LAYER)
    body = manifest_of(CONFIG, LAYER)
    push = await world.start(replica, "PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=MANIFEST)
    await world.network.run_until("one", "put", "repos/")
    repositories = catalogue.registry.repositories
    await world.network.finish(repositories.close(NAME), "catalogue")
    await world.network.finish(repositories.open(NAME), "catalogue")
    assert (await world.network.finish(push, "one")).status == 404
    assert not world.record().pending
    assert not world.record().manifests


async def test_26_another_installation_removes_no_roots(world: World) -> None:
    ours, theirs = world.replica("ours"), world.replica("theirs", owner="another")
    await pushed(world, ours, CONFIG, LAYER)
    await committed(world, ours, manifest_of(CONFIG, LAYER))
    for path in ("manifests/published", f"blobs/{digest_of(LAYER)}"):
        assert (await world.do(theirs, "DELETE", f"/v2/{NAME}/{path}")).status == 403
    with pytest.raises(Exception, match="belongs to cluster"):
        await world.network.finish(theirs.registry.repositories.close(NAME), "theirs")
    assert world.record().tags


async def test_a_session_is_begun_before_any_byte(world: World) -> None:
    replica = world.replica("one")
    await world.start(replica, "POST", target(digest_of(LAYER)), LAYER)
    await world.network.run_until("one", "create_multipart", "data/")
    (session,) = [value for _, value in world.each("uploads/", Session)]
    assert session.state == "open"
    assert session.data is not None


async def test_a_lease_is_written_once_and_then_only_read(world: World) -> None:
    replica = world.replica("one")
    await pushed(world, replica, LAYER)
    before = len(world.network.schedule)
    assert (await world.do(replica, "HEAD", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")).status == 200
    assert not [line for line in world.network.schedule[before:] if " put " in line]
    await replica.clock.advance(13 * 3600)
    assert (await world.do(replica, "HEAD", f"/v2/{NAME}/blobs/{digest_of(LAYER)}")).status == 200
    pointer = world.pointer(digest_of(LAYER))
    assert pointer is not None
    (reader,) = pointer.repos.values()
    assert reader == Reader(repo=NAME, until=int(replica.clock.now().timestamp()) + 24 * 3600)


def _with_state(session: Session, state: SessionState) -> Session:
    return replace(session, state=state)


def _without_pending(record: layout.Record) -> layout.Record:
    return replace(record, pending={})
