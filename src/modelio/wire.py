"""Values that go over DMCR's wire, shared by the client and the registry.

What belongs here: the JSON bodies of ``/token`` and ``/api/transfers/v1`` and their limits. What does not:
what either side does with them.
"""

import re
from datetime import datetime
from typing import Literal

import msgspec

Action = Literal["pull", "push", "delete"]
Purpose = Literal["upload", "publication", "copy"]
TransferState = Literal["active", "revoked"]

#: Audience of the projected tokens that ``/token`` accepts, and of the grants that it issues.
AUDIENCE = "dmcr"
TRANSFER_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,126}[a-z0-9])?")

#: Code of the refusal of a transfer that is over and still on record; its detail has ``tokenHash`` and
#: ``revoked``: that is for good, while one that lapsed can be allowed again.
TRANSFER_ENDED = "TRANSFER_ENDED"

RESUME_KEY_HEADER = "Dmcr-Resume-Key"
LENGTH_HEADER = "Dmcr-Length"
RESTART_HEADER = "Dmcr-Restart"
OFFSET_HEADER = "Dmcr-Offset"
ATTEMPT_HEADER = "Dmcr-Attempt"
DIGEST_HEADER = "Dmcr-Digest"


class TransferSpec(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """What the catalogue allows one Job or one upload session to do.

    ``service_account`` is ``namespace/name``; a grant goes only to a Pod of it whose name starts with
    ``pod_prefix`` (empty: any Pod). ``token_hash`` is the SHA-256 of the user's upload token in hex.
    After ``idle_seconds`` without a byte since it was put last it ends by itself; None: only when revoked.
    """

    service_account: str
    repository: str
    purpose: Purpose
    pod_prefix: str = ""
    actions: tuple[Action, ...] = ("pull",)
    digest: str | None = None
    expected_bytes: int | None = None
    token_hash: str | None = None
    idle_seconds: int | None = None


class TransferProgress(msgspec.Struct, frozen=True, rename="camel"):
    """How far one transfer is; bytes count what has moved at least once, so they never exceed the whole."""

    id: str
    purpose: Purpose
    repository: str
    state: TransferState = "active"
    expected_bytes: int | None = None
    received_bytes: int = 0
    offset: int = 0
    delivered_bytes: int = 0
    last_progress_time: datetime | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class TransferList(msgspec.Struct, frozen=True):
    """Answer of ``GET /api/transfers/v1``."""

    items: list[TransferProgress]


class TokenRequest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Body of ``POST /token``; without a transfer the caller asks as the catalogue."""

    transfer: str | None = None


class TokenAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A grant; ``expires_in`` (seconds) is independent of clocks, ``expires_at`` is for people."""

    token: str
    expires_at: datetime
    expires_in: int
    transfer: TransferSpec | None = None
