"""A registry in this process that a gateway application can be put before: one upload, kept in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from modelio.registry import Denied, Manifest, NotFound, RegistryError, TransferSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from modelio.registry import GrantSource

SESSION = "upload-u1-g1-abc"
TOKEN = "right"


@dataclass
class FakeRegistry:
    """Plays client and registry; ``fails`` is raised by the next call that sends or opens."""

    allowed: bool = True
    held: bytearray = field(default_factory=bytearray)
    tag: Manifest | None = None
    fails: RegistryError | None = None
    asked: int = 0

    def with_auth(self, _auth: GrantSource) -> Self:
        return self

    async def transfer(self) -> TransferSpec:
        self.asked += 1
        if not self.allowed:
            raise Denied("the transfer has ended", status=403)
        return TransferSpec(
            service_account="a/b",
            repository="models/a/b",
            purpose="upload",
            actions=("pull", "push"),
            token_hash=hashlib.sha256(TOKEN.encode()).hexdigest(),
        )

    async def get_manifest(self, _repository: str, _reference: str) -> Manifest:
        if self.tag is None:
            raise NotFound("no tag", status=404)
        return self.tag

    async def open_upload(
        self, _repository: str, _key: str, _length: int | None = None, *, restart: bool = False
    ) -> FakeUpload:
        self.fail()
        if restart:
            self.held.clear()
        return FakeUpload(self)

    async def push_blob(self, _repository: str, body: bytes) -> str:
        return "sha256:" + hashlib.sha256(body).hexdigest()

    async def put_manifest(self, _repository: str, reference: str, media_type: str, body: bytes) -> str:
        assert reference == "upload"
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        self.tag = Manifest(body, media_type, digest)
        return digest

    def fail(self) -> None:
        if self.fails:
            error, self.fails = self.fails, None
            raise error


class FakeUpload:
    """The session of the one upload."""

    def __init__(self, registry: FakeRegistry) -> None:
        self._registry = registry
        self.offset = len(registry.held)
        self.digest_so_far: str | None = None

    async def refresh(self) -> None:
        self.offset = len(self._registry.held)
        self.digest_so_far = "sha256:" + hashlib.sha256(self._registry.held).hexdigest()

    async def send(self, source: AsyncIterator[bytes], *, length: int | None = None) -> int:
        async for piece in source:
            self._registry.fail()
            self._registry.held += piece
        self.offset = len(self._registry.held)
        assert length is None or length <= self.offset
        return self.offset

    async def close(self, digest: str) -> None:
        assert digest == self.digest_so_far

    async def cancel(self) -> None:
        self._registry.held.clear()


def typed(registry: FakeRegistry) -> Any:
    """Return the registry as whatever a signature asks for."""
    return registry
