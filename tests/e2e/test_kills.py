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

pytestmark = [pytest.mark.root, pytest.mark.disruptive, pytest.mark.timeout(400)]

MIB = 1 << 20
SIZE = 192 * MIB
#: Files under 1 GiB: parts of 8 MiB, at most two in flight, the one that fills, and what a socket holds.
NOT_JOURNALED = 4 * 8 * MIB
#: At a kill so much of one file has arrived that a begin from nothing would be seen.
BEFORE_KILL = NOT_JOURNALED + 64 * MIB
#: what may arrive between the last look at a registry and its kill
NOT_SEEN = 64 * MIB
CONTROLLER = "aimodels.processes.controller"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive of 192 MiB: long enough to be interrupted."""
    file = tmp_path_factory.mktemp("kills") / "bundle.tar"
    file.write_bytes(tar(checkpoint(size=SIZE)))
    return file


@pytest.fixture(scope="module")
def undisturbed(platform: Platform, bundle: Path) -> str:
    """Return the digest that a publication of the archive gives when nothing happens to it."""
    namespace = "default"
    platform.ensure()
    order(platform, namespace, "undisturbed")
    try:
        _ends_well(aictl_upload(platform, namespace, "undisturbed", bundle))
        return str(phase(platform, namespace, "undisturbed", "Ready")["status"]["artifact"]["digest"])
    finally:
        platform.target.kubectl("-n", namespace, "delete", "model", "undisturbed", "--timeout=30s")


@pytest.mark.parametrize(
    "victims",
    [
        ("aimodels.upload", "aimodels.publication"),
        ("aimodels.dmcr", "aimodels.dmcr"),
        (CONTROLLER, CONTROLLER),
    ],
)
def test_killed_in_the_middle_of_an_upload_and_of_its_publication(
    platform: Platform, tenant: str, bundle: Path, undisturbed: str, victims: tuple[str, str]
) -> None:
    receiving, publishing = victims
    counters = Counters(platform)
    order(platform, tenant, "killed")
    before = counters.received("upload") or 0
    upload = aictl_upload(platform, tenant, "killed", bundle)
    moved = until(lambda: _moved(counters, "upload", before + BEFORE_KILL), 60, "the upload is on its way")
    journey.kill("-m", receiving)
    assert upload.poll() is None, "the upload was over before the kill"
    assert moved - before < SIZE, "the upload was over before the kill"

    # Only a kill of DMCR sets its counters back, and then no publication has begun yet.
    earlier = 0 if receiving == "aimodels.dmcr" else counters.received("publication") or 0
    begun = until(lambda: _moved(counters, "publication", earlier + BEFORE_KILL), 90, "the publication runs")
    sent = _sent(counters, "upload", before, moved if receiving == "aimodels.dmcr" else None)
    assert bundle.stat().st_size - NOT_SEEN < sent <= bundle.stat().st_size + NOT_JOURNALED
    journey.kill("-m", publishing)
    assert begun - earlier < SIZE, "the file was over before the kill"

    _ends_well(upload)
    sent = _sent(counters, "publication", earlier, begun if publishing == "aimodels.dmcr" else None)
    assert sent <= SIZE + NOT_JOURNALED
    found = phase(platform, tenant, "killed", "Ready")
    assert found["status"]["artifact"]["digest"] == undisturbed
    platform.target.kubectl("-n", tenant, "delete", "model", "killed", "--timeout=30s")


def _moved(counters: Counters, purpose: str, least: int) -> int | None:
    received = counters.received(purpose)
    return received if received is not None and received >= least else None


def _sent(counters: Counters, purpose: str, before: int, at_kill: int | None) -> int:
    """Return what has arrived; a killed DMCR counts from zero, on top of what it had counted at the kill."""
    after: int = until(lambda: counters.received(purpose), 60, "DMCR's counters")
    return after - before if at_kill is None else at_kill - before + after


def _ends_well(upload: subprocess.Popen[str]) -> None:
    told, _ = upload.communicate(timeout=240)
    assert upload.returncode == 0, told
