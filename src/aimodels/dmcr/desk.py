"""Puts identity together for ``DMCR_AUTH=grants``: keys, the cluster's reviews, the door, the desk."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from aimodels.dmcr.door import GrantDoor
from aimodels.dmcr.grants import Grants, KeyFile
from aimodels.dmcr.tokens import Reviews, TokenDesk
from kubekit import client as kubernetes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aimodels.dmcr.settings import Settings
    from aimodels.dmcr.swaps import Swaps
    from aimodels.dmcr.transfers import Transfers


@contextlib.asynccontextmanager
async def grants_identity(
    chosen: Settings, swaps: Swaps, transfers: Transfers
) -> AsyncIterator[tuple[GrantDoor, TokenDesk]]:
    """Yield door and desk over the signing key and the cluster of the settings."""
    if chosen.signing_key_file is None:
        raise ValueError("grants need a signing key")
    grants = Grants(KeyFile(chosen.signing_key_file), swaps.clock)
    cluster = kubernetes.connect(chosen.kubernetes_kubeconfig)
    try:
        reviews = Reviews(cluster, swaps.clock)
        desk = TokenDesk(reviews, transfers, grants, catalogue_account=chosen.catalogue_account)
        yield GrantDoor(grants, transfers), desk
    finally:
        await cluster.close()
