"""A registry for the tests of a module: each stores bytes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.kit.dmcr import Dmcr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dmcr(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Dmcr]:
    folder = tmp_path_factory.mktemp("dmcr")
    async with Dmcr(f"file://{folder}/store", folder / "dmcr.log") as running:
        yield running
