"""The registry's settings: environment variables ``DMCR_*``.

Alone, ``DMCR_STORE=file:///srv/models python -m aimodels.dmcr`` is a registry for any OCI client.
"""

from pathlib import Path
from typing import Literal

import msgspec

from objectstore.s3settings import S3Settings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set.

    store: ``file:///path``, ``s3://bucket[/prefix]`` or ``memory:`` (lost at the end).
    listen: address and port; ``[::]`` takes IPv4 too.
    auth: ``none``, everyone may do everything; ``grants``, the bearer of a grant of ours.
    owner: which installation the bucket belongs to; another one may read only.
    buffer_bytes: memory for uploads on their way; 0 is a quarter of the memory limit, at most 512 MiB.
    idle_seconds: an upload's connection without a byte for so long is ended; the upload itself stays.
    """

    __secret_fields__ = ("s3_access_key", "s3_secret_key")

    store: str
    listen: str = "[::]:5000"
    auth: Literal["none", "grants"] = "none"
    owner: str = "standalone"
    log_level: str = "info"
    buffer_bytes: int = 0
    idle_seconds: float = 60.0

    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None

    signing_key_file: Path | None = None
    catalogue_account: str = "d8-ai-models/ai-models-controller"
    kubernetes_kubeconfig: Path | None = None

    s3_endpoint: str = ""
    s3_region: str = "us-east-1"
    s3_use_path_style: bool = True
    s3_ca_file: Path | None = None
    s3_credentials_dir: Path | None = None
    s3_access_key: str = ""
    s3_secret_key: str = ""
    s3_uniform_parts: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.auth == "grants" and self.signing_key_file is None:
            raise ValueError("DMCR_AUTH=grants needs DMCR_SIGNING_KEY_FILE, an Ed25519 key in PEM")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("DMCR_TLS_CERT_FILE and DMCR_TLS_KEY_FILE are set together or not at all")
        self.address()

    def address(self) -> tuple[str, int]:
        """Return host and port to listen on."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004
            raise ValueError(f"DMCR_LISTEN={self.listen!r} is not <address>:<port>, such as [::]:5000")
        return host.removeprefix("[").removesuffix("]"), int(port)

    def s3(self) -> S3Settings:
        """Return how the S3 service is reached."""
        return S3Settings(
            endpoint=self.s3_endpoint,
            region=self.s3_region,
            path_style=self.s3_use_path_style,
            ca_file=self.s3_ca_file,
            credentials_directory=self.s3_credentials_dir,
            access_key=self.s3_access_key,
            secret_key=self.s3_secret_key,
        )
