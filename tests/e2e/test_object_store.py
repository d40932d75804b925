"""The module on an S3 store that the chart's values name: what lies there, and whose fault a refusal is."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from devcluster import settings
from objectstore.s3 import S3Store
from tests.kit import seaweedfs
from tests.kit.journey import aictl_upload, order, phase, reader, until
from tests.kit.models import gguf_bytes
from tools.installation import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.kit.cluster import Platform
    from tests.kit.seaweedfs import Seaweed

pytestmark = [pytest.mark.root, pytest.mark.disruptive, pytest.mark.installs, pytest.mark.timeout(400)]

MIB = 1 << 20
BUCKET, CREDENTIALS = "ai-models", "ai-models-artifacts"


@pytest.fixture
async def bucket(platform: Platform, tmp_path: Path) -> AsyncIterator[Seaweed]:
    """Give the module a bucket behind a private authority."""
    target = platform.target
    if target.directory is None:
        pytest.skip("the store runs on this machine, which the Pods of another cluster may not reach")
    with seaweedfs.running(tmp_path, settings.require(target.directory).node_ip) as store:
        async with _contents(store) as made_by_its_owner:
            await made_by_its_owner.put("first", b"")
            await made_by_its_owner.delete("first")
        values = {"bucket": BUCKET, "endpoint": store.endpoint, "credentialsSecretName": CREDENTIALS}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        target.kubectl("apply", "-f", "-", stdin=json.dumps(namespace))
        _keys(platform, store, seaweedfs.SECRET)
        platform.ensure(*(f"artifacts.{name}={value}" for name, value in values.items()))
        yield store


async def test_a_model_in_a_bucket_and_a_bucket_that_refuses(
    platform: Platform, tenant: str, bucket: Seaweed, tmp_path: Path
) -> None:
    target, data, file = platform.target, gguf_bytes(size=20 * MIB), tmp_path / "kept.gguf"
    file.write_bytes(data)
    order(platform, tenant, "kept")
    registry = _registry(platform)

    _keys(platform, bucket, "not-the-secret-key")
    refused = until(
        lambda: _available(platform, tenant, "False"), 60, "the model tells that the store refuses"
    )
    assert refused["reason"] == "StorageUnavailable"
    assert target.get("-n", tenant, "model", "kept")["status"]["phase"] == "WaitForUpload"

    _keys(platform, bucket, seaweedfs.SECRET)
    until(lambda: _available(platform, tenant, "True"), 60, "the new keys are in use")
    upload = aictl_upload(platform, tenant, "kept", file)
    told, _ = upload.communicate(timeout=120)
    assert upload.returncode == 0, told
    phase(platform, tenant, "kept", "Ready")
    assert _registry(platform) == registry, "the registry was restarted"

    target.kubectl("apply", "-f", "-", stdin=json.dumps(reader(tenant, "kept")))
    target.kubectl("-n", tenant, "rollout", "status", "deployment/reader", "--timeout=120s")
    read = ("sha256sum", "/data/modelcache/models/kept/kept.gguf")
    printed = target.kubectl("-n", tenant, "exec", "deployment/reader", "--", *read)
    assert printed.split()[0] == hashlib.sha256(data).hexdigest()
    assert await _bytes_in(bucket) >= len(data)

    target.kubectl("-n", tenant, "delete", "deployment", "reader", "--wait")
    target.kubectl("-n", tenant, "delete", "model", "kept", "--timeout=60s")


def _keys(platform: Platform, store: Seaweed, secret: str) -> None:
    """Put keys into the Secret, and have the kubelet look at it now: it does for a Pod that has changed."""
    values = {"accessKey": seaweedfs.ACCESS, "secretKey": secret, "ca.crt": store.ca_file.read_text()}
    metadata = {"name": CREDENTIALS, "namespace": NAMESPACE}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}
    platform.target.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    changed = f"changed={time.monotonic()}"
    platform.target.kubectl("-n", NAMESPACE, "annotate", "pods", "-l", "app=dmcr", "--overwrite", changed)


def _available(platform: Platform, namespace: str, status: str) -> dict[str, str] | None:
    """Return the condition of the model that tells about the store, when it has that status."""
    found: dict[str, Any] = platform.target.get("-n", namespace, "model", "kept")
    conditions = found["status"]["conditions"]
    told = [one for one in conditions if one["type"] == "StorageAvailable" and one["status"] == status]
    return told[0] if told else None


def _registry(platform: Platform) -> dict[str, int]:
    """Return the registry's Pods, and how often each was started again."""
    pods = platform.target.get("-n", NAMESPACE, "pods", "-l", "app=dmcr")["items"]
    running = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return {pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in running}


async def _bytes_in(store: Seaweed) -> int:
    """Return how many bytes of data the bucket holds."""
    async with _contents(store) as bucket:
        return sum([(await bucket.head(key)).size async for key in bucket.list("data/")])


@asynccontextmanager
async def _contents(store: Seaweed) -> AsyncIterator[S3Store]:
    bucket = S3Store(BUCKET, "", store.settings())
    try:
        yield bucket
    finally:
        await bucket.close()
