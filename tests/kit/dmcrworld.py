"""Several replicas of the registry over one scheduled bucket, and what must hold after every step."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.dmcr import layout
from aimodels.dmcr.app import App
from aimodels.dmcr.blobs import WELL_KNOWN
from aimodels.dmcr.documents import parse
from aimodels.dmcr.layout import Pointer, Record, Session
from aimodels.dmcr.owner import Ownership
from aimodels.dmcr.principal import OpenDoor, Principal
from aimodels.dmcr.registry import Registry
from aimodels.dmcr.swaps import Swaps
from opskit.clock import ManualClock
from tests.kit import asgi
from tests.kit.dmcr import digest_of
from tests.kit.scheduledstore import Network, at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from aimodels.dmcr.layout import Versioned

NAME = "models/team/tiny"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
#: parts of one hash block each, so that a handful of bytes is an upload of many parts
TINY_PARTS = ((10_000, 64),)


class Inline(Executor):
    """Runs what it is given at once: hashing takes no time here."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as an executor does
            future.set_exception(error)
        return future


class Arrivals:
    """A meter that only counts what arrives."""

    def __init__(self) -> None:
        self.arrived = 0

    def received(self, _: Principal, count: int) -> None:
        self.arrived += count

    def journaled(self, *_: object) -> None:
        return

    def resumed(self, *_: object) -> None:
        return

    def delivered(self, *_: object) -> None:
        return


class Replica:
    """One process, as far as the bucket can tell."""

    def __init__(self, world: World, name: str, owner: str) -> None:
        self.name = name
        self.clock = ManualClock()
        self.meter = Arrivals()
        self.store = world.network.store(name)
        self.swaps = Swaps(self.store, self.clock, world.fresh)
        self.registry = Registry(self.swaps, self.meter, owner=owner, buffer_bytes=1 << 20, threads=Inline())
        self.ownership = Ownership(self.swaps, owner)
        self.ownership.read_only = None
        self.app = App(self.registry, OpenDoor(), self.ownership)

    def send(
        self, method: str, target: str, body: bytes | Sequence[bytes], headers: dict[str, str]
    ) -> Coroutine[Any, Any, asgi.Answer]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return asgi.request(self.app, method, target, body, headers=sent)


class World:
    """Bucket, network, replicas; ``check`` runs after every executed request."""

    def __init__(self) -> None:
        self.network = Network()
        self.network.after_step = self.check
        self._serial = 0
        self._states: dict[str, str] = {}
        self._revs: dict[str, str] = {}

    def fresh(self) -> str:
        self._serial += 1
        return f"{self._serial:032x}"

    def replica(self, name: str, owner: str = "cluster") -> Replica:
        return Replica(self, name, owner)

    async def do(
        self,
        replica: Replica,
        method: str,
        target: str,
        body: bytes | Sequence[bytes] = b"",
        **headers: str,
    ) -> asgi.Answer:
        """One request from begin to end, nothing else running."""
        task = await self.start(replica, method, target, body, **headers)
        answer: asgi.Answer = await self.network.finish(task, replica.name)
        return answer

    async def start(
        self,
        replica: Replica,
        method: str,
        target: str,
        body: bytes | Sequence[bytes] = b"",
        **headers: str,
    ) -> asyncio.Task[asgi.Answer]:
        """Begin a request; the test releases what it sends."""
        task = asyncio.create_task(replica.send(method, target, body, headers))
        await self.network.rest()
        return task

    # what the bucket holds, read past the network

    def load(self, key: str, kind: type[layout.T]) -> layout.T | None:
        objects = self.network.bucket._objects
        return layout.decode(objects[key].body, kind) if key in objects else None

    def record(self, name: str = NAME) -> Record:
        found = self.load(layout.record_key(name), Record)
        assert found is not None
        return found

    def pointer(self, digest: str) -> Pointer | None:
        return self.load(layout.pointer_key(digest), Pointer)

    def each(self, prefix: str, kind: type[layout.T]) -> list[tuple[str, layout.T]]:
        return [
            (key, layout.decode(stored.body, kind))
            for key, stored in self.network.bucket._objects.items()
            if key.startswith(prefix) and key.endswith(".json")
        ]

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self.network.bucket._objects if key.startswith(prefix))

    def write(self, key: str, value: Versioned) -> None:
        """Put an object into the bucket as another process would."""
        at_once(self.network.bucket.put(key, layout.encode(_with_rev(value, self.fresh()))))
        self.check()

    # invariants

    def check(self) -> None:
        """I1, I3, I5, no DELETE of pointers or records, no rev twice: after each executed request."""
        self._check_arrows()
        assert not [key for key in self.network.deleted if key.startswith(("blobs/", "repos/"))]
        for _, record in self.each("repos/", Record):
            if record.state == "open":
                self._check_whole(record)
        for key, pointer in self.each("blobs/", Pointer):
            if pointer.state != "dead":
                assert pointer.data not in pointer.trash, f"{key}: its bytes are on its own trash"
        claimed = [pointer.data for _, pointer in self.each("blobs/", Pointer) if pointer.data]
        assert len(claimed) == len(set(claimed)), "two pointers name the same bytes"

    def _check_whole(self, record: Record) -> None:
        objects = self.network.bucket._objects
        for digest, entry in record.manifests.items():
            assert entry.key in objects, f"{record.name}: bytes of {digest} are missing"
            for blob in parse(objects[entry.key].body, entry.media_type).blobs:
                if blob in WELL_KNOWN:
                    continue
                pointer = self.pointer(blob)
                assert pointer is not None, f"{record.name}: {blob} has no pointer"
                assert pointer.state in ("live", "condemned"), f"{record.name}: {blob} is {pointer.state}"
                assert record.life in pointer.repos, f"{record.name}: {blob} names other lives only"
                data = objects.get(layout.data_key(pointer.data or ""))
                assert data is not None, f"{record.name}: bytes of {blob} are missing"
                assert len(data.body) == pointer.size

    def _check_arrows(self) -> None:
        """States move only along the protocol's arrows, and no rev comes twice."""
        for key in set(self._states) - set(self.network.bucket._objects):
            assert key.startswith("uploads/"), f"{key} is gone"
            del self._states[key]
        for prefix, kind, allowed in _ARROWS:
            for key, value in self.each(prefix, kind):
                state = value.state
                before = self._states.get(key)
                reborn = prefix == "repos/" and (before, state) == ("closed", "open")
                assert before in (None, state) or (before, state) in allowed or reborn, (
                    f"{key}: {before} to {state}"
                )
                self._states[key] = state
                seen = self._revs.get(value.rev)
                assert seen in (None, key), f"{key} and {seen} have one rev"
                self._revs[value.rev] = key


_ARROWS: tuple[tuple[str, Any, set[tuple[str, str]]], ...] = (
    ("repos/", Record, {("open", "closed")}),
    (
        "blobs/",
        Pointer,
        {("live", "condemned"), ("condemned", "live"), ("condemned", "dead"), ("dead", "live")},
    ),
    (
        "uploads/",
        Session,
        {
            ("new", "open"),
            ("new", "void"),
            ("open", "sealed"),
            ("open", "void"),
            ("sealed", "done"),
            ("sealed", "cancelled"),
            ("cancelled", "void"),
        },
    ),
)


def _with_rev(value: Any, rev: str) -> Any:
    return msgspec.structs.replace(value, rev=rev)


def manifest_of(config: bytes, *layers: bytes, note: str = "", **more: Any) -> bytes:
    """Bytes of an image manifest over these blobs; ``note`` makes another one of the same blobs."""
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": "application/x", "digest": digest_of(config), "size": len(config)},
            "layers": [
                {"mediaType": "application/y", "digest": digest_of(layer), "size": len(layer)}
                for layer in layers
            ],
            "annotations": {"note": note},
            **more,
        }
    ).encode()
