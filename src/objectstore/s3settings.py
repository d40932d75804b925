"""How an S3 service is reached; apart from the engine, so that settings load without boto3."""

from pathlib import Path

import msgspec


class S3Settings(msgspec.Struct, frozen=True):
    """Endpoint, trust and credentials of an S3 service.

    ``credentials_directory`` is a mounted Secret with the files ``accessKey``, ``secretKey`` and perhaps
    ``ca.crt``; it is read again when a file changes, so new keys work without a restart.
    """

    __secret_fields__ = ("access_key", "secret_key")

    endpoint: str = ""
    region: str = "us-east-1"
    path_style: bool = True
    ca_file: Path | None = None
    credentials_directory: Path | None = None
    access_key: str = ""
    secret_key: str = ""
    uniform_parts: bool = False
