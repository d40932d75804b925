"""The door of ``DMCR_AUTH=grants``: a grant in the request becomes a principal, if its transfer still stands.

What belongs here: authenticating requests. What does not: issuing grants (``tokens``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.dmcr.grants import Claims, GrantRefused, Grants
from aimodels.dmcr.principal import Access, Principal
from aimodels.dmcr.problems import Unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aimodels.dmcr.transfers import Transfers

_SCHEME = "bearer "


class GrantDoor:
    """The authenticator: signature and times by the grant itself, revocation by its transfer's record."""

    def __init__(self, grants: Grants, transfers: Transfers) -> None:
        self._grants = grants
        self._transfers = transfers

    async def authenticate(self, headers: Mapping[str, str]) -> Principal:
        """Return the caller; 401 without a valid grant, 403 when its transfer has ended.

        It is asked at the start of a request only: a running one is never cut by an expiry.
        """
        try:
            claims = self._grants.verify(bearer(headers))
        except GrantRefused as error:
            raise Unauthorized(str(error)) from error
        if claims.transfer is None:
            purpose = "catalogue" if claims.catalogue else "none"
            return Principal(name=claims.sub, catalogue=claims.catalogue, purpose=purpose)
        record = await self._transfers.active(claims.transfer)
        return Principal(
            name=claims.sub,
            transfer=claims.transfer,
            lineage=claims.transfer,
            purpose=record.spec.purpose,
            access=_access(claims),
        )


def bearer(headers: Mapping[str, str]) -> str:
    """Return the credential of a Bearer header; 401 when there is none."""
    value = headers.get("authorization", "")
    if not value.lower().startswith(_SCHEME):
        raise Unauthorized("a grant is needed: exchange the projected token at /token")
    return value[len(_SCHEME) :].strip()


def _access(claims: Claims) -> tuple[Access, ...]:
    return tuple(
        Access(each.repository, frozenset(each.actions), life=each.life, digest=each.digest)
        for each in claims.access
    )
