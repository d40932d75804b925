"""Which host an External order has; once given it stays, unless nothing leads there any more.

What belongs here: choosing, and remembering what was given until statuses say it. What does not: writing it.

Statuses say who has which host, but they are written later than a host is chosen and seen later still. So a
host that was chosen is remembered here at once; only the leader chooses.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

from aiinference.api.reasons import ExposureType
from opskit import logging

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aiinference.api.orders import InferenceService
    from aiinference.classes.policy import EffectivePolicy

_log = logging.logger(__name__)

#: of one label of a host's name
_LABEL = 63
_DIGEST = 12


def domain(order: InferenceService) -> str | None:
    """Return the host that an order has been given."""
    endpoint = order.status.endpoint if order.status else None
    return endpoint.domain if endpoint else None


class Hosts:
    """The hosts of all orders."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._form = re.compile(re.escape(template).replace("%s", "[a-z0-9]([-a-z0-9]*[a-z0-9])?"))
        #: host -> uid of the order that it was given to
        self._given: dict[str, str] = {}
        #: uid of an order -> the host that an older one has taken from it
        self._lost: dict[str, str] = {}

    def foreign(self, order: InferenceService) -> str | None:
        """Return the order's host if it is not of today's domain: no Ingress is given that anew."""
        had = domain(order)
        return had if had and self._template and not self._form.fullmatch(had) else None

    def host(
        self,
        order: InferenceService,
        policy: EffectivePolicy,
        orders: Iterable[InferenceService],
        *,
        unusable: bool = False,
    ) -> str | None:
        """Return the order's host: the one it has, else its own name, else one with its namespace too.

        One that is ``unusable`` is not kept.
        """
        mine = order.metadata.uid
        others = {one.metadata.uid: one for one in orders if one.metadata.uid != mine}
        self._given = {host: uid for host, uid in self._given.items() if uid in others or uid == mine}
        self._lost = {uid: host for uid, host in self._lost.items() if uid in others or uid == mine}
        if policy.exposure.type != ExposureType.EXTERNAL or not self._template:
            self._release(mine)
            return None
        given = domain(order)
        if unusable:
            self._given = {one: uid for one, uid in self._given.items() if (one, uid) != (given, mine)}
            given = None
        found = self._present(order, others, given) or next(
            host for host in _candidates(order, self._template) if not self._taken(host, order, others)
        )
        self._release(mine)
        self._given[found] = mine
        return found

    def instead(
        self, order: InferenceService, host: str | None, orders: Iterable[InferenceService]
    ) -> str | None:
        """Return the host that an order would have if no other order had it; None when it has that."""
        mine = order.metadata.uid
        wanted = self._lost.get(mine) or (_plain(order, self._template) if host else None)
        if wanted is None or wanted == host:
            return None
        return wanted if any(self._has(one, wanted) for one in orders if one.metadata.uid != mine) else None

    def _release(self, uid: str) -> None:
        self._given = {host: holder for host, holder in self._given.items() if holder != uid}

    def _present(
        self, order: InferenceService, others: dict[str, InferenceService], given: str | None
    ) -> str | None:
        """Return the host that the order has already, unless an older order has it too."""
        if given is None:
            mine = order.metadata.uid
            return next((host for host, uid in self._given.items() if uid == mine), None)
        older = next(
            (one for one in others.values() if self._has(one, given) and _comes_first(one, order)), None
        )
        if older is None:
            return given
        self._lost[order.metadata.uid] = given
        _log.warning(
            "host is taken from an order, as an older one has it too",
            host=given,
            order="/".join(order.metadata.key),
            older="/".join(older.metadata.key),
        )
        return None

    def _taken(self, host: str, order: InferenceService, others: dict[str, InferenceService]) -> bool:
        """Tell whether a host is somebody's, or will be that of an older order that has none yet."""
        return any(
            self._has(one, host)
            or (_waits(one) and _comes_first(one, order) and host == _plain(one, self._template))
            for one in others.values()
        )

    def _has(self, order: InferenceService, host: str) -> bool:
        return domain(order) == host or self._given.get(host) == order.metadata.uid


def _waits(order: InferenceService) -> bool:
    """Tell whether an order may still be given its first host."""
    endpoint = order.status.endpoint if order.status else None
    return endpoint is None or (endpoint.domain is None and endpoint.type == ExposureType.EXTERNAL)


def _comes_first(one: InferenceService, another: InferenceService) -> bool:
    """Tell which of two orders is the older; of equal age, one of them always."""
    first, second = one.metadata, another.metadata
    if first.creation_timestamp is None or second.creation_timestamp is None:
        return first.uid < second.uid
    return (first.creation_timestamp, first.uid) < (second.creation_timestamp, second.uid)


def _candidates(order: InferenceService, template: str) -> Iterator[str]:
    """Yield hosts by preference; the last ones hold a digest of what only this order is."""
    name, namespace = order.metadata.name, order.metadata.namespace
    yield _plain(order, template)
    yield _fitting(template, f"{name}--{namespace}")
    number = 0
    while True:
        yield _fitting(template, f"{name}-{_digest(f'{order.metadata.uid}/{number}')}")
        number += 1


def _plain(order: InferenceService, template: str) -> str:
    return _fitting(template, order.metadata.name)


def _fitting(template: str, words: str) -> str:
    """Return the host with these words; words that a label has no room for end with their digest."""
    around = next(label for label in template.split(".") if "%s" in label)
    room = _LABEL - len(around.replace("%s", ""))
    if len(words) > room:
        words = f"{words[: room - _DIGEST - 1].rstrip('-.')}-{_digest(words)}"
    return template % words


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_DIGEST]
