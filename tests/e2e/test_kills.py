"""Every process is killed once in the middle of its work: the same digest, no Failed, little sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit import journey
from tests.kit.journey import Counters, aictl_upload, order, phase, until
from tests.kit.models import checkpoint, tar

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.timeout(400)]

MIB = 1 << 20
SHARDS, SHARD = 4, 100 * MIB
#: Files under 1 GiB: parts of 8 MiB, at most two in flight, and what a socket and its reader hold.
NOT_JOURNALED = 4 * 16 * MIB


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive of about 400 MiB: long enough to be interrupted."""
    file = tmp_path_factory.mktemp("kills") / "bundle.tar"
    file.write_bytes(tar(checkpoint(shards=SHARDS, size=SHARD)))
    return file


@pytest.fixture(scope="module")
def undisturbed(platform: Platform, bundle: Path) -> str:
    """Return the digest that a publication of the archive gives when nothing happens to it."""
    namespace = "default"
    order(platform, namespace, "undisturbed")
    try:
        _ends_well(aictl_upload(platform, namespace, "undisturbed", bundle))
        return str(phase(platform, namespace, "undisturbed", "Ready")["status"]["artifact"]["digest"])
    finally:
        platform.target.kubectl("-n", namespace, "delete", "model", "undisturbed", "--timeout=30s")


@pytest.mark.parametrize("victim", ["aimodels.upload", "aimodels.dmcr"])
def test_killed_in_the_middle_of_an_upload(
    platform: Platform, tenant: str, bundle: Path, undisturbed: str, victim: str
) -> None:
    counters = Counters(platform)
    order(platform, tenant, "killed")
    before = counters.received("upload") or 0
    upload = aictl_upload(platform, tenant, "killed", bundle)
    moved = until(lambda: _moved(counters, "upload", before + 40 * MIB), 60, "40 MiB of the upload")
    journey.kill("-m", victim)
    assert upload.poll() is None, "the upload was over before the kill"
    _ends_well(upload)
    after = until(lambda: counters.received("upload"), 60, "DMCR's counters")
    # A killed DMCR counts from zero; what it had counted when it was last asked is a lower bound.
    sent = after - before if victim == "aimodels.upload" else moved - before + after
    assert bundle.stat().st_size - NOT_JOURNALED < sent <= bundle.stat().st_size + NOT_JOURNALED
    _is_ready(platform, tenant, undisturbed)


@pytest.mark.parametrize("victim", ["aimodels.publication", "aimodels.dmcr", "aimodels.processes.controller"])
def test_killed_in_the_middle_of_a_publication(
    platform: Platform, tenant: str, bundle: Path, undisturbed: str, victim: str
) -> None:
    counters = Counters(platform)
    order(platform, tenant, "killed")
    upload = aictl_upload(platform, tenant, "killed", bundle)
    before = until(lambda: _uploaded(platform, tenant, counters), 60, "the upload's end")
    moved = until(lambda: _moved(counters, "publication", before[0] + 20 * MIB), 60, "20 MiB of publication")
    journey.kill("-m", victim)
    assert moved - before[0] < SHARDS * SHARD, "the publication was over before the kill"
    _ends_well(upload)
    after = until(lambda: counters.received("publication"), 60, "DMCR's counters")
    sent = moved - before[0] + after if victim == "aimodels.dmcr" else after - before[0]
    assert sent <= SHARDS * SHARD + NOT_JOURNALED
    _is_ready(platform, tenant, undisturbed)


def _moved(counters: Counters, purpose: str, least: int) -> int | None:
    received = counters.received(purpose)
    return received if received is not None and received >= least else None


def _uploaded(platform: Platform, namespace: str, counters: Counters) -> tuple[int] | None:
    """Return what publications had received so far, once the model's own is the next one."""
    status = platform.target.get("-n", namespace, "model", "killed")["status"]
    return (counters.received("publication") or 0,) if status["phase"] == "WaitForUpload" else None


def _ends_well(upload: subprocess.Popen[str]) -> None:
    told, _ = upload.communicate(timeout=240)
    assert upload.returncode == 0, told


def _is_ready(platform: Platform, namespace: str, digest: str) -> None:
    found = phase(platform, namespace, "killed", "Ready")
    assert found["status"]["artifact"]["digest"] == digest
    platform.target.kubectl("-n", namespace, "delete", "model", "killed", "--timeout=30s")
