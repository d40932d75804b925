"""A world for each test of delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kubekit.client import connect
from tests.kit.controlplane import fresh_namespace
from tests.kit.delivery import World, admitting, world
from tests.kit.modelsapi import install_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def bare(control_plane: Path, namespace: str) -> AsyncIterator[World]:
    """Give a world of two namespaces, its storage and kubelet at work, but no webhook."""
    async with connect(control_plane) as client:
        await install_definitions(client)
    with fresh_namespace(control_plane) as module_namespace:
        async with world(control_plane, module_namespace, namespace) as made:
            yield made


@pytest.fixture
async def made(bare: World, tmp_path: Path) -> AsyncIterator[World]:
    """Give a world with its webhook."""
    async with admitting(bare, tmp_path):
        yield bare
