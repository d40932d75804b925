"""Async client of an OCI registry, and of what DMCR adds to it: resume keys, grants, transfers.

``RegistryClient`` is the whole surface; errors are ``modelio.registry.errors``.
"""

from modelio.registry.body import WrongLength
from modelio.registry.client import MANIFEST_MEDIA_TYPE, Manifest, RegistryClient
from modelio.registry.direct import DirectReads
from modelio.registry.errors import (
    Denied,
    DigestMismatch,
    NotAuthorised,
    NotFound,
    ProtocolViolation,
    Refused,
    RegistryError,
    RegistryUnavailable,
    SessionLost,
    TokenFileUnreadable,
    TransferEnded,
    TransferStalled,
)
from modelio.registry.grants import GrantSource
from modelio.registry.persistence import Patience
from modelio.registry.upload import UploadSession
from modelio.wire import (
    Action,
    Purpose,
    TokenAnswer,
    TokenRequest,
    TransferProgress,
    TransferSpec,
)

__all__ = [
    "MANIFEST_MEDIA_TYPE",
    "Action",
    "Denied",
    "DigestMismatch",
    "DirectReads",
    "GrantSource",
    "Manifest",
    "NotAuthorised",
    "NotFound",
    "Patience",
    "ProtocolViolation",
    "Purpose",
    "Refused",
    "RegistryClient",
    "RegistryError",
    "RegistryUnavailable",
    "SessionLost",
    "TokenAnswer",
    "TokenFileUnreadable",
    "TokenRequest",
    "TransferEnded",
    "TransferProgress",
    "TransferSpec",
    "TransferStalled",
    "UploadSession",
    "WrongLength",
]
