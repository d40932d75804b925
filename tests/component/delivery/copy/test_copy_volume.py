"""Filling a volume from a real registry: what lies there afterwards, and what is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from aimodels.delivery.copy import fill, sink, unpack
from aimodels.delivery.copy.__main__ import copy
from aimodels.delivery.copy.outcome import LayoutRefused, Mismatch, VolumeFull, VolumeRefused
from aimodels.delivery.copy.settings import Settings
from aimodels.delivery.copy.sink import BUFFER_BYTES
from aimodels.delivery.copy.volume import STAGING, Volume
from modelio.registry import RegistryClient
from modelkit import archives, modelpack
from modelkit.facts import ModelFacts
from tests.kit.dmcr import Dmcr, digest_of
from tests.kit.httpproxy import HttpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPO = "models/team/x"
FACTS = ModelFacts(format="GGUF", family="gemma3")


@pytest_asyncio.fixture(loop_scope="module")
async def proxy(dmcr: Dmcr) -> AsyncIterator[HttpProxy]:
    """Return the way to a real registry."""
    async with HttpProxy(dmcr.url) as made:
        yield made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "claim"
    path.mkdir()
    return path


def tar_of(files: dict[str, bytes]) -> bytes:
    return (
        b"".join(
            archives.header(path, len(body)) + body + archives.padding(len(body))
            for path, body in files.items()
        )
        + archives.END
    )


async def publish(proxy: HttpProxy, files: dict[str, bytes], tar: dict[str, bytes] | None = None) -> str:
    """Store an artifact and return its manifest's digest; what the proxy saw of it is forgotten."""
    async with RegistryClient(proxy.url) as client:
        layers = [
            modelpack.Layer(path, await client.push_blob(REPO, body), len(body))
            for path, body in files.items()
        ]
        if tar is not None:
            packed = tar_of(tar)
            digest = await client.push_blob(REPO, packed)
            layers.append(modelpack.Layer(".", digest, len(packed), kind="weight.config", encoding="tar"))
        package = modelpack.pack(layers, FACTS)
        await client.push_blob(REPO, package.config)
        digest = digest_of(package.manifest)
        await client.put_manifest(REPO, digest, modelpack.MANIFEST, package.manifest)
    proxy.seen.clear()
    return digest


async def changed(proxy: HttpProxy, digest: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Let a manifest be read that a registry would have refused to store, and return its digest."""
    async with RegistryClient(proxy.url) as client:
        document = json.loads((await client.get_manifest(REPO, digest)).body)
    change(document)
    body = json.dumps(document).encode()
    proxy.reply("GET", digest_of(body), 200, body, {"Content-Type": modelpack.MANIFEST})
    return digest_of(body)


def starts(proxy: HttpProxy) -> list[int]:
    """Return where the reads of blobs began."""
    reads = proxy.asked("GET", "/blobs/")
    return [int(one.range.partition("=")[2].partition("-")[0]) if one.range else 0 for one in reads]


def settings(proxy: HttpProxy, target: Path, digest: str) -> Settings:
    return Settings(dmcr_url=proxy.url, repository=REPO, digest=digest, target=target)


def files_of(target: Path) -> dict[str, bytes]:
    model = target / "model"
    return {
        str(path.relative_to(model)): path.read_bytes()
        for path in model.rglob("*")
        if path.is_file() and ".ai-models" not in path.parts
    }


async def test_files_lie_where_the_manifest_says(proxy: HttpProxy, target: Path) -> None:
    files = {
        "model.gguf": os.urandom(3 * BUFFER_BYTES + 12_345),
        "sub/dir/other.bin": b"",
        "ünïcode name": b"x",
    }
    tar = {"config.json": b"{}", "sub/tokenizer.json": os.urandom(70_000), "empty": b""}
    digest = await publish(proxy, files, tar)
    await copy(settings(proxy, target, digest))
    assert files_of(target) == files | tar
    marker = json.loads((target / "model/.ai-models/model.json").read_bytes())
    assert marker["digest"] == digest
    assert (marker["version"], marker["format"], marker["family"]) == (1, "GGUF", "gemma3")
    assert marker["sizeBytes"] >= sum(map(len, files.values()))
    assert [(each["path"], each["sizeBytes"]) for each in marker["files"]] == sorted(
        (path, len(body)) for path, body in (files | tar).items()
    )
    assert os.listdir(target / STAGING) == ["journal"]  # noqa: PTH208


async def test_modes_let_every_pod_read_and_no_pod_write(proxy: HttpProxy, target: Path) -> None:
    digest = await publish(proxy, {"a/model.gguf": b"x"}, {"b/config.json": b"{}"})
    before = os.umask(0o077)
    try:
        await copy(settings(proxy, target, digest))
    finally:
        os.umask(before)
    for path in (target / "model").rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o755 if path.is_dir() else 0o444), path


async def test_second_run_reads_nothing(proxy: HttpProxy, target: Path) -> None:
    digest = await publish(proxy, {"model.gguf": b"x" * 100})
    await copy(settings(proxy, target, digest))
    asked = len(proxy.seen)
    await copy(settings(proxy, target, digest))
    assert len(proxy.seen) == asked


async def test_equal_models_have_equal_markers(proxy: HttpProxy, tmp_path: Path) -> None:
    digest = await publish(proxy, {"b": b"1", "a": b"2"}, {"c": b"3"})
    markers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        await copy(settings(proxy, tmp_path / name, digest))
        markers.append((tmp_path / name / "model/.ai-models/model.json").read_bytes())
    assert markers[0] == markers[1]


async def test_many_ranges_make_one_file(
    proxy: HttpProxy, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "BUFFER_BYTES", 65_536)
    body = os.urandom(5_000_001)
    digest = await publish(proxy, {"model.gguf": body})
    proxy.cut_answer("GET", "/blobs/", after=10_000)
    await copy(settings(proxy, target, digest))
    assert files_of(target) == {"model.gguf": body}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("writes", [0, 1, 2])
async def test_killed_attempt_is_continued_behind_what_was_written(
    proxy: HttpProxy, target: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    body = os.urandom(3 * BUFFER_BYTES)
    digest = await publish(proxy, {"model.gguf": body})
    real, done = sink._write, 0

    def dies(descriptor: int, view: memoryview, at: int) -> None:
        nonlocal done
        if done == writes:
            real(descriptor, view[:4096], at)
            raise Killed
        done += 1
        real(descriptor, view, at)

    monkeypatch.setattr(sink, "_write", dies)
    with pytest.raises(Killed):
        await copy(settings(proxy, target, digest))
    monkeypatch.setattr(sink, "_write", real)
    proxy.seen.clear()
    await copy(settings(proxy, target, digest))
    assert files_of(target) == {"model.gguf": body}
    config, *ranges = starts(proxy)
    assert config == 0
    assert min(ranges) == writes * BUFFER_BYTES + 4096


async def test_finished_layers_are_not_read_again(
    proxy: HttpProxy, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = await publish(proxy, {"a": b"1" * 10, "b": b"2" * 20}, {"c": b"3"})
    real = Volume.place

    def dies_at_b(self: Volume, part: str, path: str) -> None:
        if path == "b":
            raise Killed
        real(self, part, path)

    monkeypatch.setattr(Volume, "place", dies_at_b)
    with pytest.raises(Killed):
        await copy(settings(proxy, target, digest))
    monkeypatch.setattr(Volume, "place", real)
    proxy.seen.clear()
    await copy(settings(proxy, target, digest))
    assert files_of(target) == {"a": b"1" * 10, "b": b"2" * 20, "c": b"3"}
    assert len(starts(proxy)) <= 2


async def test_tar_is_unpacked_again_after_a_kill_in_the_middle(
    proxy: HttpProxy, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tar = {f"file{number}": os.urandom(10_000 + number) for number in range(5)}
    digest = await publish(proxy, {"model.gguf": b"x"}, tar)
    real, placed = unpack._place, 0

    def dies(*args: Any) -> None:
        nonlocal placed
        if placed == 3:
            raise Killed
        placed += 1
        real(*args)

    monkeypatch.setattr(unpack, "_place", dies)
    with pytest.raises(Killed):
        await copy(settings(proxy, target, digest))
    monkeypatch.setattr(unpack, "_place", real)
    await copy(settings(proxy, target, digest))
    assert files_of(target) == tar | {"model.gguf": b"x"}


async def test_damaged_part_is_dropped_and_read_once_more(proxy: HttpProxy, target: Path) -> None:
    body = os.urandom(100_000)
    digest = await publish(proxy, {"model.gguf": body})
    with Volume.open(target) as opened:
        part = opened.open_part(hashlib.sha256(body).hexdigest() + ".part", direct=False)
        os.write(part, bytes(8192))
        os.close(part)
    await copy(settings(proxy, target, digest))
    assert files_of(target) == {"model.gguf": body}


async def test_bytes_that_are_not_what_their_digest_says_never_become_a_file(
    proxy: HttpProxy, target: Path
) -> None:
    digest = await publish(proxy, {"model.gguf": b"good"})
    for _ in range(2):
        proxy.reply("GET", digest_of(b"good"), 206, b"evil", {"Content-Range": "bytes 0-3/4"})
    with pytest.raises(Mismatch):
        await copy(settings(proxy, target, digest))
    assert files_of(target) == {}
    assert os.listdir(target / STAGING) == ["journal"]  # noqa: PTH208


PATHS = [
    "../evil",
    "a/../../evil",
    "/etc/evil",
    "a\x00b",
    "line\nbreak",
    "x" * 256,
    "/".join(["d"] * 40),
    ".ai-models/model.json",
    "..\\evil",
    "",
    ".",
]


@pytest.mark.parametrize("path", PATHS)
async def test_paths_that_lead_elsewhere_are_refused_before_anything_is_written(
    proxy: HttpProxy, target: Path, path: str
) -> None:
    digest = await publish(proxy, {"model.gguf": b"x"})

    def rename(document: dict[str, Any]) -> None:
        document["layers"][0]["annotations"][modelpack.FILEPATH] = path

    with pytest.raises(LayoutRefused):
        await copy(settings(proxy, target, await changed(proxy, digest, rename)))
    assert files_of(target) == {}
    assert sorted(os.listdir(target.parent)) == ["claim"]  # noqa: PTH208


@pytest.mark.parametrize("pair", [("A", "a"), ("a", "a/b"), ("é", "é"), ("x", "x")])
async def test_paths_that_meet_on_some_file_system_are_refused(
    proxy: HttpProxy, target: Path, pair: tuple[str, str]
) -> None:
    digest = await publish(proxy, {"one": b"1", "two": b"2"})

    def rename(document: dict[str, Any]) -> None:
        for layer, path in zip(document["layers"], pair, strict=True):
            layer["annotations"][modelpack.FILEPATH] = path

    with pytest.raises(LayoutRefused):
        await copy(settings(proxy, target, await changed(proxy, digest, rename)))


@pytest.mark.parametrize(
    "tar",
    [{"../evil": b"x"}, {"a": b"1", "A": b"2"}, {"model.gguf": b"x"}, {".ai-models/model.json": b"{}"}],
)
async def test_tar_members_are_held_to_the_same_rules(
    proxy: HttpProxy, target: Path, tar: dict[str, bytes]
) -> None:
    digest = await publish(proxy, {"model.gguf": b"m"}, tar)
    with pytest.raises(LayoutRefused):
        await copy(settings(proxy, target, digest))
    assert not (target.parent / "evil").exists()


@pytest.mark.parametrize(
    "media_type",
    [
        "application/vnd.cncf.model.weight.v1.tar+gzip",
        "application/vnd.cncf.model.weight.v1.tar+zstd",
        "application/vnd.cncf.model.weight.v1.tar",
        "application/vnd.oci.image.layer.v1.tar",
    ],
)
async def test_layouts_that_are_not_understood_are_refused(
    proxy: HttpProxy, target: Path, media_type: str
) -> None:
    digest = await publish(proxy, {"model.gguf": b"x"})

    def retype(document: dict[str, Any]) -> None:
        document["layers"][0]["mediaType"] = media_type

    with pytest.raises(LayoutRefused):
        await copy(settings(proxy, target, await changed(proxy, digest, retype)))


async def test_links_on_the_volume_are_not_followed(proxy: HttpProxy, target: Path) -> None:
    elsewhere = target.parent / "elsewhere"
    elsewhere.mkdir()
    digest = await publish(proxy, {"sub/model.gguf": b"x"})
    with Volume.open(target):
        pass
    (target / "model").mkdir()
    (target / "model/sub").symlink_to(elsewhere)
    with pytest.raises(VolumeRefused):
        await copy(settings(proxy, target, digest))
    assert list(elsewhere.iterdir()) == []
    (target / "model/sub").unlink()
    (target / "model").rmdir()
    (target / "model").symlink_to(elsewhere)
    with pytest.raises(VolumeRefused):
        await copy(settings(proxy, target, digest))
    assert list(elsewhere.iterdir()) == []


async def test_file_that_is_a_link_is_replaced_not_followed(proxy: HttpProxy, target: Path) -> None:
    victim = target.parent / "victim"
    victim.write_bytes(b"safe")
    digest = await publish(proxy, {"model.gguf": b"x"})
    with Volume.open(target):
        pass
    (target / "model").mkdir()
    (target / "model/model.gguf").symlink_to(victim)
    await copy(settings(proxy, target, digest))
    assert victim.read_bytes() == b"safe"
    assert files_of(target) == {"model.gguf": b"x"}


async def test_part_that_is_a_link_is_not_written_through(proxy: HttpProxy, target: Path) -> None:
    victim = target.parent / "victim"
    victim.write_bytes(b"safe")
    digest = await publish(proxy, {"model.gguf": b"x"})
    with Volume.open(target):
        pass
    (target / STAGING / (hashlib.sha256(b"x").hexdigest() + ".part")).symlink_to(victim)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        await copy(settings(proxy, target, digest))
    assert victim.read_bytes() == b"safe"


@pytest.mark.parametrize("foreign", ["data.bin", "model/model.gguf"])
async def test_volume_with_something_else_on_it_is_refused(
    proxy: HttpProxy, target: Path, foreign: str
) -> None:
    (target / foreign).parent.mkdir(exist_ok=True)
    (target / foreign).write_bytes(b"somebody's")
    with pytest.raises(VolumeRefused, match="no copy has written"):
        await copy(settings(proxy, target, await publish(proxy, {"model.gguf": b"x"})))
    assert (target / foreign).read_bytes() == b"somebody's"


async def test_fresh_file_systems_are_accepted(proxy: HttpProxy, target: Path) -> None:
    (target / "lost+found").mkdir()
    (target / "model").mkdir()
    await copy(settings(proxy, target, await publish(proxy, {"model.gguf": b"x"})))


async def test_volume_of_another_model_is_refused(proxy: HttpProxy, target: Path) -> None:
    await copy(settings(proxy, target, await publish(proxy, {"model.gguf": b"x"})))
    with pytest.raises(VolumeRefused, match="another claim"):
        await copy(settings(proxy, target, await publish(proxy, {"model.gguf": b"y"})))
    assert files_of(target) == {"model.gguf": b"x"}


@pytest.mark.parametrize("line", [b'{"version":2,"manifest":"x"}\n', b"nonsense\n"])
async def test_journal_of_another_version_is_refused(proxy: HttpProxy, target: Path, line: bytes) -> None:
    with Volume.open(target):
        (target / STAGING / "journal").write_bytes(line)
    with pytest.raises(VolumeRefused, match="journal"):
        await copy(settings(proxy, target, await publish(proxy, {"model.gguf": b"x"})))


async def test_line_cut_by_a_crash_is_ignored(proxy: HttpProxy, target: Path) -> None:
    digest = await publish(proxy, {"a": b"1", "b": b"2"})
    await copy(settings(proxy, target, digest))
    journal = target / STAGING / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    for whole in range(len(lines)):
        journal.write_bytes(b"".join(lines[:whole]) + lines[whole][: len(lines[whole]) // 2])
        await copy(settings(proxy, target, digest))
        assert journal.read_bytes() == b"".join(lines)
        assert files_of(target) == {"a": b"1", "b": b"2"}


async def test_too_small_volume_is_told_before_a_byte_moves(
    proxy: HttpProxy, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = await publish(proxy, {"model.gguf": b"x" * 1000})
    monkeypatch.setattr(Volume, "free_bytes", lambda _: 999)
    with pytest.raises(VolumeFull, match="1000 more bytes, the volume has 999 free"):
        await copy(settings(proxy, target, digest))
    assert len(starts(proxy)) == 1, "only the config was read"


async def test_volume_that_takes_no_direct_writes_is_written_through_the_cache(
    proxy: HttpProxy, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "_DIRECT_ABOVE", 0)
    real = Volume.open_part

    def refuses(self: Volume, name: str, *, direct: bool) -> int:
        if direct:
            raise OSError(errno.EINVAL, "no direct writes here")
        return real(self, name, direct=direct)

    monkeypatch.setattr(Volume, "open_part", refuses)
    body = os.urandom(BUFFER_BYTES + 1)
    await copy(settings(proxy, target, await publish(proxy, {"model.gguf": body})))
    assert files_of(target) == {"model.gguf": body}
