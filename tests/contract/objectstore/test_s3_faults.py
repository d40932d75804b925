"""What the S3 engine makes of services that fail: an HTTP server of our own answers as it is told to."""

from __future__ import annotations

import hashlib
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

MIB = 1 << 20


def error(status: int, code: str) -> web.Response:
    body = f"<Error><Code>{code}</Code><Message>told to</Message></Error>"
    return web.Response(status=status, text=body, content_type="application/xml")


@dataclass
class Service:
    """Answers requests in turn and remembers them; the last answer is given again and again."""

    answers: list[Callable[[web.Request], web.StreamResponse]] = field(default_factory=list)
    seen: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        self.bodies.append(await request.read())
        return self.answers.pop(0)(request) if len(self.answers) > 1 else self.answers[0](request)

    def tell(self, *answers: web.Response | Callable[[web.Request], web.StreamResponse]) -> None:
        self.answers = [one if callable(one) else lambda _, one=one: one for one in answers]  # type: ignore[misc]

    def open(self, **settings: object) -> S3Store:
        keys = {"access_key": "id", "secret_key": "secret"} if not settings else {}
        return S3Store("bucket", "below", S3Settings(endpoint=self.url, **keys, **settings))  # type: ignore[arg-type]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    app = web.Application(client_max_size=64 * MIB)
    app.router.add_route("*", "/{path:.*}", made.handle)
    server = TestServer(app)
    await server.start_server()
    made.url = str(server.make_url("")).rstrip("/")
    yield made
    await server.close()


@pytest.fixture
async def store(service: Service) -> AsyncIterator[S3Store]:
    opened = service.open()
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchKey", NoSuchKey),
        (404, "NoSuchBucket", StoreDenied),
        (403, "RequestTimeTooSkewed", StoreDenied),
        (403, "AccessDenied", StoreDenied),
        (507, "InsufficientStorage", StoreFull),
        (400, "InvalidArgument", ObjectStoreError),
    ],
)
async def test_answers_are_named(
    service: Service, store: S3Store, status: int, code: str, kind: type[ObjectStoreError]
) -> None:
    service.tell(lambda _: error(status, code))
    with pytest.raises(kind, match=code) as caught:
        await store.get("key")
    assert caught.type is kind
    assert len(service.seen) == 1


async def test_a_read_is_repeated_when_the_service_is_slow(service: Service, store: S3Store) -> None:
    good = web.Response(body=b"here", headers={"ETag": '"e"'})
    service.tell(lambda _: error(503, "SlowDown"), lambda _: error(500, "InternalError"), lambda _: good)
    assert (await store.get("key")).body == b"here"
    assert [request.path for request in service.seen] == ["/bucket/below/key"] * 3


@pytest.mark.parametrize("condition", [{"if_match": "e"}, {"if_none_match": True}])
async def test_a_conditional_write_without_an_answer_is_not_repeated(
    service: Service, store: S3Store, condition: dict[str, object]
) -> None:
    service.tell(lambda _: error(500, "InternalError"))
    with pytest.raises(StoreUnavailable):
        await store.put("key", b"body", **condition)  # type: ignore[arg-type]
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict"), (404, "NoSuchKey")],
)
async def test_a_lost_race_is_a_failed_precondition(
    service: Service, store: S3Store, status: int, code: str
) -> None:
    service.tell(lambda _: error(status, code))
    with pytest.raises(PreconditionFailed):
        await store.put("key", b"body", if_match="e")
    assert service.seen[0].headers["If-Match"] == '"e"'


async def test_a_missing_bucket_is_no_lost_race(service: Service, store: S3Store) -> None:
    service.tell(lambda _: error(404, "NoSuchBucket"))
    with pytest.raises(StoreDenied):
        await store.put("key", b"body", if_match="e")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<Error><Code>InternalError</Code><Message>late</Message></Error>", StoreUnavailable),
        ("<Error><Code>InvalidPart</Code><Message>late</Message></Error>", InvalidPart),
        ("   \n", StoreUnavailable),
        ("", StoreUnavailable),
    ],
)
async def test_a_completion_answered_200_with_an_error_is_an_error(
    service: Service, store: S3Store, body: str, kind: type[ObjectStoreError]
) -> None:
    service.tell(lambda _: web.Response(text=body, content_type="application/xml"))
    with pytest.raises(kind):
        await store.complete_multipart("key", "upload", [PartInfo(1, 3, "e")])
    assert len(service.seen) == 1


def ranged(content: bytes, etag: str) -> Callable[[web.Request], web.Response]:
    def answer(request: web.Request) -> web.Response:
        wanted = request.headers.get("If-Match", f'"{etag}"')
        if wanted != f'"{etag}"':
            return error(412, "PreconditionFailed")
        first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
        piece = content[first : last + 1]
        headers = {"ETag": f'"{etag}"', "Content-Range": f"bytes {first}-{last}/{len(content)}"}
        return web.Response(status=206, body=piece, headers=headers)

    return answer


async def read(store: S3Store) -> bytes:
    async with aclosing(store.read("key")) as pieces:
        return b"".join([bytes(piece) async for piece in pieces])


async def test_an_object_replaced_while_it_is_read_never_mixes(service: Service, store: S3Store) -> None:
    service.tell(ranged(b"a" * 9 * MIB, "one"), ranged(b"b" * 9 * MIB, "two"))
    with pytest.raises(PreconditionFailed):
        await read(store)


async def test_a_window_that_is_cut_is_fetched_again(service: Service, store: S3Store) -> None:
    content = bytes(range(256)) * (6 * MIB // 256)
    whole = ranged(content, "one")

    def cut(request: web.Request) -> web.StreamResponse:
        answer = whole(request)
        assert isinstance(answer.body, bytes)
        answer.body = answer.body[: len(answer.body) // 2]
        return answer

    service.tell(whole, cut, whole)
    assert await read(store) == content


async def test_a_service_that_ignores_ranges_is_refused(service: Service, store: S3Store) -> None:
    service.tell(lambda _: web.Response(body=b"x" * 3 * MIB, headers={"ETag": '"e"'}))
    with pytest.raises(ObjectStoreError, match="ignores ranges"):
        await read(store)


async def test_payloads_over_plain_http_are_signed_and_sent_as_they_are(
    service: Service, store: S3Store
) -> None:
    service.tell(lambda _: web.Response(headers={"ETag": '"e"'}))
    await store.put("key", memoryview(bytearray(b"payload")))
    sent = service.seen[0].headers
    assert sent["x-amz-content-sha256"] == hashlib.sha256(b"payload").hexdigest()
    assert "Content-Encoding" not in sent
    assert service.bodies == [b"payload"]


async def test_new_keys_work_without_a_restart(service: Service, tmp_path: Path) -> None:
    (tmp_path / "accessKey").write_text("first\n")
    (tmp_path / "secretKey").write_text("a")
    service.tell(lambda _: web.Response(body=b"", headers={"ETag": '"e"'}))
    store = service.open(credentials_directory=tmp_path)
    try:
        await store.get("key")
        (tmp_path / "accessKey").unlink()
        (tmp_path / "accessKey").write_text("second")
        await store.get("key")
    finally:
        await store.close()
    used = [
        request.headers["Authorization"].split("Credential=")[1].split("/")[0] for request in service.seen
    ]
    assert used == ["first", "second"]


async def test_a_listing_that_repeats_its_token_ends(service: Service, store: S3Store) -> None:
    page = (
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        "<Contents><Key>below/a</Key></Contents></ListBucketResult>"
    )
    service.tell(lambda _: web.Response(text=page, content_type="application/xml"))
    assert [key async for key in store.list("")] == ["a", "a"]
