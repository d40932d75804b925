"""The registry as one object: what the routes and the catalogue's API share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from aimodels.dmcr.blobs import Blobs
from aimodels.dmcr.buffers import Buffers, default_budget
from aimodels.dmcr.commit import Committer
from aimodels.dmcr.flight import Engine
from aimodels.dmcr.manifests import Manifests
from aimodels.dmcr.problems import Denied, NotFound
from aimodels.dmcr.repositories import Repositories
from aimodels.dmcr.sessions import Sessions

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from aimodels.dmcr.layout import Record
    from aimodels.dmcr.principal import Access, Action, Meter
    from aimodels.dmcr.swaps import Swaps
    from aimodels.dmcr.wire import Request

_HASH_THREADS = 4


class Registry:
    """Everything over one store; one per process."""

    def __init__(
        self,
        swaps: Swaps,
        meter: Meter,
        *,
        owner: str,
        buffer_bytes: int = 0,
        idle_seconds: float = 60.0,
        uniform_parts: bool = False,
        threads: Executor | None = None,
    ) -> None:
        """``buffer_bytes`` is the memory for bytes on their way in; 0 takes a share of the limit."""
        self.swaps = swaps
        self.store = swaps.store
        self.meter = meter
        self.idle_seconds = idle_seconds
        self.uniform_parts = uniform_parts
        self.repositories = Repositories(swaps, owner)
        self.blobs = Blobs(swaps)
        self.sessions = Sessions(swaps, self.blobs)
        self.manifests = Manifests(swaps, self.repositories, self.blobs)
        self.engine = Engine(
            store=swaps.store,
            sessions=self.sessions,
            buffers=Buffers(buffer_bytes or default_budget()),
            clock=swaps.clock,
            threads=threads or ThreadPoolExecutor(_HASH_THREADS, thread_name_prefix="hash"),
        )
        self.committer = Committer(self.engine, self.blobs)

    def close(self) -> None:
        """Release the threads."""
        self.engine.threads.shutdown(wait=False)

    async def readable(self, request: Request, name: str) -> tuple[Record, Access]:
        """Return the open record for a caller that may pull; refusals do not tell what exists."""
        access = self.right(request, name, "pull")
        return await self._in_life(name, access), access

    async def pushable(self, request: Request, name: str) -> Record:
        """Return the open record for a caller that may push into it."""
        return await self._in_life(name, self.right(request, name, "push"))

    async def deletable(self, request: Request, name: str) -> Record:
        """Return the open record for a caller that may delete in it."""
        return await self._in_life(name, self.right(request, name, "delete"))

    async def created(self, request: Request, name: str) -> Record:
        """Return the open record, made when the name is new; only the catalogue re-opens a closed one."""
        access = self.right(request, name, "push")
        if request.principal.catalogue:
            return await self.repositories.open(name)
        if access.life is not None:
            return await self._in_life(name, access)
        return await self.repositories.create(name)

    def right(self, request: Request, name: str, action: Action) -> Access:
        """Return the caller's right, or refuse."""
        access = request.principal.right(name, action)
        if access is None:
            raise Denied(f"this identity may not {action} in {name}")
        return access

    async def _in_life(self, name: str, access: Access) -> Record:
        record = await self.repositories.find(name)
        if access.life not in (None, record.life):
            raise NotFound(f"repository {name} was deleted meanwhile", code="NAME_UNKNOWN")
        return record
