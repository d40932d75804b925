"""What the S3 engine makes of a service that fails: SeaweedFS, and a proxy before it that is told how."""

from __future__ import annotations

import hashlib
import ssl
import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from objectstore.port import (
    InvalidPart,
    NoSuchKey,
    ObjectStoreError,
    PartInfo,
    PreconditionFailed,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)
from objectstore.s3 import S3Store
from objectstore.s3settings import S3Settings
from tests.kit.httpproxy import HttpProxy
from tests.kit.seaweedfs import ACCESS, SECRET, Seaweed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1 << 20
XML = {"Content-Type": "application/xml"}


def error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>told to</Message></Error>".encode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def front(seaweedfs: Seaweed) -> AsyncIterator[HttpProxy]:
    trust = ssl.create_default_context(cafile=seaweedfs.ca_file)
    async with HttpProxy(seaweedfs.endpoint, trust=trust, keep_host=True) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(front: HttpProxy) -> AsyncIterator[S3Store]:
    """Return one engine for all tests, since making its client takes long."""
    opened = S3Store("faults", "none", S3Settings(endpoint=front.url, access_key=ACCESS, secret_key=SECRET))
    yield opened
    await opened.close()


@pytest.fixture
def service(front: HttpProxy) -> HttpProxy:
    front.forgive()
    front.seen.clear()
    return front


@pytest.fixture
def store(service: HttpProxy, engine: S3Store) -> S3Store:
    engine._prefix = uuid.uuid4().hex + "/"
    return engine


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchBucket", StoreDenied),
        (403, "RequestTimeTooSkewed", StoreDenied),
        (403, "AccessDenied", StoreDenied),
        (507, "InsufficientStorage", StoreFull),
        (400, "InvalidArgument", ObjectStoreError),
    ],
)
async def test_answers_are_named(
    service: HttpProxy, store: S3Store, status: int, code: str, kind: type[ObjectStoreError]
) -> None:
    service.reply("GET", "key", status, error(code), XML)
    with pytest.raises(kind, match=code) as caught:
        await store.get("key")
    assert caught.type is kind
    assert len(service.seen) == 1


async def test_a_read_is_repeated_when_the_service_is_slow(service: HttpProxy, store: S3Store) -> None:
    await store.put("key", b"here")
    service.reply("GET", "key", 503, error("SlowDown"), XML)
    service.reply("GET", "key", 500, error("InternalError"), XML)
    assert (await store.get("key")).body == b"here"
    assert len(service.asked("GET")) == 3


async def test_a_missing_key_is_not_asked_for_again(service: HttpProxy, store: S3Store) -> None:
    await store.put("other", b"")
    with pytest.raises(NoSuchKey):
        await store.get("key")
    assert len(service.asked("GET")) == 1


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("first", [True, False])
async def test_a_conditional_write_without_an_answer_is_not_repeated(
    service: HttpProxy, store: S3Store, *, executed: bool, first: bool
) -> None:
    etag = None if first else await store.put("key", b"before")
    if executed:
        service.lose_answer("PUT", "key")
    else:
        service.reply("PUT", "key", 500, error("InternalError"), XML)
    service.seen.clear()
    with pytest.raises(StoreUnavailable):
        await store.put("key", b"after", if_match=etag, if_none_match=first)
    assert len(service.asked("PUT")) == 1
    if executed:
        assert (await store.get("key")).body == b"after"


@pytest.mark.parametrize(("status", "code"), [(409, "ConditionalRequestConflict"), (404, "NoSuchKey")])
async def test_a_lost_race_is_a_failed_precondition(
    service: HttpProxy, store: S3Store, status: int, code: str
) -> None:
    service.reply("PUT", "key", status, error(code), XML)
    with pytest.raises(PreconditionFailed):
        await store.put("key", b"body", if_match="e")


async def test_a_missing_bucket_is_no_lost_race(service: HttpProxy, store: S3Store) -> None:
    service.reply("PUT", "key", 404, error("NoSuchBucket"), XML)
    with pytest.raises(StoreDenied):
        await store.put("key", b"body", if_match="e")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (error("InternalError"), StoreUnavailable),
        (error("InvalidPart"), InvalidPart),
        (b"   \n", StoreUnavailable),
        (b"", StoreUnavailable),
    ],
)
async def test_a_completion_answered_200_with_an_error_is_an_error(
    service: HttpProxy, store: S3Store, body: bytes, kind: type[ObjectStoreError]
) -> None:
    upload = await store.create_multipart("key")
    parts = [PartInfo(1, 4, await store.upload_part("key", upload, 1, b"part"))]
    service.seen.clear()
    service.reply("POST", "key", 200, body, XML)
    with pytest.raises(kind):
        await store.complete_multipart("key", upload, parts)
    assert len(service.asked("POST")) == 1
    await store.complete_multipart("key", upload, parts)
    assert (await store.get("key")).body == b"part"


async def read(store: S3Store) -> bytes:
    async with aclosing(store.read("key")) as pieces:
        return b"".join([bytes(piece) async for piece in pieces])


async def test_an_object_replaced_while_it_is_read_never_mixes(service: HttpProxy, store: S3Store) -> None:
    await store.put("key", b"a" * 3 * MIB)
    service.let_pass("GET", "key")
    service.let_pass("GET", "key", lambda: store.put("key", b"b" * 3 * MIB))
    with pytest.raises(PreconditionFailed):
        await read(store)


async def test_a_window_that_is_cut_is_fetched_again(service: HttpProxy, store: S3Store) -> None:
    content = bytes(range(256)) * (3 * MIB // 256)
    await store.put("key", content)
    service.let_pass("GET", "key")
    service.cut_answer("GET", "key", MIB)
    assert await read(store) == content
    assert len(service.asked("GET")) == 3


async def test_a_service_that_ignores_ranges_is_refused(service: HttpProxy, store: S3Store) -> None:
    service.reply("GET", "key", 200, b"x" * 3 * MIB, {"ETag": '"e"'})
    with pytest.raises(ObjectStoreError, match="ignores ranges"):
        await read(store)


async def test_payloads_over_plain_http_are_signed_and_sent_as_they_are(
    service: HttpProxy, store: S3Store
) -> None:
    await store.put("key", memoryview(bytearray(b"payload")))
    sent = service.seen[0].headers
    assert sent["x-amz-content-sha256"] == hashlib.sha256(b"payload").hexdigest()
    assert "Content-Encoding" not in sent
    assert (await store.get("key")).body == b"payload"


async def test_new_keys_work_without_a_restart(service: HttpProxy, store: S3Store, tmp_path: Path) -> None:
    await store.put("key", b"here")
    (tmp_path / "accessKey").write_text("another\n")
    (tmp_path / "secretKey").write_text(SECRET)
    settings = S3Settings(endpoint=service.url, credentials_directory=tmp_path)
    changing = S3Store("faults", store._prefix.rstrip("/"), settings)
    try:
        with pytest.raises(StoreDenied):
            await changing.get("key")
        (tmp_path / "accessKey").unlink()
        (tmp_path / "accessKey").write_text(ACCESS)
        assert (await changing.get("key")).body == b"here"
    finally:
        await changing.close()


async def test_a_listing_that_repeats_its_token_ends(service: HttpProxy, store: S3Store) -> None:
    page = (
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        f"<Contents><Key>{store._prefix}a</Key></Contents></ListBucketResult>"
    )
    for _ in range(3):
        service.reply("GET", "list-type=2", 200, page.encode(), XML)
    assert [key async for key in store.list("")] == ["a", "a"]
