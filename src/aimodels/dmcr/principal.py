"""Who asks, and the two seams through which identity and metering reach the registry.

What belongs here: the identity as the registry sees it, and the protocols that authentication and
metering fulfil. What does not: tokens, grants, transfers (``auth``, ``transfers``, ``metering``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

Action = Literal["pull", "push", "delete"]


class Access(msgspec.Struct, frozen=True):
    """Rights in one repository.

    ``life`` binds them to one life of the name, so that a grant of a deleted model never reaches the
    model that was created under the same name. ``digest`` narrows reading to one manifest and what it names.
    """

    repository: str
    actions: frozenset[Action]
    life: str | None = None
    digest: str | None = None


class Principal(msgspec.Struct, frozen=True):
    """An authenticated caller.

    ``catalogue`` may do everything in every repository. ``transfer`` and ``lineage`` say on whose account
    bytes are counted; ``purpose`` is the label of the counters.
    """

    name: str
    catalogue: bool = False
    transfer: str | None = None
    lineage: str | None = None
    purpose: str = "none"
    access: tuple[Access, ...] = ()

    def right(self, repository: str, action: Action) -> Access | None:
        """Return the right that allows the action in the repository, if there is one."""
        if self.catalogue:
            return Access(repository, frozenset({"pull", "push", "delete"}))
        for access in self.access:
            if access.repository == repository and action in access.actions:
                return access
        return None

    def may(self, repository: str, action: Action) -> bool:
        """Tell whether the action is allowed in the repository."""
        return self.right(repository, action) is not None


#: everyone, when the registry runs without authentication
EVERYONE = Principal(name="everyone", catalogue=True)


class Authenticator(Protocol):
    """Turns request headers into a principal."""

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """Return the caller; raise ``problems.Unauthorized`` (401 with WWW-Authenticate) otherwise.

        ``headers`` have lower-case names.
        """
        ...


class Meter(Protocol):
    """Counts bytes; called in the event loop for every message, so it never waits."""

    def received(self, principal: Principal, count: int) -> None:
        """``count`` bytes of an upload arrived."""
        ...

    def journaled(self, principal: Principal, session: str, offset: int) -> None:
        """The session's durable offset is now ``offset``; later sessions of a transfer start at 0 again."""
        ...

    def resumed(self, principal: Principal, session: str, offset: int) -> None:
        """A session that was begun before goes on from ``offset``: stored, though nothing moved now."""
        ...

    def delivered(self, principal: Principal, digest: str, start: int, end: int) -> None:
        """Bytes ``[start, end)`` of the blob were handed to the reader's connection."""
        ...


class OpenDoor:
    """The authenticator of ``DMCR_AUTH=none``: everyone is the catalogue."""

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """Return the same identity for every request."""
        del headers
        return EVERYONE
