"""The object store on S3: boto3's low-level client in threads, nothing computed twice.

Over TLS payloads are not signed and no checksum trailers are added, which is what makes it fast and what
S3-compatible services agree on. Calls that may be repeated are, with back-off; conditional writes and the
completion of an upload never are: after a lost answer only reading tells what happened.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from objectstore import keys
from objectstore.port import (
    NoSuchKey,
    ObjectInfo,
    ObjectStore,
    ObjectStoreError,
    PartInfo,
    PreconditionFailed,
    StoredObject,
    StoreUnavailable,
)
from objectstore.s3_client import CONNECTIONS, answered, make_client, named_errors, no_bucket
from objectstore.s3_read import Window, WindowReader
from objectstore.threads import Threads
from opskit.retry import Backoff, retrying

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from objectstore.s3settings import S3Settings

T = TypeVar("T")
Body = bytes | bytearray | memoryview

_TRIES = 5
_BACKOFF = Backoff(first=0.2, most=5.0, jitter=1.0)


class S3Store(ObjectStore):
    """The keys of one bucket below a prefix."""

    def __init__(self, bucket: str, prefix: str, settings: S3Settings) -> None:
        self._bucket = bucket
        self._prefix = prefix + "/" if prefix else ""
        self._client: Any = make_client(settings)
        self._threads = Threads(CONNECTIONS)

    async def get(self, key: str) -> StoredObject:
        """Return the object."""
        return await self._repeatable(self._get, key)

    def _get(self, key: str) -> StoredObject:
        with named_errors(f"reading {key}"):
            answer = self._client.get_object(**self._at(key))
            keys.checked_small(key, answer["ContentLength"])
            return StoredObject(answer["Body"].read(), _etag(answer))

    async def head(self, key: str) -> ObjectInfo:
        """Return size and ETag."""
        return await self._repeatable(self._head, key)

    def _head(self, key: str) -> ObjectInfo:
        with named_errors(f"looking at {key}"):
            answer = self._client.head_object(**self._at(key))
            return ObjectInfo(answer["ContentLength"], _etag(answer))

    def read(
        self, key: str, start: int = 0, length: int | None = None, *, chunk: int = 1 << 20
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the range in pieces, fetched by ranged GETs of one object version."""
        fetch = partial(self._fetch, keys.checked(key))
        return WindowReader(fetch, self._repeatable, start, length).pieces(chunk)

    def _fetch(self, key: str, start: int, end: int, etag: str | None, window: Window) -> tuple[str, int]:
        condition = {"IfMatch": f'"{etag}"'} if etag else {}
        with named_errors(f"reading {key}"):
            answer = self._client.get_object(**self._at(key), Range=f"bytes={start}-{end - 1}", **condition)
            if not answer.get("ContentRange", "").startswith(f"bytes {start}-"):
                answer["Body"].close()
                raise ObjectStoreError(f"reading {key}: the store ignores ranges, which it must not")
            size = int(answer["ContentRange"].rpartition("/")[2])
            room = window.room(min(end, size) - start)
            while room:
                got = answer["Body"].readinto(room)
                if not got:
                    raise StoreUnavailable(f"reading {key}: the answer ended early")
                room = room[got:]
            return _etag(answer), size

    async def put(
        self,
        key: str,
        body: Body,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> str:
        """Store the object when the condition holds."""
        condition: dict[str, Any] = {}
        if if_match is not None:
            condition["IfMatch"] = f'"{if_match}"'
        if if_none_match:
            condition["IfNoneMatch"] = "*"
        run = self._threads.run if condition else self._repeatable
        return await run(self._put, key, _sendable(body), condition)

    def _put(self, key: str, body: bytes | bytearray, condition: dict[str, Any]) -> str:
        with named_errors(f"writing {key}"):
            try:
                answer = self._client.put_object(**self._at(key), Body=body, **condition)
            except ClientError as error:
                if condition and answered(error) in {404, 409, 412} and not no_bucket(error):
                    raise PreconditionFailed(f"{key} is not as the condition says") from error
                raise
            return _etag(answer)

    async def delete(self, key: str) -> None:
        """Remove the object."""
        await self._repeatable(self._delete, key)

    def _delete(self, key: str) -> None:
        with contextlib.suppress(NoSuchKey), named_errors(f"deleting {key}"):
            self._client.delete_object(**self._at(key))

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[str]:
        """Yield keys page by page, in the order of the store, which is that of their bytes."""
        token: dict[str, Any] = {"StartAfter": self._prefix + start_after} if start_after else {}
        while True:
            page = await self._repeatable(self._page, prefix, token)
            for item in page.get("Contents", ()):
                yield item["Key"].removeprefix(self._prefix)
            following = page.get("NextContinuationToken")
            if not following or token.get("ContinuationToken") == following:
                return
            token = {"ContinuationToken": following}

    def _page(self, prefix: str, token: dict[str, Any]) -> Any:
        with named_errors(f"listing {prefix}"):
            return self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + prefix, **token)

    async def create_multipart(self, key: str) -> str:
        """Begin an upload."""
        return await self._threads.run(self._create, key)

    def _create(self, key: str) -> str:
        with named_errors(f"beginning an upload of {key}"):
            return str(self._client.create_multipart_upload(**self._at(key))["UploadId"])

    async def upload_part(self, key: str, upload: str, number: int, body: Body) -> str:
        """Store the part."""
        return await self._repeatable(self._upload_part, key, upload, number, _sendable(body))

    def _upload_part(self, key: str, upload: str, number: int, body: bytes | bytearray) -> str:
        with named_errors(f"writing part {number} of {key}"):
            answer = self._client.upload_part(**self._at(key), UploadId=upload, PartNumber=number, Body=body)
            return _etag(answer)

    async def list_parts(self, key: str, upload: str) -> Sequence[PartInfo]:
        """Return the parts stored so far, of every page."""
        return await self._repeatable(self._list_parts, key, upload)

    def _list_parts(self, key: str, upload: str) -> Sequence[PartInfo]:
        with named_errors(f"reading the parts of {key}"):
            pages = self._client.get_paginator("list_parts").paginate(**self._at(key), UploadId=upload)
            # some services list a part that was sent again twice; the later entry stands for it
            by_number = {
                part["PartNumber"]: PartInfo(part["PartNumber"], part["Size"], _bare(part["ETag"]))
                for page in pages
                for part in page.get("Parts", ())
            }
            return [by_number[number] for number in sorted(by_number)]

    async def complete_multipart(self, key: str, upload: str, parts: Sequence[PartInfo]) -> str:
        """Make the object; an answer of 200 that carries an error is an error."""
        return await self._threads.run(self._complete, key, upload, parts)

    def _complete(self, key: str, upload: str, parts: Sequence[PartInfo]) -> str:
        named = [{"PartNumber": part.number, "ETag": f'"{part.etag}"'} for part in parts]
        with named_errors(f"completing {key}"):
            answer = self._client.complete_multipart_upload(
                **self._at(key),
                UploadId=upload,
                MultipartUpload={"Parts": named},
            )
            return _etag(answer)

    async def abort_multipart(self, key: str, upload: str) -> None:
        """Remove the upload and its parts."""
        await self._repeatable(self._abort, key, upload)

    def _abort(self, key: str, upload: str) -> None:
        with contextlib.suppress(NoSuchKey), named_errors(f"aborting an upload of {key}"):
            self._client.abort_multipart_upload(**self._at(key), UploadId=upload)

    async def list_multiparts(self, prefix: str) -> Sequence[tuple[str, str]]:
        """Return the unfinished uploads, of every page."""
        return await self._repeatable(self._list_multiparts, prefix)

    def _list_multiparts(self, prefix: str) -> Sequence[tuple[str, str]]:
        with named_errors(f"listing uploads of {prefix}"):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            return [
                (upload["Key"].removeprefix(self._prefix), upload["UploadId"])
                for page in pages
                for upload in page.get("Uploads", ())
            ]

    async def close(self) -> None:
        """Wait for calls at work and close connections."""
        await self._threads.close()
        self._client.close()

    def _at(self, key: str) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Key": self._prefix + keys.checked(key)}

    async def _repeatable(self, call: Callable[..., T], *arguments: object) -> T:
        """Run a call that does the same when it is executed twice."""
        return await retrying(
            lambda: self._threads.run(call, *arguments),
            retry_on=(StoreUnavailable,),
            backoff=_BACKOFF,
            attempts=_TRIES,
        )


def _etag(answer: Any) -> str:
    """Return the ETag of an answer; one without it tells nothing about what happened."""
    if not answer.get("ETag"):
        raise StoreUnavailable("the store's answer carries no ETag")
    return _bare(answer["ETag"])


def _bare(etag: str) -> str:
    return etag.strip('"')


def _sendable(body: Body) -> bytes | bytearray:
    """Return what botocore takes; a view of a whole buffer is that buffer, without a copy."""
    if not isinstance(body, memoryview):
        return body
    if isinstance(body.obj, bytes | bytearray) and len(body.obj) == body.nbytes:
        return body.obj
    return bytes(body)
