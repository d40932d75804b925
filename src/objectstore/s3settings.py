"""How an S3 service is reached; apart from the engine, so that settings load without boto3."""

from pathlib import Path

import msgspec


class S3Settings(msgspec.Struct, frozen=True):
    """Endpoint, trust and credentials of an S3 service.

    ``credentials_directory`` is a mounted Secret with the files ``accessKey`` and ``secretKey``, read again
    when they change, so that new keys work without a restart; else ``access_key`` and ``secret_key`` serve.
    A ``ca_file`` that is not there leaves the public authorities. An ``http`` endpoint gets its payloads
    signed, since nothing else protects them.
    """

    __secret_fields__ = ("access_key", "secret_key")

    endpoint: str = ""
    region: str = "us-east-1"
    path_style: bool = True
    ca_file: Path | None = None
    credentials_directory: Path | None = None
    access_key: str = ""
    secret_key: str = ""

    def __post_init__(self) -> None:
        """Refuse settings that can never work."""
        if self.endpoint and not self.endpoint.startswith(("https://", "http://")):
            raise ValueError(f"S3 endpoint {self.endpoint!r} must begin with https:// or http://")
        if not self.credentials_directory and bool(self.access_key) != bool(self.secret_key):
            raise ValueError("S3 access key and secret key must be given together")
