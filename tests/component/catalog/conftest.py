from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from modelio.registry import Patience, RegistryClient
from tests.kit.catalog import Cluster, running_catalog
from tests.kit.dmcr import Dmcr

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def dmcr(tmp_path: Path) -> AsyncIterator[Dmcr]:
    async with Dmcr(f"file://{tmp_path}/store", tmp_path / "dmcr.log") as dmcr:
        yield dmcr


@pytest.fixture
async def registry(dmcr: Dmcr) -> AsyncIterator[RegistryClient]:
    async with RegistryClient(dmcr.url, patience=Patience(retry=0)) as registry:
        yield registry


@pytest.fixture
async def cluster(control_plane: Path, namespace: str, dmcr: Dmcr) -> AsyncIterator[Cluster]:
    async with running_catalog(control_plane, namespace, dmcr.url) as cluster:
        yield cluster
