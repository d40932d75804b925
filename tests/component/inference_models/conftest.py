"""One installation of the catalogue's api, and the inference controller's way to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from kubekit.client import connect
from tests.kit import lookupworld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from kubekit.client import Client


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[lookupworld.World]:
    async with lookupworld.running(control_plane, tmp_path_factory.mktemp("catalogue")) as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def controller(world: lookupworld.World) -> AsyncIterator[Client]:
    """Return a client with the inference controller's rights."""
    async with connect(world.controller_kubeconfig) as client:
        yield client
