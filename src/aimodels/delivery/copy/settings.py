"""The copy Job's settings: environment variables ``COPY_*``."""

from pathlib import Path

import msgspec


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where from, what, where to.

    digest: of the manifest. target: where the claim is mounted. transfer: whose grants are asked for with
    the token file; without a token file the registry is open.
    """

    dmcr_url: str
    repository: str
    digest: str
    ca_file: Path | None = None
    token_file: Path | None = None
    transfer: str | None = None
    target: Path = Path("/target")
    termination_file: Path = Path("/dev/termination-log")
    log_level: str = "info"
