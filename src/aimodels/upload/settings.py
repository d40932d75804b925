"""The gateway's settings: environment variables ``UPLOAD_*``."""

from pathlib import Path

import msgspec

from webkit.tls import TlsFiles


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set.

    dmcr_url: the registry; ca_file: who signs its certificate, the system's trust when absent.
    token_file: our own projected token with the audience ``dmcr``.
    idle_seconds: an upload's connection without a byte for so long is ended; what was received stays.
    """

    dmcr_url: str
    token_file: Path
    ca_file: Path | None = None
    listen: str = "[::]:8443"
    log_level: str = "info"
    idle_seconds: float = 60.0
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("UPLOAD_TLS_CERT_FILE and UPLOAD_TLS_KEY_FILE are set together or not at all")
        self.address()

    def address(self) -> tuple[str, int]:
        """Return host and port to listen on."""
        host, _, port = self.listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004
            raise ValueError(f"UPLOAD_LISTEN={self.listen!r} is not <address>:<port>, such as [::]:8443")
        return host.removeprefix("[").removesuffix("]"), int(port)

    def tls(self) -> TlsFiles | None:
        """Return the listener's certificate files."""
        if self.tls_cert_file and self.tls_key_file:
            return TlsFiles(self.tls_cert_file, self.tls_key_file)
        return None
