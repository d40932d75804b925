"""The distribution specification's own conformance program, built from its pinned Go module, against DMCR."""

from __future__ import annotations

import asyncio
import os
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from devcluster import cache, toolchain
from tests.kit.dmcr import Dmcr

MODULE = Path(__file__).with_name("conformance")
PACKAGE = "github.com/opencontainers/distribution-spec/conformance"
#: these blobs are part of every repository: deleting them is refused, as the specification allows
ALWAYS_THERE = ("e3b0c44298fc1c14", "44136fa355b3678a", "cf83e1357eefb8bd", "27c74670adb75075")


@pytest.fixture(scope="module")
def program() -> Path:
    """Build the program once per content of its module files; later runs find it in the cache."""
    kept = cache.folder("conformance")
    target = kept / cache.key([PACKAGE], sorted(MODULE.iterdir()))
    with cache.locked(target):
        if not target.exists():
            go = toolchain.ensure_go(cache.folder("devcluster"))
            partial = target.with_name(f"{target.name}.partial")
            subprocess.run(
                [go, "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", partial, PACKAGE],
                cwd=MODULE,
                env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local"},
                check=True,
            )
            partial.rename(target)
    return target


@pytest.mark.parametrize("version", ["1.1", "dev"])
async def test_no_check_fails(program: Path, tmp_path: Path, version: str) -> None:
    async with Dmcr(f"file://{tmp_path}/store", tmp_path / "log") as dmcr:
        settings = {
            "OCI_REGISTRY": f"127.0.0.1:{dmcr.port}",
            "OCI_TLS": "disabled",
            "OCI_VERSION": version,
            "OCI_REPO1": "conformance/one",
            "OCI_REPO2": "conformance/two",
            "OCI_RESULTS_DIR": str(tmp_path),
        }
        process = await asyncio.create_subprocess_exec(
            program,
            cwd=tmp_path,
            env={**os.environ, **settings},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
    cases = list(ET.parse(tmp_path / "junit.xml").getroot().iter("testcase"))  # noqa: S314 - just written
    by_status: dict[str | None, list[ET.Element]] = {}
    for case in cases:
        by_status.setdefault(case.get("status"), []).append(case)
    assert process.returncode == 0, printed.decode()[-4000:]
    assert not by_status.get("failure"), printed.decode()[-4000:]
    assert len(by_status["passed"]) > 600
    for skipped in by_status.get("skipped", []):
        told = skipped.findtext("system-err") or ""
        if "is disabled in the configuration" in told:
            assert version != "dev", skipped.get("name")
            continue
        assert "Method: DELETE" in told, skipped.get("name")
        assert any(digest in told for digest in ALWAYS_THERE), skipped.get("name")
