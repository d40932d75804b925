"""Fixtures of the gateway's component tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kit.gatewayworld import World


@pytest.fixture
def world(gateway_world: World) -> World:
    """Return a running gateway before a running registry."""
    return gateway_world
