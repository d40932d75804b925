"""A model can be deleted in every phase, and then nothing of it is left."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.journey import Counters, address, aictl_upload, curl, gone, order, phase, until
from tests.kit.models import checkpoint, gguf_bytes, tar
from tools.installation import NAMESPACE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

MIB = 1 << 20
NAME = "short-lived"
SECRET, ROLE = f"ai-model-upload-{NAME}", f"ai-model-upload-reader-{NAME}"


def test_deleted_while_it_waits_for_its_upload(platform: Platform, tenant: str) -> None:
    order(platform, tenant, NAME)
    _delete(platform, tenant)


def test_deleted_while_it_is_uploaded(platform: Platform, tenant: str, tmp_path: Path) -> None:
    order(platform, tenant, NAME)
    url, token, authority = address(platform, tenant, NAME, tmp_path)
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf_bytes(size=64 * MIB))
    slowly = ("--limit-rate", "4M", "-w", "%{http_code}", "-T", str(file))
    bearer = f"Authorization: Bearer {token}"
    upload = subprocess.Popen(
        ["curl", "-sS", "--cacert", str(authority), "-H", bearer, *slowly, url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: _arrived(platform, tenant), 60, "the first bytes")
        _delete(platform, tenant)
        told, _ = upload.communicate(timeout=60)
    finally:
        upload.kill()
    assert told[-3:] != "201"
    late = curl(
        "-I", "-H", bearer, "-o", "/dev/null", "-w", "%{http_code}", url, authority=authority, check=False
    )
    assert late.stdout == "410"


@pytest.mark.disruptive
def test_deleted_while_it_is_published(platform: Platform, tenant: str, tmp_path: Path) -> None:
    order(platform, tenant, NAME)
    counters, file = Counters(platform), tmp_path / "bundle.tar"
    file.write_bytes(tar(checkpoint(shards=3, size=100 * MIB)))
    before = counters.received("publication") or 0
    upload = aictl_upload(platform, tenant, NAME, file)
    try:
        until(lambda: (counters.received("publication") or 0) > before, 90, "the publication's first bytes")
        _delete(platform, tenant)
        upload.communicate(timeout=60)
    finally:
        upload.kill()
    assert upload.returncode == 3


def test_deleted_when_ready_and_its_name_used_again(platform: Platform, tenant: str, tmp_path: Path) -> None:
    digests = set()
    for mark in (1, 2):
        order(platform, tenant, NAME)
        url, token, authority = address(platform, tenant, NAME, tmp_path)
        file = tmp_path / "model.gguf"
        file.write_bytes(gguf_bytes(size=mark * MIB))
        curl("-f", "-H", f"Authorization: Bearer {token}", "-T", str(file), url, authority=authority)
        digests.add(phase(platform, tenant, NAME, "Ready")["status"]["artifact"]["digest"])
        _delete(platform, tenant)
    assert len(digests) == 2


def _delete(platform: Platform, namespace: str) -> None:
    """Delete the model, and see its Secret, Role and Jobs go too."""
    uid = platform.target.get("-n", namespace, "model", NAME)["metadata"]["uid"]
    platform.target.kubectl("-n", namespace, "delete", "model", NAME, "--timeout=30s")
    until(lambda: not _left(platform, namespace, uid), 30, "everything of the model gone")


def _arrived(platform: Platform, namespace: str) -> int:
    """Return how many bytes of the upload the model tells of."""
    status = platform.target.get("-n", namespace, "model", NAME)["status"]
    return int(status.get("transfer", {}).get("bytes", 0))


def _left(platform: Platform, namespace: str, uid: str) -> list[str]:
    left = [
        what for what in (f"secret/{SECRET}", f"role/{ROLE}") if not gone(platform, "-n", namespace, what)
    ]
    jobs = platform.target.kubectl("-n", NAMESPACE, "get", "jobs", "-o", "name").split()
    return left + [job for job in jobs if uid in job]
