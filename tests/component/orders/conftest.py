"""One controller for the tests of a file, gone before the next: it looks after every order there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.kit.controlplane import fresh_namespace
from tests.kit.ordersworld import World, installed, tenancy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from kubekit.client import Client
    from tests.kit.inferencecontroller import Controller


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def installation(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Client, Controller]]:
    with fresh_namespace(control_plane) as namespace:
        async with installed(control_plane, namespace, tmp_path_factory.mktemp("orders")) as made:
            yield made


@pytest_asyncio.fixture(loop_scope="session")
async def world(installation: tuple[Client, Controller], namespace: str) -> AsyncIterator[World]:
    async with tenancy(*installation, namespace) as made:
        yield made
