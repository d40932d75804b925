"""One registry for a file's tests: each test's models have repositories of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from modelio.registry import Patience, RegistryClient
from tests.kit.catalog import Cluster, running_catalog
from tests.kit.dmcr import Dmcr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_dmcr(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Dmcr]:
    folder = tmp_path_factory.mktemp("dmcr")
    async with Dmcr(f"file://{folder}/store", folder / "dmcr.log") as dmcr:
        yield dmcr


@pytest_asyncio.fixture(loop_scope="module")
async def dmcr(running_dmcr: Dmcr) -> AsyncIterator[Dmcr]:
    """Return the registry; a test that kills it need not start it again."""
    yield running_dmcr
    if running_dmcr.process is None:
        await running_dmcr.start()


@pytest_asyncio.fixture(loop_scope="module")
async def registry(dmcr: Dmcr) -> AsyncIterator[RegistryClient]:
    async with RegistryClient(dmcr.url, patience=Patience(retry=0)) as registry:
        yield registry


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(control_plane: Path, namespace: str, dmcr: Dmcr) -> AsyncIterator[Cluster]:
    async with running_catalog(control_plane, namespace, dmcr.url) as cluster:
        yield cluster
