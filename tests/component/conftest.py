"""Fixtures of the component tests."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.kit import gatewayworld
from tests.kit.accounts import Accounts
from tests.kit.controlplane import control_plane, fresh_namespace, namespace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

__all__ = ["control_plane", "namespace"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway_world(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[gatewayworld.World]:
    """Return a running upload gateway before a running registry, shared by all tests."""
    folder = tmp_path_factory.mktemp("gateway")
    with fresh_namespace(control_plane) as name, closing(Accounts(control_plane, name)) as accounts:
        async with gatewayworld.running(control_plane, accounts, folder) as made:
            yield made
