"""Uploads as users send them: the guide's lines as printed, resumed ones, refused ones, parallel ones."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit import guide
from tests.kit.journey import address, curl, gone, order, phase, until
from tests.kit.models import checkpoint, gguf_bytes, tar

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

MIB = 1 << 20

CASES = {
    "GGUF": (guide.FILE, "model.gguf", gguf_bytes(size=3 * MIB)),
    "Safetensors": (guide.ARCHIVE, "model-bundle.tar", tar(checkpoint(shards=2, size=MIB), top="bundle")),
}


@pytest.mark.parametrize("model_format", CASES)
def test_the_guides_lines_run_as_printed(
    platform: Platform, tenant: str, tmp_path: Path, model_format: str
) -> None:
    lines, file, data = CASES[model_format]
    order(platform, tenant, "uploaded-model")
    _, _, authority = address(platform, tenant, "uploaded-model", tmp_path)
    (tmp_path / file).write_bytes(data)
    done = guide.run(platform, tenant, lines, tmp_path, authority)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    phase(platform, tenant, "uploaded-model", "Ready")
    until(
        lambda: gone(platform, "-n", tenant, "secret/ai-model-upload-uploaded-model"), 30, "the Secret gone"
    )

    def told() -> dict[str, Any] | None:
        found: dict[str, Any] = platform.target.get("-n", tenant, "model", "uploaded-model")["status"]
        return found if "upload" not in found else None

    status = until(told, 30, "the status names no upload any more")
    assert status["resolved"]["format"] == model_format
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", status["artifact"]["digest"])
    assert status["artifact"]["sizeBytes"] > MIB


def test_the_guides_lines_are_the_guides(pytestconfig: pytest.Config) -> None:
    shared = pytestconfig.rootpath.parent / "shared" / "guides" / "ai-models-user-guide.ru.md"
    if not shared.exists():
        pytest.skip("the guides lie beside the checkout, and are not there")
    printed = shared.read_text()
    for line in (guide.UPLOAD + guide.FILE + guide.ARCHIVE).splitlines()[1:]:
        assert line.replace("model-bundle.tar", "model-bundle.zip") in printed


def test_an_upload_that_was_cut_continues(platform: Platform, tenant: str, tmp_path: Path) -> None:
    data = gguf_bytes(size=24 * MIB)
    order(platform, tenant, "cut")
    url, token, authority = address(platform, tenant, "cut", tmp_path)
    whole, rest = tmp_path / "model.gguf", tmp_path / "rest"
    whole.write_bytes(data)
    bearer = ("-H", f"Authorization: Bearer {token}")
    slowly = ("--limit-rate", "8M", "--max-time", "2", "-T", str(whole))
    cut = curl(*bearer, *slowly, url, authority=authority, check=False)
    assert cut.returncode == 28, "the upload was to be cut by curl's own time limit"
    offset = _offset(url, bearer, authority)
    assert 0 < offset < len(data)
    rest.write_bytes(data[offset:])
    told = curl(
        *bearer,
        *("-H", f"Content-Range: bytes {offset}-{len(data) - 1}/{len(data)}"),
        *("-T", str(rest), url),
        authority=authority,
    )
    assert json.loads(told.stdout)["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    phase(platform, tenant, "cut", "Ready")


def _offset(url: str, bearer: tuple[str, str], authority: Path) -> int:
    """Ask where to continue; the gateway may still be taking what was on its way."""
    head = curl(*bearer, "-I", url, authority=authority).stdout
    found = re.search(r"^upload-offset: (\d+)", head, re.IGNORECASE | re.MULTILINE)
    assert found, head
    return int(found[1])


def test_a_wrong_token_is_refused_before_the_body(platform: Platform, tenant: str, tmp_path: Path) -> None:
    order(platform, tenant, "guarded")
    url, _, authority = address(platform, tenant, "guarded", tmp_path)
    large = tmp_path / "large.gguf"
    with large.open("wb") as file:
        file.write(gguf_bytes())
        file.truncate(300 * 10**6)
    shown = ("-w", "\n%{http_code} %{size_upload}", "-o", "/dev/null")
    told = curl(
        "-H", "Authorization: Bearer wrong", "-T", str(large), *shown, url, authority=authority, check=False
    )
    code, sent = told.stdout.split()[-2:]
    assert code == "401"
    assert int(sent) <= MIB
    assert phase(platform, tenant, "guarded", "WaitForUpload")["status"]["phase"] == "WaitForUpload"


def test_what_is_no_model_is_refused_and_the_right_file_still_goes(
    platform: Platform, tenant: str, tmp_path: Path
) -> None:
    order(platform, tenant, "picky")
    url, token, authority = address(platform, tenant, "picky", tmp_path)
    wrong, right = tmp_path / "wrong.gguf", tmp_path / "right.gguf"
    wrong.write_bytes(b"%PDF-1.7 " * 100_000)
    right.write_bytes(gguf_bytes())
    bearer = ("-H", f"Authorization: Bearer {token}")
    told = curl(*bearer, "-w", "\n%{http_code}", "-T", str(wrong), url, authority=authority, check=False)
    body, _, code = told.stdout.rpartition("\n")
    assert code == "400"
    assert set(json.loads(body)) >= {"reason", "message", "nextStep"}
    curl(*bearer, "-f", "-T", str(right), url, authority=authority)
    phase(platform, tenant, "picky", "Ready")


async def test_uploads_at_the_same_time_do_not_wait_for_each_other(
    platform: Platform, tenant: str, tmp_path: Path
) -> None:
    names = ["one", "two", "three"]
    for name in names:
        order(platform, tenant, name)
    # The first upload is held open by its client for as long as the others need.
    url, token, authority = address(platform, tenant, "one", tmp_path)
    data = gguf_bytes(size=2 * MIB)
    slow = await asyncio.create_subprocess_exec(
        *("curl", "-sSf", "--cacert", str(authority), "-H", f"Authorization: Bearer {token}"),
        *("-H", f"Content-Length: {len(data)}", "-H", "Transfer-Encoding:", "-T", "-", url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    assert slow.stdin is not None
    slow.stdin.write(data[:MIB])
    await slow.stdin.drain()
    for name in names[1:]:
        other, key, trust = address(platform, tenant, name, tmp_path)
        file = tmp_path / name
        file.write_bytes(gguf_bytes(size=MIB))
        arguments = ("-f", "-H", f"Authorization: Bearer {key}", "-T", str(file), other)
        await asyncio.to_thread(curl, *arguments, authority=trust)
        await asyncio.to_thread(phase, platform, tenant, name, "Ready")
    assert slow.returncode is None
    slow.stdin.write(data[MIB:])
    slow.stdin.close()
    assert await slow.wait() == 0
    await asyncio.to_thread(phase, platform, tenant, "one", "Ready")


def test_progress_is_told_while_a_publication_runs(platform: Platform, tenant: str, tmp_path: Path) -> None:
    data = tar(checkpoint(shards=3, size=40 * MIB))
    order(platform, tenant, "watched")
    url, token, authority = address(platform, tenant, "watched", tmp_path)
    file = tmp_path / "bundle.tar"
    file.write_bytes(data)
    curl(
        "-f",
        "-H",
        f"Authorization: Bearer {token}",
        "-T",
        str(file),
        f"{url}?filename=bundle.tar",
        authority=authority,
    )
    seen = []
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        status = platform.target.get("-n", tenant, "model", "watched")["status"]
        seen.append(status)
        if status["phase"] == "Ready":
            break
    assert seen[-1]["phase"] == "Ready"
    moving = [one["transfer"] for one in seen if one.get("transfer", {}).get("bytes")]
    assert moving, "status.transfer never showed a byte"
    for stage in {one["stage"] for one in moving}:
        counts = [one["bytes"] for one in moving if one["stage"] == stage]
        assert counts == sorted(counts), f"{stage} went back"
