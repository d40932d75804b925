"""The low-level S3 client: credentials that are read again, and botocore's errors in the port's words."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.session import Session as BotocoreSession

from objectstore.port import (
    InvalidPart,
    InvalidRange,
    NoSuchKey,
    ObjectStoreError,
    PreconditionFailed,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from objectstore.s3settings import S3Settings

CONNECTIONS = 32

_BY_CODE: dict[str, type[ObjectStoreError]] = {
    "NoSuchKey": NoSuchKey,
    "NoSuchUpload": NoSuchKey,
    "PreconditionFailed": PreconditionFailed,
    "ConditionalRequestConflict": PreconditionFailed,
    "InvalidPart": InvalidPart,
    "InvalidPartOrder": InvalidPart,
    "InvalidRange": InvalidRange,
    "NoSuchBucket": StoreDenied,
    "QuotaExceeded": StoreFull,
    "XMinioStorageFull": StoreFull,
    "InsufficientStorage": StoreFull,
    "RequestTimeout": StoreUnavailable,
    "SlowDown": StoreUnavailable,
}
_BY_STATUS: dict[int, type[ObjectStoreError]] = {
    401: StoreDenied,
    403: StoreDenied,
    404: NoSuchKey,
    409: StoreUnavailable,
    412: PreconditionFailed,
    416: InvalidRange,
    429: StoreUnavailable,
    507: StoreFull,
}


def make_client(settings: S3Settings) -> S3Client:
    """Return a client that never repeats a call by itself: only the caller knows which ones may be."""
    session = BotocoreSession()
    if settings.credentials_directory or settings.access_key:
        session.register_component("credential_provider", _Resolver(settings))
    return boto3.session.Session(botocore_session=session).client(
        "s3",
        region_name=settings.region,
        endpoint_url=settings.endpoint or None,
        verify=str(settings.ca_file) if settings.ca_file and settings.ca_file.exists() else None,
        config=Config(
            signature_version="s3v4",
            s3={
                "addressing_style": "path" if settings.path_style else "virtual",
                "payload_signing_enabled": settings.endpoint.startswith("http://"),
            },
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            max_pool_connections=CONNECTIONS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            connect_timeout=5,
            read_timeout=60,
            tcp_keepalive=True,
        ),
    )


class _Resolver:
    """Gives botocore the one set of credentials that there is."""

    def __init__(self, settings: S3Settings) -> None:
        if settings.credentials_directory:
            self._credentials: Credentials = _FileCredentials(settings.credentials_directory)
        else:
            self._credentials = Credentials(settings.access_key, settings.secret_key)

    def load_credentials(self) -> Credentials:
        return self._credentials


class _FileCredentials(Credentials):
    """Keys in the files of a mounted Secret, looked at before each request is signed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: tuple[int, int] | None = None
        self._read()

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        with contextlib.suppress(OSError):
            self._read()
        return super().get_frozen_credentials()

    def _read(self) -> None:
        files = (self._directory / "accessKey", self._directory / "secretKey")
        state = (files[0].stat().st_mtime_ns, files[1].stat().st_mtime_ns)
        if state != self._seen:
            super().__init__(files[0].read_text().strip(), files[1].read_text().strip())
            self._seen = state


@contextlib.contextmanager
def named_errors(what: str) -> Iterator[None]:
    """Turn botocore's errors into the port's."""
    try:
        yield
    except ClientError as error:
        raise _named(what, error) from error
    except (BotoCoreError, HTTPClientError) as error:
        raise StoreUnavailable(f"{what}: no usable answer from the store: {error}") from error


def answered(error: ClientError) -> int:
    """Return the HTTP status of the answer."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def no_bucket(error: ClientError) -> bool:
    """Say whether the bucket itself is missing, which tells nothing about a key."""
    return error.response.get("Error", {}).get("Code") == "NoSuchBucket"


def _named(what: str, error: ClientError) -> ObjectStoreError:
    code = error.response.get("Error", {}).get("Code", "")
    status = answered(error)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if kind is None:
        kind = StoreUnavailable if status >= 500 or status == 200 else ObjectStoreError  # noqa: PLR2004
    return kind(f"{what}: the store answers {status} {code}: {error}")
