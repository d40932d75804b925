"""The registry client: OCI distribution over HTTP, and DMCR's additions.

What belongs here: one method per thing that a caller wants of a registry. What does not: how bytes travel
(``reading``, ``upload``) and how calls are made (``transport``).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import msgspec

from modelio.registry.direct import DirectReads
from modelio.registry.errors import DigestMismatch, NotFound, ProtocolViolation
from modelio.registry.persistence import Patience
from modelio.registry.reading import BlobReader
from modelio.registry.transport import Transport, decoded
from modelio.registry.upload import UploadSession
from modelio.wire import TransferList, TransferProgress, TransferSpec

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

    from modelio.registry.grants import GrantSource

MANIFEST_MEDIA_TYPE = "application/vnd.oci.image.manifest.v1+json"
#: What registries promise to accept at least; a larger manifest is refused on reading too.
MOST_MANIFEST_BYTES = 4 << 20
DEFAULT_RANGE_BYTES = 8 << 20


@dataclass(frozen=True)
class Manifest:
    """A manifest's bytes exactly as stored, with the digest they were checked against."""

    body: bytes
    media_type: str
    digest: str


class RegistryClient:
    """One registry; safe for any number of concurrent calls of one event loop.

    ``tls`` None means the system's trust; ``auth`` None means an open registry.
    """

    def __init__(
        self,
        base_url: str,
        *,
        tls: ssl.SSLContext | None = None,
        auth: GrantSource | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._transport = Transport(base_url, tls=tls, auth=auth, patience=patience or Patience())

    @classmethod
    def _over(cls, transport: Transport) -> RegistryClient:
        client = cls.__new__(cls)
        client._transport = transport  # noqa: SLF001 (its own class)
        return client

    def with_auth(self, auth: GrantSource | None) -> RegistryClient:
        """Return a client with other grants over the same connections; closing either closes both."""
        return self._over(self._transport.with_auth(auth))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def transfer(self) -> TransferSpec | None:
        """Return the record of this client's own transfer, by a new exchange at ``/token``."""
        return await self._transport.own_transfer()

    async def head_blob(self, repository: str, digest: str) -> int | None:
        """Return the blob's size, or None when the repository does not have it."""
        try:
            return await BlobReader(self._transport, repository, digest).size()
        except NotFound:
            return None

    async def open_upload(
        self, repository: str, resume_key: str | None, length: int | None = None, *, restart: bool = False
    ) -> UploadSession:
        """Create the upload session of ``resume_key``, or take it over where an older attempt left it."""
        return await UploadSession.open(
            self._transport, repository, resume_key=resume_key, length=length, restart=restart
        )

    async def push_blob(self, repository: str, body: bytes) -> str:
        """Store a small blob whole, unless it is there already, and return its digest."""
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if await self.head_blob(repository, digest) is None:
            await self._transport.call(
                "POST",
                f"/v2/{repository}/blobs/uploads/?digest={digest}",
                ok={201},
                headers={"Content-Type": "application/octet-stream"},
                body=body,
            )
        return digest

    def read_blob(
        self, repository: str, digest: str, start: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the blob's bytes from ``start`` in order, going on after lost connections; not hashed."""
        stop = None if length is None else start + length
        return BlobReader(self._transport, repository, digest).stream(start, stop)

    def read_blob_ranges(
        self,
        repository: str,
        digest: str,
        start: int,
        length: int,
        *,
        readers: int = 4,
        range_bytes: int = DEFAULT_RANGE_BYTES,
    ) -> AsyncGenerator[bytes, None]:
        """Yield bytes in order from several ranges on their way at once; memory is their product at most."""
        reader = BlobReader(self._transport, repository, digest)
        return reader.ordered(start, start + length, readers=readers, range_bytes=range_bytes)

    def direct_reads(self, at_once: int) -> DirectReads:
        """Return an asynchronous context for reading ranges straight into memory, so many at a time."""
        return DirectReads(self._transport, at_once)

    async def get_manifest(self, repository: str, reference: str) -> Manifest:
        """Return a manifest by tag or digest, its bytes checked against the digest."""
        answer = await self._transport.call(
            "GET",
            f"/v2/{repository}/manifests/{reference}",
            ok={200},
            headers={"Accept": f"{MANIFEST_MEDIA_TYPE}, application/vnd.oci.image.index.v1+json"},
            most=MOST_MANIFEST_BYTES,
        )
        named = reference if ":" in reference else answer.headers.get("Docker-Content-Digest", "")
        digest = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        if named and named != digest:
            raise DigestMismatch(f"manifest {reference} of {repository} has the digest {digest}, not {named}")
        return Manifest(answer.body, answer.headers.get("Content-Type", ""), digest)

    async def put_manifest(self, repository: str, reference: str, media_type: str, body: bytes) -> str:
        """Commit a manifest under a tag or its digest; return its digest."""
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        answer = await self._transport.call(
            "PUT",
            f"/v2/{repository}/manifests/{reference}",
            ok={201},
            headers={"Content-Type": media_type},
            body=body,
        )
        if answer.headers.get("Docker-Content-Digest", digest) != digest:
            raise ProtocolViolation(f"the registry stored {reference} of {repository} under another digest")
        return digest

    async def delete_manifest(self, repository: str, reference: str) -> None:
        """Remove a tag, or a manifest by digest; one that is gone already is fine."""
        target = f"/v2/{repository}/manifests/{reference}"
        await self._transport.call("DELETE", target, ok={200, 202, 204, 404})

    async def close_repository(self, repository: str) -> None:
        """Close the repository's record for ever: late writers are fenced; repeatable."""
        await self._transport.call("DELETE", f"/api/repositories/v1/{repository}", ok={204})

    async def put_transfer(self, transfer: str, spec: TransferSpec) -> None:
        """Allow a transfer, or change what it is allowed; repeatable."""
        await self._transport.call(
            "PUT",
            f"/api/transfers/v1/{transfer}",
            ok={200, 201, 204},
            headers={"Content-Type": "application/json"},
            body=msgspec.json.encode(spec),
        )

    async def list_transfers(self) -> list[TransferProgress]:
        """Return all transfers that are not revoked."""
        answer = await self._transport.call("GET", "/api/transfers/v1", ok={200}, most=16 << 20)
        return decoded(answer, TransferList).items

    async def revoke_transfer(self, transfer: str, *, keep_sessions: bool = False) -> None:
        """Refuse the transfer's grants from now on and void its sessions; one that is gone is fine.

        ``keep_sessions``: its writers lose them too, but what is stored waits for whoever has the resume key.
        """
        target = f"/api/transfers/v1/{transfer}{'?sessions=keep' if keep_sessions else ''}"
        await self._transport.call("DELETE", target, ok={200, 202, 204, 404})

    async def end_sessions(self, repository: str) -> None:
        """Void every session that was kept in the repository, or left there, by a transfer that has ended."""
        await self._transport.call("DELETE", f"/api/sessions/v1/{repository}", ok={204})
