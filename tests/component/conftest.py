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

#: Files that wait or kill much: begun first, so that no process is left with one of them at the end.
LONG = (
    "orders/test_orders_kills.py",
    "delivery/test_handover.py",
    "catalog/test_trouble.py",
    "orders/test_orders_outages.py",
    "orders/test_orders_reasons.py",
    "catalog/test_upload_to_ready.py",
    "aictl/test_path.py",
    "orders/test_orders_process.py",
    "delivery/test_held_copies.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the long files first."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get("/".join(item.path.parts[-2:]), len(LONG)))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway_world(
    control_plane: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[gatewayworld.World]:
    """Return a running upload gateway before a running registry, shared by all tests."""
    folder = tmp_path_factory.mktemp("gateway")
    with fresh_namespace(control_plane) as name, closing(Accounts(control_plane, name)) as accounts:
        async with gatewayworld.running(control_plane, accounts, folder) as made:
            yield made
