"""Who asks, whether he may, and then what is known: in this order, so that a refusal tells nothing.

What belongs here: the sequence of one lookup and its bounds. What does not: HTTP (``routes``), the words of
the answer (``answers``).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from aimodels.lookup import refusals
from aimodels.lookup.answers import NotReady, answer
from kubekit.errors import KubeError, Unreadable
from kubekit.reviews import Attributes, review_access
from kubekit.tokens import Overloaded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from aimodels.api.model import AnyModel
    from aimodels.lookup.answers import LookupAnswer
    from aimodels.lookup.reference import Reference
    from kubekit.client import Client
    from kubekit.reviews import Identity
    from kubekit.store import Store
    from kubekit.tokens import TokenReviews

#: shorter than the patience of those who ask, so that they get a reason
SECONDS = 8.0
#: of those who asked before, and again of those whose token is still to be reviewed
AT_ONCE = 64


class _Places:
    """So many at once; whoever comes when all are taken is told to come again."""

    def __init__(self) -> None:
        self._taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a place."""
        if self._taken >= AT_ONCE:
            raise refusals.busy()
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class Desk:
    """Answers lookups from the stores of this process."""

    def __init__(
        self,
        client: Client,
        reviews: TokenReviews,
        stores: Mapping[type[AnyModel], Store[AnyModel]],
        unready: Callable[[], str | None],
    ) -> None:
        self._client = client
        self._reviews = reviews
        self._stores = stores
        self._unready = unready
        self._known = _Places()
        self._strangers = _Places()

    @asynccontextmanager
    async def visit(self) -> AsyncIterator[None]:
        """Bound what is done inside in time; an API server that does not answer is a refusal."""
        try:
            async with asyncio.timeout(SECONDS):
                yield
        except (KubeError, TimeoutError) as error:
            raise refusals.api_server_unavailable(error) from error
        except Overloaded as error:
            raise refusals.busy() from error

    async def identify(self, token: str) -> Identity:
        """Return who asks, or refuse. Whose token is known waits behind nobody whose token may be none."""
        if not token:
            raise refusals.unauthorized("no token came with the request")
        with (self._known if self._reviews.knows(token) else self._strangers).one():
            identity = await self._reviews.identify(token)
        if identity is None:
            raise refusals.unauthorized(
                f"the cluster does not accept the token for the audience {refusals.AUDIENCE}"
            )
        return identity

    async def answer(self, who: Identity, reference: Reference) -> LookupAnswer:
        """Return what is known of the model, or refuse."""
        with self._known.one():
            await self._require_access(who, reference)
        return self._told(reference)

    async def _require_access(self, who: Identity, reference: Reference) -> None:
        kind = reference.struct.KIND
        wanted = Attributes(
            verb="get",
            group=kind.group,
            resource=kind.plural,
            namespace=reference.namespace,
            name=reference.name,
        )
        verdict = await review_access(self._client, who, wanted)
        if not verdict.allowed:
            raise refusals.forbidden(who.username, str(reference))

    def _told(self, reference: Reference) -> LookupAnswer:
        unready = self._unready()
        if unready is not None:
            raise refusals.starting(unready)
        try:
            model = self._stores[reference.struct].get(reference.namespace, reference.name)
        except Unreadable as error:
            raise refusals.unreadable(str(reference)) from error
        if model is None:
            raise refusals.not_found(str(reference))
        try:
            return answer(model)
        except NotReady as why:
            raise refusals.not_ready(str(reference), why) from why
