"""Audit lines: who did what to which object, from where, with what result; never a token or a hash of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from opskit import logging

if TYPE_CHECKING:
    from starlette.types import Scope

_LOG = logging.logger("audit")


class Actor(msgspec.Struct, frozen=True):
    """Who asked, as a TokenReview told it; ``user`` is empty before it is known."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


def client_ip(scope: Scope) -> str:
    """Return the address of the peer of the connection."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def record(event: str, actor: Actor, scope: Scope, *, target: str, result: str, **fields: Any) -> None:
    """Write one audit line; ``result`` is ``allowed``, ``denied`` or a reason."""
    _LOG.info(
        event,
        audit=True,
        user=actor.user,
        uid=actor.uid,
        groups=list(actor.groups),
        client_ip=client_ip(scope),
        object=target,
        result=result,
        **fields,
    )
