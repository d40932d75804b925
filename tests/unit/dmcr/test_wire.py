"""The registry's answers, request by request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from aimodels.dmcr import hashing, parts
from aimodels.dmcr.layout import Session, data_key
from aimodels.dmcr.sessions import Opening
from tests.kit import asgi
from tests.kit.dmcr import digest_of
from tests.kit.dmcrworld import MANIFEST, NAME, TINY_PARTS, World, manifest_of

if TYPE_CHECKING:
    from tests.kit.asgi import Answer

INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = b'{"descriptor":{"name":"tiny"}}'
DATA = bytes(range(256)) * 2
UPLOADS = f"/v2/{NAME}/blobs/uploads/"


class Client:
    """One replica, one client."""

    def __init__(self) -> None:
        self.world = World()
        self.replica = self.world.replica("one")

    async def __call__(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        return await self.world.do(self.replica, method, target, body, **headers)

    async def blob(self, data: bytes, algorithm: str = "sha256", name: str = NAME) -> str:
        digest = digest_of(data, algorithm)
        answer = await self("POST", f"/v2/{name}/blobs/uploads/?digest={digest}", data)
        assert answer.status == 201, answer
        return digest

    async def manifest(self, body: bytes, reference: str) -> Answer:
        return await self("PUT", f"/v2/{NAME}/manifests/{reference}", body, Content_Type=MANIFEST)


@pytest.fixture
def client() -> Client:
    return Client()


def code(answer: Answer) -> str:
    found: str = json.loads(answer.body)["errors"][0]["code"]
    return found


@pytest.mark.parametrize(
    ("asked", "status", "span"),
    [
        ("bytes=0-0", 206, (0, 1)),
        ("bytes=100-199", 206, (100, 200)),
        ("bytes=500-", 206, (500, 512)),
        ("bytes=-12", 206, (500, 512)),
        ("bytes=-9999", 200, (0, 512)),
        ("bytes=500-9999", 206, (500, 512)),
        ("bytes=0-511", 200, (0, 512)),
        ("bytes=0-1,5-6", 200, (0, 512)),
        ("items=0-1", 200, (0, 512)),
        ("bytes=-", 200, (0, 512)),
        ("bytes=512-", 416, None),
        ("bytes=5-4", 416, None),
        ("bytes=-0", 416, None),
    ],
)
async def test_ranges(client: Client, asked: str, status: int, span: tuple[int, int] | None) -> None:
    digest = await client.blob(DATA)
    answer = await client("GET", f"/v2/{NAME}/blobs/{digest}", Range=asked)
    assert answer.status == status
    if span is None:
        assert answer.headers["content-range"] == "bytes */512"
        return
    assert answer.body == DATA[span[0] : span[1]]
    assert answer.headers["content-length"] == str(len(answer.body))
    if status == 206:
        assert answer.headers["content-range"] == f"bytes {span[0]}-{span[1] - 1}/512"


async def test_a_range_of_another_version_is_the_whole(client: Client) -> None:
    digest = await client.blob(DATA)
    blob = f"/v2/{NAME}/blobs/{digest}"
    answer = await client("GET", blob, Range="bytes=0-9", If_Range='"sha256:other"')
    assert (answer.status, answer.body) == (200, DATA)
    answer = await client("GET", blob, Range="bytes=0-9", If_Range=f'"{digest}"')
    assert (answer.status, answer.body) == (206, DATA[:10])
    assert (await client("GET", blob, If_None_Match=f'"{digest}"')).status == 304


async def test_the_empty_blob_and_the_empty_object_are_everywhere_and_nowhere_stored(client: Client) -> None:
    for body in (b"", b"{}"):
        digest = await client.blob(body)
        assert (await client("GET", f"/v2/{NAME}/blobs/{digest}")).body == body
        head = await client("HEAD", f"/v2/{NAME}/blobs/{digest}")
        assert (head.status, head.headers["content-length"]) == (200, str(len(body)))
    assert not client.world.keys("blobs/")
    assert not client.world.keys("data/")
    assert (await client.manifest(manifest_of(b"{}", b""), "empty")).status == 201


async def test_both_digest_algorithms_name_one_content(client: Client) -> None:
    for algorithm in ("sha256", "sha512"):
        digest = await client.blob(DATA, algorithm)
        assert (await client("GET", f"/v2/{NAME}/blobs/{digest}")).body == DATA


async def test_a_digest_of_the_other_algorithm_at_the_end_is_checked_by_reading(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "plan_for", lambda _length, **_: TINY_PARTS)
    opened = await client("POST", UPLOADS)
    location = opened.headers["location"]
    assert (await client("PATCH", location, DATA)).status == 202
    wrong = await client("PUT", f"{location}?digest={digest_of(b'x', 'sha512')}")
    assert (wrong.status, code(wrong)) == (400, "DIGEST_INVALID")
    opened = await client("POST", UPLOADS)
    location = opened.headers["location"]
    assert (await client("PATCH", location, DATA)).status == 202
    assert (await client("PUT", f"{location}?digest={digest_of(DATA, 'sha512')}")).status == 201


async def test_without_saved_states_a_resumed_upload_is_checked_by_reading(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "savable", lambda _: False)
    monkeypatch.setattr(parts, "plan_for", lambda _length, **_: TINY_PARTS)
    opened = await client("POST", UPLOADS)
    location = opened.headers["location"]
    assert (await client("PATCH", location, DATA[:200])).status == 202
    told = await client("GET", location)
    assert told.headers["dmcr-offset"] == "200"
    assert "dmcr-digest" not in told.headers
    assert (await client("PATCH", location, DATA[200:])).status == 202
    assert (await client("PUT", f"{location}?digest={digest_of(DATA)}")).status == 201
    assert (await client("GET", f"/v2/{NAME}/blobs/{digest_of(DATA)}")).body == DATA


async def test_a_wrong_digest_leaves_the_upload_usable(client: Client) -> None:
    opened = await client("POST", UPLOADS)
    location = opened.headers["location"]
    assert (await client("PATCH", location, DATA)).status == 202
    wrong = await client("PUT", f"{location}?digest={digest_of(b'other')}")
    assert (wrong.status, code(wrong)) == (400, "DIGEST_INVALID")
    assert (await client("PUT", f"{location}?digest={digest_of(DATA)}")).status == 201


@pytest.mark.parametrize("sent", ["10-19", "600-700", "0-5", "nonsense"])
async def test_a_chunk_out_of_order_is_refused_and_the_upload_goes_on(client: Client, sent: str) -> None:
    opened = await client("POST", UPLOADS)
    location = opened.headers["location"]
    assert (await client("PATCH", location, DATA[:5], Content_Range="0-4")).status == 202
    refused = await client("PATCH", location, DATA[:10], Content_Range=sent)
    assert refused.status == (400 if sent == "nonsense" else 416)
    closing = await client("PUT", f"{location}?digest={digest_of(DATA)}", DATA[:10], Content_Range=sent)
    assert closing.status == refused.status
    if refused.status == 416:
        assert refused.headers["range"] == "0-4"
        assert refused.headers["dmcr-offset"] == "5"
    rest = DATA[5:]
    accepted = await client("PATCH", location, rest, Content_Range=f"5-{len(DATA) - 1}")
    assert accepted.status == 202
    assert (await client("PUT", f"{location}?digest={digest_of(DATA)}")).status == 201


async def test_a_cancelled_upload_is_gone_with_its_bytes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "plan_for", lambda _length, **_: TINY_PARTS)
    opened = await client("POST", UPLOADS)
    location = opened.headers["location"]
    assert (await client("PATCH", location, DATA[:100])).status == 202
    assert (await client("DELETE", location)).status == 204
    for method in ("GET", "PATCH", "DELETE"):
        answer = await client(method, location)
        assert (answer.status, code(answer)) == (404, "BLOB_UPLOAD_UNKNOWN")
    assert not client.world.network.bucket._uploads
    assert client.world.keys("uploads/") == [key for key in client.world.keys("uploads/") if "json" in key]


async def test_a_resume_key_finds_its_finished_upload_and_answers_the_same(client: Client) -> None:
    opened = await client("POST", UPLOADS, dmcr_resume_key="k")
    location = opened.headers["location"]
    assert (await client("PUT", f"{location}?digest={digest_of(DATA)}", DATA)).status == 201
    again = await client("POST", UPLOADS, dmcr_resume_key="k")
    assert again.headers["dmcr-offset"] == str(len(DATA))
    location = again.headers["location"]
    assert (await client("GET", location)).headers["dmcr-digest"] == digest_of(DATA)
    assert (await client("PUT", f"{location}?digest={digest_of(DATA)}")).status == 201
    assert (await client("PUT", f"{location}?digest={digest_of(b'x')}")).status == 404
    assert client.replica.meter.arrived == len(DATA)


async def test_a_finished_upload_whose_blob_was_deleted_begins_anew(client: Client) -> None:
    opened = await client("POST", UPLOADS, dmcr_resume_key="k")
    await client("PUT", f"{opened.headers['location']}?digest={digest_of(DATA)}", DATA)
    assert (await client("DELETE", f"/v2/{NAME}/blobs/{digest_of(DATA)}")).status == 202
    again = await client("POST", UPLOADS, dmcr_resume_key="k")
    assert again.headers["dmcr-offset"] == "0"


async def test_restart_voids_what_was_held_and_takes_the_next_session(client: Client) -> None:
    opened = await client("POST", UPLOADS, dmcr_resume_key="k")
    await client("PATCH", opened.headers["location"], DATA[:100])
    fresh = await client("POST", UPLOADS, dmcr_resume_key="k", dmcr_restart="true")
    assert fresh.headers["dmcr-offset"] == "0"
    assert (await client("PATCH", opened.headers["location"], b"late")).status == 404
    resumed = await client("POST", UPLOADS, dmcr_resume_key="k")
    assert resumed.headers["dmcr-attempt"] == "2", "the restarted one is found again"
    assert (
        await client("PUT", f"{resumed.headers['location']}?digest={digest_of(DATA)}", DATA)
    ).status == 201


@pytest.mark.parametrize(
    ("told", "planned"),
    [
        ((None, 100), 100),
        ((None, 2 << 30), 2 << 30),
        ((100, None), 100),
        ((200 << 30, None, 100), 100),
        ((None, None), None),
    ],
)
async def test_an_upload_is_cut_as_its_length_says_whenever_that_is_told_before_its_first_byte(
    client: Client, told: tuple[int | None, ...], planned: int | None
) -> None:
    """How large parts are bounds what a kill costs; who only looks, as by HEAD, opens without a length."""
    for length in told:
        opened = await _looked_at(client) if length is None else await _announced(client, length)
    assert (await client("PATCH", opened.headers["location"], DATA)).status == 202
    ((_, session),) = client.world.each("uploads/", Session)
    assert session.plan == parts.plan_for(planned)


async def test_an_upload_that_has_begun_keeps_its_parts(client: Client) -> None:
    opened = await _announced(client, 2 << 30)
    assert (await client("PATCH", opened.headers["location"], DATA)).status == 202
    opened = await _announced(client, len(DATA))
    assert opened.headers["dmcr-offset"] == str(len(DATA))
    ((_, session),) = client.world.each("uploads/", Session)
    assert session.plan == parts.plan_for(2 << 30)


async def test_a_kill_costs_the_parts_on_their_way_and_the_one_that_fills(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after somebody has only looked, by whom no length was told."""
    size, piece = TINY_PARTS[0][1], 16
    growing = ((10_000, 4 * size),)
    monkeypatch.setattr(parts, "plan_for", lambda length, **_: growing if length is None else TINY_PARTS)
    await _looked_at(client)
    opened = await _announced(client, len(DATA))
    network, pieces = client.world.network, [DATA[at : at + piece] for at in range(0, len(DATA), piece)]
    sending = await client.world.start(client.replica, "PATCH", opened.headers["location"], pieces)
    await network.run_until("one", "upload_part", "data/")
    await network.rest()
    sending.cancel()
    arrived = client.replica.meter.arrived
    assert arrived == 3 * size, "the store takes nothing, so that nothing more is read"

    client.replica = client.world.replica("two")
    opened = await _announced(client, len(DATA))
    offset = int(opened.headers["dmcr-offset"])
    assert (await client("PATCH", opened.headers["location"], DATA[offset:])).status == 202
    assert arrived + client.replica.meter.arrived == len(DATA) + 3 * size


async def _looked_at(client: Client) -> Answer:
    return await client("POST", UPLOADS, dmcr_resume_key="k")


async def _announced(client: Client, length: int) -> Answer:
    return await client("POST", UPLOADS, dmcr_resume_key="k", dmcr_length=str(length))


async def test_the_end_of_a_transfer_ends_its_open_uploads_only(client: Client) -> None:
    record = client.replica.registry.repositories
    await client.world.network.finish(record.open(NAME))
    sessions = client.replica.registry.sessions
    for transfer in ("ours", "theirs"):
        opening = Opening(key=transfer, transfer=transfer)
        found = await client.world.network.finish(record.find(NAME))
        await client.world.network.finish(sessions.open(found, opening))
    await client.world.network.finish(sessions.void_transfer("ours"))
    states = {session.transfer: session.state for _, session in client.world.each("uploads/", Session)}
    assert states == {"ours": "void", "theirs": "new"}


async def test_a_fenced_transfer_s_bytes_wait_for_the_next_one(client: Client) -> None:
    sessions, network = client.replica.registry.sessions, client.world.network
    await network.finish(client.replica.registry.repositories.open(NAME))
    record = await network.finish(client.replica.registry.repositories.find(NAME))
    first = await network.finish(sessions.open(record, Opening(key="k", transfer="first")))
    location = f"{UPLOADS}{first.sid}.1"
    assert (await client("PATCH", location, DATA[:100])).status == 202
    await network.finish(sessions.fence_transfer("first"))
    late = await client("PATCH", location, DATA[100:])
    assert (late.status, code(late)) == (409, code(await client("PATCH", f"{UPLOADS}{first.sid}.9", b"")))
    second = await network.finish(sessions.open(record, Opening(key="k", transfer="second")))
    assert (second.sid, second.session.offset) == (first.sid, 100)


async def test_a_writer_that_is_still_at_it_loses_a_fenced_session(client: Client) -> None:
    sessions, network = client.replica.registry.sessions, client.world.network
    await network.finish(client.replica.registry.repositories.open(NAME))
    record = await network.finish(client.replica.registry.repositories.find(NAME))
    other = client.world.replica("two")
    first = await network.finish(sessions.open(record, Opening(key="k", transfer="first")))
    writing = await client.world.start(other, "PATCH", f"{UPLOADS}{first.sid}.1", DATA)
    await network.run_until("two", "put", "uploads/")
    await network.finish(sessions.fence_transfer("first"), "one")
    answer = await network.finish(writing)
    assert answer.status == 409, "the swap that would have journaled its bytes is refused"


async def test_what_ended_transfers_left_in_a_repository_is_ended(client: Client) -> None:
    sessions, network = client.replica.registry.sessions, client.world.network
    for name in (NAME, "models/team/other"):
        await network.finish(client.replica.registry.repositories.open(name))
        record = await network.finish(client.replica.registry.repositories.find(name))
        for transfer in ("over", "on", None):
            await network.finish(sessions.open(record, Opening(key=f"{transfer}", transfer=transfer)))

    async def is_over(transfer: str) -> bool:
        return transfer == "over"

    await network.finish(sessions.void_abandoned(NAME, is_over))
    ended = [one for _, one in client.world.each("uploads/", Session) if one.state == "void"]
    assert [(one.repo, one.transfer) for one in ended] == [(NAME, "over")]


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", f"/v2/{NAME}/blobs/sha256:short", 400),
        ("GET", f"/v2/{NAME}/blobs/md5:{'0' * 32}", 400),
        ("GET", "/v2/UPPER/case/tags/list", 400),
        ("GET", "/v2/with//slash/tags/list", 400),
        ("GET", f"/v2/{'a/' * 130}a/tags/list", 400),
        ("GET", f"/v2/{NAME}/manifests/{'t' * 129}", 400),
        ("GET", f"/v2/{NAME}/tags/list", 404),
        ("GET", f"/v2/{NAME}/unknown/thing", 404),
        ("PATCH", f"/v2/{NAME}/manifests/x", 405),
        ("POST", f"{UPLOADS}?digest=sha256:short", 400),
        ("POST", f"{UPLOADS}?digest-algorithm=md5", 400),
        ("PATCH", f"{UPLOADS}nonsense", 404),
        ("GET", f"{UPLOADS}{'0' * 32}.1", 404),
        ("GET", "/v2/", 200),
    ],
)
async def test_malformed_requests_are_refused_by_name(
    client: Client, method: str, target: str, status: int
) -> None:
    answer = await client(method, target)
    assert answer.status == status, answer
    if status != 200:
        assert code(answer)


async def test_tags_come_in_byte_order_page_by_page(client: Client) -> None:
    await client.blob(CONFIG)
    body = manifest_of(CONFIG)
    tags = ["b", "a", "B", "0", "a.1", "a-1", "_x"]
    query = "&".join(f"tag={tag}" for tag in tags)
    answer = await client.manifest(body, f"{digest_of(body)}?{query}")
    assert answer.headers["oci-tag"] == ", ".join(tags)
    listed = json.loads((await client("GET", f"/v2/{NAME}/tags/list")).body)
    assert listed == {"name": NAME, "tags": sorted(tags)}
    found, target = [], f"/v2/{NAME}/tags/list?n=3"
    while target:
        page = await client("GET", target)
        found += json.loads(page.body)["tags"]
        link = page.headers.get("link", "")
        target = link.partition("<")[2].partition(">")[0]
    assert found == sorted(tags)
    none = await client("GET", f"/v2/{NAME}/tags/list?n=0")
    assert json.loads(none.body)["tags"] == []
    assert "link" not in none.headers


async def test_referrers_are_filtered_merged_with_the_fallback_tag_and_paged(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.blob(CONFIG)
    subject = digest_of(b"a subject that is not here")
    about = {"mediaType": MANIFEST, "digest": subject, "size": 26}
    kinds = ["application/one", "application/two", "application/two"]
    bodies = [
        manifest_of(CONFIG, note=str(index), subject=about, artifactType=kind)
        for index, kind in enumerate(kinds)
    ]
    for body in bodies:
        answer = await client.manifest(body, digest_of(body))
        assert answer.headers["oci-subject"] == subject
    plain = manifest_of(CONFIG, note="listed by a client that does not know the field")
    await client.manifest(plain, digest_of(plain))
    listed = {"mediaType": MANIFEST, "digest": digest_of(plain), "size": len(plain)}
    listed = {**listed, "artifactType": "application/three", "annotations": {"note": "0"}}
    fallback = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [listed]}).encode()
    tag = subject.replace(":", "-")
    answer = await client("PUT", f"/v2/{NAME}/manifests/{tag}", fallback, Content_Type=INDEX)
    assert answer.status == 201
    everyone = sorted(digest_of(body) for body in [*bodies, plain])
    target = f"/v2/{NAME}/referrers/{subject}"
    everything = json.loads((await client("GET", target)).body)["manifests"]
    assert [item["digest"] for item in everything] == everyone
    assert all(item["annotations"]["note"] in "012" for item in everything)
    filtered = await client("GET", f"{target}?artifactType=application/two")
    assert filtered.headers["oci-filters-applied"] == "artifactType"
    assert len(json.loads(filtered.body)["manifests"]) == 2
    monkeypatch.setattr("aimodels.dmcr.routes_manifests._REFERRERS_PAGE", 10)
    found = []
    while target:
        page = await client("GET", target)
        found += [item["digest"] for item in json.loads(page.body)["manifests"]]
        target = page.headers.get("link", "").partition("<")[2].partition(">")[0]
    assert found == everyone
    empty = await client("GET", f"/v2/other/referrers/{subject}")
    assert (empty.status, json.loads(empty.body)["manifests"]) == (200, [])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"not json", MANIFEST),
        (b"[]", MANIFEST),
        (b'{"schemaVersion":1}', MANIFEST),
        (b'{"schemaVersion":2,"mediaType":"application/other"}', MANIFEST),
        (manifest_of(CONFIG), "text/plain"),
        (manifest_of(CONFIG), INDEX),
        (manifest_of(CONFIG, manifests=[]), MANIFEST),
        (b'{"schemaVersion":2}', MANIFEST),
    ],
)
async def test_documents_that_are_no_manifests_are_refused(client: Client, body: bytes, kind: str) -> None:
    answer = await client("PUT", f"/v2/{NAME}/manifests/t", body, Content_Type=kind)
    assert (answer.status, code(answer)) == (400, "MANIFEST_INVALID")


async def test_a_manifest_of_four_mebibytes_is_taken_and_a_larger_one_is_not(client: Client) -> None:
    await client.blob(CONFIG)
    small = manifest_of(CONFIG, note="")
    largest = manifest_of(CONFIG, note="x" * ((4 << 20) - len(small)))
    assert len(largest) == 4 << 20
    assert (await client.manifest(largest, "largest")).status == 201
    assert (await client("GET", f"/v2/{NAME}/manifests/largest")).body == largest
    refused = await client.manifest(manifest_of(CONFIG, note="x" * ((4 << 20) - len(small) + 1)), "more")
    assert refused.status == 413


async def test_a_manifest_under_another_digest_is_refused(client: Client) -> None:
    await client.blob(CONFIG)
    answer = await client.manifest(manifest_of(CONFIG), digest_of(b"other"))
    assert (answer.status, code(answer)) == (400, "DIGEST_INVALID")


async def test_layers_kept_elsewhere_need_not_be_here(client: Client) -> None:
    await client.blob(CONFIG)
    foreign = {
        "mediaType": "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "digest": digest_of(b"somewhere else"),
        "size": 14,
    }
    assert (await client.manifest(manifest_of(CONFIG, layers=[foreign]), "t")).status == 201


async def test_a_tag_goes_alone_and_a_manifest_with_its_tags(client: Client) -> None:
    await client.blob(CONFIG)
    body = manifest_of(CONFIG)
    for tag in ("a", "b"):
        await client.manifest(body, tag)
    assert (await client("DELETE", f"/v2/{NAME}/manifests/a")).status == 202
    assert (await client("GET", f"/v2/{NAME}/manifests/a")).status == 404
    assert (await client("GET", f"/v2/{NAME}/manifests/b")).body == body
    assert (await client("DELETE", f"/v2/{NAME}/blobs/{digest_of(CONFIG)}")).status == 405
    assert (await client("DELETE", f"/v2/{NAME}/manifests/{digest_of(body)}")).status == 202
    assert (await client("GET", f"/v2/{NAME}/manifests/b")).status == 404
    assert (await client("DELETE", f"/v2/{NAME}/manifests/b")).status == 404
    assert (await client("DELETE", f"/v2/{NAME}/blobs/{digest_of(CONFIG)}")).status == 202


async def test_a_mount_needs_no_bytes_and_no_source_named(client: Client) -> None:
    digest = await client.blob(DATA)
    arrived = client.replica.meter.arrived
    for target, source in (("team/two", f"&from={NAME}"), ("team/three", "")):
        answer = await client("POST", f"/v2/{target}/blobs/uploads/?mount={digest}{source}")
        assert answer.status == 201
        assert (await client("GET", f"/v2/{target}/blobs/{digest}")).body == DATA
    assert client.replica.meter.arrived == arrived
    assert len(client.world.keys("data/")) == 1
    missing = digest_of(b"missing")
    assert (await client("POST", f"/v2/team/two/blobs/uploads/?mount={missing}&from={NAME}")).status == 202
    assert (await client("POST", f"/v2/team/four/blobs/uploads/?mount={digest}&from=team/five")).status == 202


async def test_reading_is_all_that_a_foreign_bucket_allows(client: Client) -> None:
    digest = await client.blob(DATA)
    client.replica.ownership.read_only = "the bucket belongs to installation theirs"
    before = len(client.world.network.schedule)
    assert (await client("GET", f"/v2/{NAME}/blobs/{digest}")).body == DATA
    assert (await client("HEAD", f"/v2/{NAME}/blobs/{digest}")).status == 200
    for method, target in (("POST", UPLOADS), ("DELETE", f"/v2/{NAME}/blobs/{digest}")):
        answer = await client(method, target)
        assert (answer.status, code(answer)) == (403, "DENIED")
    assert not [line for line in client.world.network.schedule[before:] if " put " in line]


async def test_a_body_that_ends_early_is_kept_and_not_answered(client: Client) -> None:
    opened = await client("POST", UPLOADS)
    location = opened.headers["location"]
    call = asgi.Call([DATA[:100]], whole=True)
    scope = asgi.scope_of("PATCH", location, {"Content-Length": "512"})
    await client.world.network.finish(client.replica.app(scope, call.receive, call.send))
    assert call.answer() is None
    assert (await client("GET", location)).headers["dmcr-offset"] == "100"


async def test_a_blob_whose_bytes_end_early_is_cut_and_not_filled_up(client: Client) -> None:
    digest = await client.blob(DATA)
    pointer = client.world.pointer(digest)
    assert pointer is not None
    stored = client.world.network.bucket._objects[data_key(pointer.data or "")]
    client.world.network.bucket._objects[data_key(pointer.data or "")] = type(stored)(DATA[:100], stored.etag)
    call = asgi.Call([], whole=True)
    scope = asgi.scope_of("GET", f"/v2/{NAME}/blobs/{digest}", {})
    client.world.network.after_step = lambda: None
    with pytest.raises(Exception, match="ended at 100"):
        await client.world.network.finish(client.replica.app(scope, call.receive, call.send))
