"""The publication Job's settings: environment variables ``PUBLICATION_*``."""

from pathlib import Path

import msgspec


class Source(msgspec.Struct, frozen=True):
    """Where the model comes from; the type is a word of the API's ``resolvedType``."""

    type: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Which repository, on whose behalf, from where.

    transfer: whose grants are asked for with the token file; without a token file the registry is open.
    """

    dmcr_url: str
    repository: str
    model_name: str
    transfer: str
    source: str = '{"type":"Upload"}'
    ca_file: Path | None = None
    token_file: Path | None = None
    termination_file: Path = Path("/dev/termination-log")
    log_level: str = "info"
