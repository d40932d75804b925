"""What was uploaded: the manifest under the tag ``upload``, and its blob, to read headers from."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.jobs.worker import Interrupted
from modelio.registry import NotFound
from modelkit import digest as digests
from modelkit import names
from modelkit.modelpack import FILEPATH

if TYPE_CHECKING:
    from modelio.registry import RegistryClient

UPLOAD_TAG = "upload"
#: name of a lone GGUF file that was sent without one
DEFAULT_NAME = "model.gguf"
#: header readers ask for little and soon for what follows
_WINDOW = 256 << 10
_WINDOWS = 4


class _Descriptor(msgspec.Struct, frozen=True):
    digest: str
    size: int
    annotations: dict[str, Any] = {}


class _Manifest(msgspec.Struct, frozen=True):
    layers: list[_Descriptor]


class Received(msgspec.Struct, frozen=True):
    """One uploaded file: its blob and the name that the user gave, if any."""

    digest: str
    size: int
    filename: str | None


async def fetch(client: RegistryClient, repository: str) -> Received:
    """Return what was uploaded.

    Raises:
        Interrupted: there is nothing under the tag, or not what the gateway writes.
    """
    try:
        manifest = await client.get_manifest(repository, UPLOAD_TAG)
        layers = msgspec.json.decode(manifest.body, type=_Manifest).layers
    except NotFound as error:
        raise Interrupted(f"nothing is tagged {UPLOAD_TAG} in {repository}") from error
    except msgspec.MsgspecError as error:
        raise Interrupted(f"the manifest tagged {UPLOAD_TAG} cannot be read: {error}") from error
    if len(layers) != 1 or not digests.is_digest(layers[0].digest):
        raise Interrupted(f"the manifest tagged {UPLOAD_TAG} does not name one blob")
    return Received(layers[0].digest, layers[0].size, _filename(layers[0].annotations.get(FILEPATH)))


def _filename(given: Any) -> str | None:
    try:
        return names.file_name(given) if isinstance(given, str) else None
    except names.BadName:
        return None


class RemoteBlob:
    """A blob of the registry as a ``RangeReader``: used in a thread, while ``loop`` does the calls.

    A read fetches some more than was asked for, and the last few windows are kept: headers are read in
    small steps forward.
    """

    def __init__(self, client: RegistryClient, repository: str, received: Received) -> None:
        self._client = client
        self._repository = repository
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._windows: list[tuple[int, bytes]] = []

    @property
    def size(self) -> int:
        """Number of bytes in all."""
        return self._received.size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        for start, window in self._windows:
            if start <= offset and offset + length <= start + len(window):
                return window[offset - start : offset - start + length]
        fetched = min(max(length, _WINDOW), self.size - offset)
        window = asyncio.run_coroutine_threadsafe(self._fetch(offset, fetched), self._loop).result()
        self._windows = [*self._windows[1 - _WINDOWS :], (offset, window)]
        return window[:length]

    async def _fetch(self, offset: int, length: int) -> bytes:
        data = bytearray()
        digest = self._received.digest
        async with aclosing(self._client.read_blob(self._repository, digest, offset, length)) as pieces:
            async for piece in pieces:
                data += piece
        return bytes(data)
