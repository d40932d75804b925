"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.cluster import devcluster, inference, platform, tenant
from tests.kit.entrance import entrance

if TYPE_CHECKING:
    from tests.kit.cluster import Platform

__all__ = ["devcluster", "entrance", "inference", "platform", "tenant"]

#: They leave the module removed, or with other settings: what follows has to install it again.
LAST = ("test_ingress.py", "test_demo.py", "test_object_store.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests last after which the module would have to be installed again."""
    items.sort(key=lambda item: LAST.index(item.path.name) + 1 if item.path.name in LAST else 0)


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest) -> None:
    """Have the module as the chart installs it, whatever an earlier test has left."""
    if "platform" in request.fixturenames and not request.node.get_closest_marker("installs"):
        made: Platform = request.getfixturevalue("platform")
        made.ensure()
