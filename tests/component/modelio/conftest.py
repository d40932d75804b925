"""Fixtures of the registry client's component tests: a real DMCR behind a proxy that goes wrong."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from modelio.registry import Patience, RegistryClient
from opskit.retry import Backoff
from tests.kit.dmcr import Dmcr
from tests.kit.httpproxy import HttpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def dmcr(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Dmcr]:
    """Return an open registry, shared by all tests: each has a repository of its own."""
    folder = tmp_path_factory.mktemp("dmcr")
    async with Dmcr(f"file://{folder}/store", folder / "dmcr.log") as running:
        yield running


@pytest.fixture
def repo() -> str:
    """Return the name of a repository that no other test has."""
    return f"models/team/m{next(_numbers)}"


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(dmcr: Dmcr) -> AsyncIterator[HttpProxy]:
    """Return the way to the registry."""
    async with HttpProxy(dmcr.url) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def client(proxy: HttpProxy) -> AsyncIterator[RegistryClient]:
    """Return a client that tries again soon."""
    patience = Patience(retry=20, backoff=Backoff(first=0.001, most=0.01))
    async with RegistryClient(proxy.url, patience=patience) as made:
        yield made
