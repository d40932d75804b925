"""An actor of orders before an API server that keeps only what tests look at."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from aiinference.orders.act import Actor
from aiinference.orders.decide import intent, upkeep
from aiinference.workload.intent import Settings
from kubekit.errors import NotFound
from kubekit.resources.meta import ObjectMeta
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from aiinference.orders.state import Halt, Observation
    from kubekit.client import Client

UID = "u1"


class Server:
    """Keeps nothing but owners of objects by path, and notes what is written."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        #: kind and name of an owner that is no plain one
        self.kinds: dict[str, tuple[str, str]] = {}
        self.written: list[tuple[str, str]] = []
        self.error: Exception | None = None
        #: what a kind meets that is applied; with a verb before it, what that meets
        self.errors: dict[str, Exception] = {}
        #: kinds of Prometheus's operator
        self.monitors: list[str] = []
        #: annotations and template of the StatefulSet
        self.noted: dict[str, str] = {}
        self.template: dict[str, Any] = {}
        #: its number of replicas, by every write; a write with another number raises its generation
        self.replicas: list[int] = []
        #: its head, by every write
        self.heads: list[dict[str, Any]] = []
        self.generation = 1

    async def request(self, _method: str, path: str) -> bytes:
        if path == "/apis/monitoring.coreos.com/v1" and self.monitors:
            return msgspec.json.encode({"resources": [{"name": one} for one in self.monitors]})
        if "podmonitors" in path and "GET" in self.errors:
            raise self.errors["GET"]
        if path not in self.owners:
            raise NotFound(404, "NotFound", "none")
        kind, name = self.kinds.get(path, ("k", "o"))
        owner = {"uid": self.owners[path], "name": name, "kind": kind, "apiVersion": "v1"}
        metadata = {"name": path.rpartition("/")[2], "uid": "x", "ownerReferences": [owner]}
        return msgspec.json.encode({"metadata": metadata})

    async def find(self, kind: Any, *_: Any) -> None:
        """Have no certificate for anybody."""
        self._meet(f"find {kind.KIND.name}")

    def _meet(self, what: str) -> None:
        if what in self.errors:
            raise self.errors[what]

    async def patch(self, kind: Any, name: str, body: dict[str, Any], **__: Any) -> dict[str, Any]:
        name_of_kind = getattr(kind, "KIND", kind).name
        error = self.errors.get(name_of_kind, self.error)
        if error is not None:
            raise error
        self.written.append((name_of_kind, name))
        if name_of_kind == "StatefulSet":
            wanted = body["spec"]["replicas"]
            self.generation += bool(self.replicas) and self.replicas[-1] != wanted
            self.replicas.append(wanted)
            self.heads.append(body.get("metadata", {}))
        if name_of_kind == "StatefulSet" and "template" in body["spec"]:
            self.noted = body["metadata"]["annotations"]
            self.template = body["spec"]["template"]
        return {"metadata": {"generation": self.generation, "name": name}}

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        self._meet(f"create {manifest['kind']}")
        self.written.append((manifest["kind"], manifest["metadata"]["name"]))
        return manifest

    async def delete(self, kind: Any, name: str, *_: Any, **__: Any) -> bool:
        self._meet(f"delete {kind.name}")
        self.written.append((f"delete {kind.name}", name))
        return True


class World:
    """One order's actor."""

    def __init__(self, **settings: Any) -> None:
        self.server, self.clock = Server(), ManualClock()
        self.actor = Actor(cast("Client", self.server), Settings(gate_image="gate", **settings), self.clock)

    async def act(self, o: Observation) -> Halt | float | None:
        metadata = ObjectMeta(name="support-llm", namespace="support", uid=UID)
        record = self.actor.record(metadata)
        known = o.records | ({record} if record else set())
        o = replace(o, order=msgspec.structs.replace(o.order, metadata=metadata), records=known)
        wanted = intent(o) or upkeep(o)
        assert wanted is not None
        return await self.actor.act(wanted, o)
