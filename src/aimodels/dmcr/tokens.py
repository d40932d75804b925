"""``POST /token``: a projected token of the cluster is exchanged for a grant.

What belongs here: who gets a grant. What does not: what grants look like (``grants``).

The API server is asked here only, never on the data path; what cannot be a token for us (form, audience,
expiry by its own words) does not reach it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jwt

from aimodels.dmcr.grants import LIFE_SECONDS, GrantedAccess, Grants, expiry
from aimodels.dmcr.problems import Denied, TryAgain, Unauthorized
from kubekit.errors import KubeError
from kubekit.reviews import POD_NAME
from kubekit.tokens import MOST_TOKEN_BYTES, Overloaded, TokenReviews
from modelio.wire import AUDIENCE, TokenAnswer
from opskit.logging import logger

if TYPE_CHECKING:
    from aimodels.dmcr.transfers import Transfer, Transfers
    from kubekit.client import Client
    from kubekit.reviews import Identity
    from opskit.clock import Clock

_UNVERIFIED: Any = {"verify_signature": False}

_log = logger(__name__)


class Reviews:
    """Whom a token of the cluster belongs to; every refusal as the registry tells it."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._reviews = TokenReviews(client, [AUDIENCE], clock=clock)
        self._clock = clock

    async def identify(self, token: str) -> Identity:
        """Return whom the token belongs to, or refuse with 401; 503 when the API server does not answer."""
        self._refuse_obvious(token)
        try:
            identity = await self._reviews.identify(token)
        except Overloaded as error:
            raise TryAgain("too many tokens are being reviewed") from error
        except KubeError as error:
            raise TryAgain(f"the API server cannot review tokens now: {type(error).__name__}") from error
        if identity is None:
            raise Unauthorized("the cluster does not accept this token for the audience dmcr: get a new one")
        return identity

    def _refuse_obvious(self, token: str) -> None:
        if not token or len(token) > MOST_TOKEN_BYTES:
            raise Unauthorized("no token of the cluster came with the request: send it as Bearer")
        try:
            said = jwt.decode(token, options=_UNVERIFIED)
            audience, expires = said.get("aud"), float(said.get("exp", 0))
        except (jwt.PyJWTError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise Unauthorized("this is not a token of the cluster") from error
        if AUDIENCE not in (audience if isinstance(audience, list) else [audience]):
            raise Unauthorized("the token is not for the audience dmcr: project it with that audience")
        if expires <= self._clock.now().timestamp():
            raise Unauthorized("the token has expired: the kubelet replaces the file, read it again")


class TokenDesk:
    """Exchanges tokens for grants."""

    def __init__(
        self,
        reviews: Reviews,
        transfers: Transfers,
        grants: Grants,
        *,
        catalogue_account: str,
    ) -> None:
        self._reviews = reviews
        self._transfers = transfers
        self._grants = grants
        self._catalogue = username(catalogue_account)

    async def exchange(self, token: str, transfer: str | None) -> TokenAnswer:
        """Return a grant for the transfer, or for the catalogue itself when none is named."""
        identity = await self._reviews.identify(token)
        if transfer is None:
            return self._as_catalogue(identity)
        record = await self._transfers.known(transfer)
        self._check(identity, record)
        await self._transfers.refuse_over(record, told=True)
        access = GrantedAccess(
            repository=record.spec.repository,
            actions=record.spec.actions,
            life=record.life,
            digest=record.spec.digest,
        )
        grant, claims = self._grants.issue(_subject(identity), transfer=transfer, access=(access,))
        _log.info("grant issued", subject=claims.sub, transfer=transfer, jti=claims.jti)
        return TokenAnswer(
            token=grant, expires_at=expiry(claims), expires_in=LIFE_SECONDS, transfer=record.spec
        )

    def _as_catalogue(self, identity: Identity) -> TokenAnswer:
        if identity.username != self._catalogue:
            raise _refused(
                identity, None, "only the catalogue's ServiceAccount gets a grant without a transfer"
            )
        grant, claims = self._grants.issue(_subject(identity), catalogue=True)
        _log.info("grant issued", subject=claims.sub, catalogue=True, jti=claims.jti)
        return TokenAnswer(token=grant, expires_at=expiry(claims), expires_in=LIFE_SECONDS)

    def _check(self, identity: Identity, record: Transfer) -> None:
        spec = record.spec
        if identity.username != username(spec.service_account):
            raise _refused(identity, record.id, "the transfer belongs to another ServiceAccount")
        pod = identity.first(POD_NAME)
        if spec.pod_prefix and pod is None:
            raise _refused(identity, record.id, "the token is not bound to a Pod: use a projected one")
        if spec.pod_prefix and pod != spec.pod_prefix and not str(pod).startswith(spec.pod_prefix + "-"):
            raise _refused(identity, record.id, "the transfer belongs to another Pod")


def username(service_account: str) -> str:
    """Return the API server's name for ``namespace/name``."""
    return "system:serviceaccount:" + service_account.replace("/", ":", 1)


def _subject(identity: Identity) -> str:
    pod = identity.first(POD_NAME)
    return f"{identity.username}/{pod}" if pod else identity.username


def _refused(identity: Identity, transfer: str | None, why: str) -> Denied:
    _log.warning("grant refused", subject=_subject(identity), transfer=transfer, reason=why)
    return Denied(f"{why}; you are {_subject(identity)}")
