"""One installation for all tests of the lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.kit import lookupworld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[lookupworld.World]:
    async with lookupworld.running(control_plane, tmp_path_factory.mktemp("lookup")) as made:
        yield made
