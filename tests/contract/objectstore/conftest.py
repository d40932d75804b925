"""Every engine of the object store, by one fixture."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from objectstore.filesystem import FileSystemStore
from objectstore.memory import MemoryStore
from objectstore.s3 import S3Store
from tests.kit.seaweedfs import Seaweed, seaweedfs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from objectstore.port import ObjectStore

__all__ = ["seaweedfs"]

ENGINES = ("memory", "filesystem", "s3")


@pytest.fixture(scope="session")
def bucket(seaweedfs: Seaweed) -> S3Store:
    """Return one S3 engine for all tests, since making its client takes long; each test has a prefix."""
    return S3Store("contract", "none", seaweedfs.settings())


@pytest.fixture(params=ENGINES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    """Return an empty store of each engine in turn."""
    if request.param == "memory":
        opened: ObjectStore = MemoryStore()
    elif request.param == "filesystem":
        opened = FileSystemStore(tmp_path / "store")
    else:
        shared: S3Store = request.getfixturevalue("bucket")
        shared._prefix = uuid.uuid4().hex + "/"
        yield shared
        return
    yield opened
    await opened.close()
