"""Filling a volume from a registry in this process: what lies there afterwards, and what is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from aimodels.delivery.copy import fill, sink, unpack, volume
from aimodels.delivery.copy.__main__ import copy, main
from aimodels.delivery.copy.outcome import Exit, LayoutRefused, Mismatch, VolumeFull, VolumeRefused
from aimodels.delivery.copy.settings import Settings
from aimodels.delivery.copy.sink import BUFFER_BYTES
from aimodels.delivery.copy.volume import STAGING, Volume
from modelkit import archives, modelpack
from modelkit.facts import ModelFacts
from tests.kit.fakeregistry import FakeRegistry, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

REPO = "models/team/x"
FACTS = ModelFacts(format="GGUF", family="gemma3")


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with serving(FakeRegistry()) as fake:
        yield fake


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


def publish(registry: FakeRegistry, files: dict[str, bytes], tar: dict[str, bytes] | None = None) -> str:
    """Store an artifact and return its manifest's digest."""
    layers = [modelpack.Layer(path, registry.add(body), len(body)) for path, body in files.items()]
    if tar is not None:
        packed = tar_of(tar)
        layers.append(
            modelpack.Layer(".", registry.add(packed), len(packed), kind="weight.config", encoding="tar")
        )
    package = modelpack.pack(layers, FACTS)
    registry.add(package.config)
    return put(registry, package.manifest)


def put(registry: FakeRegistry, manifest: bytes) -> str:
    digest = "sha256:" + hashlib.sha256(manifest).hexdigest()
    registry.manifests[digest] = (modelpack.MANIFEST, manifest)
    return digest


def changed(registry: FakeRegistry, digest: str, change: Callable[[dict[str, Any]], None]) -> str:
    """Store a changed manifest, as a registry that somebody else writes to might hold it."""
    document = json.loads(registry.manifests[digest][1])
    change(document)
    return put(registry, json.dumps(document).encode())


def settings(registry: FakeRegistry, target: Path, digest: str) -> Settings:
    return Settings(dmcr_url=registry.url, repository=REPO, digest=digest, target=target)


def files_of(target: Path) -> dict[str, bytes]:
    model = target / "model"
    return {
        str(path.relative_to(model)): path.read_bytes()
        for path in model.rglob("*")
        if path.is_file() and ".ai-models" not in path.parts
    }


async def test_files_lie_where_the_manifest_says(registry: FakeRegistry, target: Path) -> None:
    files = {
        "model.gguf": os.urandom(3 * BUFFER_BYTES + 12_345),
        "sub/dir/other.bin": b"",
        "ünïcode name": b"x",
    }
    tar = {"config.json": b"{}", "sub/tokenizer.json": os.urandom(70_000), "empty": b""}
    digest = publish(registry, files, tar)
    await copy(settings(registry, target, digest))
    assert files_of(target) == files | tar
    marker = json.loads((target / "model/.ai-models/model.json").read_bytes())
    assert marker["digest"] == digest
    assert (marker["version"], marker["format"], marker["family"]) == (1, "GGUF", "gemma3")
    assert marker["sizeBytes"] >= sum(map(len, files.values()))
    assert [(each["path"], each["sizeBytes"]) for each in marker["files"]] == sorted(
        (path, len(body)) for path, body in (files | tar).items()
    )
    assert os.listdir(target / STAGING) == ["journal"]  # noqa: PTH208


async def test_modes_let_every_pod_read_and_no_pod_write(registry: FakeRegistry, target: Path) -> None:
    digest = publish(registry, {"a/model.gguf": b"x"}, {"b/config.json": b"{}"})
    before = os.umask(0o077)
    try:
        await copy(settings(registry, target, digest))
    finally:
        os.umask(before)
    for path in (target / "model").rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o755 if path.is_dir() else 0o444), path


async def test_second_run_reads_nothing(registry: FakeRegistry, target: Path) -> None:
    digest = publish(registry, {"model.gguf": b"x" * 100})
    await copy(settings(registry, target, digest))
    asked = len(registry.seen)
    await copy(settings(registry, target, digest))
    assert len(registry.seen) == asked


async def test_equal_models_have_equal_markers(registry: FakeRegistry, tmp_path: Path) -> None:
    digest = publish(registry, {"b": b"1", "a": b"2"}, {"c": b"3"})
    markers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        await copy(settings(registry, tmp_path / name, digest))
        markers.append((tmp_path / name / "model/.ai-models/model.json").read_bytes())
    assert markers[0] == markers[1]


async def test_many_ranges_make_one_file(
    registry: FakeRegistry, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "BUFFER_BYTES", 65_536)
    body = os.urandom(5_000_001)
    registry.cut_body_after = 10_000
    await copy(settings(registry, target, publish(registry, {"model.gguf": body})))
    assert files_of(target) == {"model.gguf": body}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("writes", [0, 1, 2])
async def test_killed_attempt_is_continued_behind_what_was_written(
    registry: FakeRegistry, target: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    body = os.urandom(3 * BUFFER_BYTES)
    digest = publish(registry, {"model.gguf": body})
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
        await copy(settings(registry, target, digest))
    monkeypatch.setattr(sink, "_write", real)
    registry.ranges.clear()
    await copy(settings(registry, target, digest))
    assert files_of(target) == {"model.gguf": body}
    config, *ranges = registry.ranges
    assert config[0] == 0
    assert min(ranges)[0] == writes * BUFFER_BYTES + 4096


async def test_finished_layers_are_not_read_again(
    registry: FakeRegistry, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = publish(registry, {"a": b"1" * 10, "b": b"2" * 20}, {"c": b"3"})
    real = Volume.place

    def dies_at_b(self: Volume, part: str, path: str) -> None:
        if path == "b":
            raise Killed
        real(self, part, path)

    monkeypatch.setattr(Volume, "place", dies_at_b)
    with pytest.raises(Killed):
        await copy(settings(registry, target, digest))
    monkeypatch.setattr(Volume, "place", real)
    registry.ranges.clear()
    await copy(settings(registry, target, digest))
    assert files_of(target) == {"a": b"1" * 10, "b": b"2" * 20, "c": b"3"}
    assert len(registry.ranges) <= 2


async def test_tar_is_unpacked_again_after_a_kill_in_the_middle(
    registry: FakeRegistry, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tar = {f"file{number}": os.urandom(10_000 + number) for number in range(5)}
    digest = publish(registry, {"model.gguf": b"x"}, tar)
    real, placed = unpack._place, 0

    def dies(*args: Any) -> None:
        nonlocal placed
        if placed == 3:
            raise Killed
        placed += 1
        real(*args)

    monkeypatch.setattr(unpack, "_place", dies)
    with pytest.raises(Killed):
        await copy(settings(registry, target, digest))
    monkeypatch.setattr(unpack, "_place", real)
    await copy(settings(registry, target, digest))
    assert files_of(target) == tar | {"model.gguf": b"x"}


async def test_damaged_part_is_dropped_and_read_once_more(registry: FakeRegistry, target: Path) -> None:
    body = os.urandom(100_000)
    digest = publish(registry, {"model.gguf": body})
    with Volume.open(target) as opened:
        part = opened.open_part(hashlib.sha256(body).hexdigest() + ".part", direct=False)
        os.write(part, bytes(8192))
        os.close(part)
    await copy(settings(registry, target, digest))
    assert files_of(target) == {"model.gguf": body}


async def test_bytes_that_are_not_what_their_digest_says_never_become_a_file(
    registry: FakeRegistry, target: Path
) -> None:
    digest = publish(registry, {"model.gguf": b"good"})
    blob = "sha256:" + hashlib.sha256(b"good").hexdigest()
    registry.blobs[blob] = b"evil"
    with pytest.raises(Mismatch):
        await copy(settings(registry, target, digest))
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
    registry: FakeRegistry, target: Path, path: str
) -> None:
    digest = publish(registry, {"model.gguf": b"x"})

    def rename(document: dict[str, Any]) -> None:
        document["layers"][0]["annotations"][modelpack.FILEPATH] = path

    with pytest.raises(LayoutRefused):
        await copy(settings(registry, target, changed(registry, digest, rename)))
    assert files_of(target) == {}
    assert sorted(os.listdir(target.parent)) == ["claim"]  # noqa: PTH208


@pytest.mark.parametrize("pair", [("A", "a"), ("a", "a/b"), ("é", "é"), ("x", "x")])
async def test_paths_that_meet_on_some_file_system_are_refused(
    registry: FakeRegistry, target: Path, pair: tuple[str, str]
) -> None:
    digest = publish(registry, {"one": b"1", "two": b"2"})

    def rename(document: dict[str, Any]) -> None:
        for layer, path in zip(document["layers"], pair, strict=True):
            layer["annotations"][modelpack.FILEPATH] = path

    with pytest.raises(LayoutRefused):
        await copy(settings(registry, target, changed(registry, digest, rename)))


@pytest.mark.parametrize(
    "tar",
    [{"../evil": b"x"}, {"a": b"1", "A": b"2"}, {"model.gguf": b"x"}, {".ai-models/model.json": b"{}"}],
)
async def test_tar_members_are_held_to_the_same_rules(
    registry: FakeRegistry, target: Path, tar: dict[str, bytes]
) -> None:
    digest = publish(registry, {"model.gguf": b"m"}, tar)
    with pytest.raises(LayoutRefused):
        await copy(settings(registry, target, digest))
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
    registry: FakeRegistry, target: Path, media_type: str
) -> None:
    digest = publish(registry, {"model.gguf": b"x"})

    def retype(document: dict[str, Any]) -> None:
        document["layers"][0]["mediaType"] = media_type

    with pytest.raises(LayoutRefused):
        await copy(settings(registry, target, changed(registry, digest, retype)))


async def test_links_on_the_volume_are_not_followed(registry: FakeRegistry, target: Path) -> None:
    elsewhere = target.parent / "elsewhere"
    elsewhere.mkdir()
    digest = publish(registry, {"sub/model.gguf": b"x"})
    with Volume.open(target):
        pass
    (target / "model").mkdir()
    (target / "model/sub").symlink_to(elsewhere)
    with pytest.raises(VolumeRefused):
        await copy(settings(registry, target, digest))
    assert list(elsewhere.iterdir()) == []
    (target / "model/sub").unlink()
    (target / "model").rmdir()
    (target / "model").symlink_to(elsewhere)
    with pytest.raises(VolumeRefused):
        await copy(settings(registry, target, digest))
    assert list(elsewhere.iterdir()) == []


async def test_file_that_is_a_link_is_replaced_not_followed(registry: FakeRegistry, target: Path) -> None:
    victim = target.parent / "victim"
    victim.write_bytes(b"safe")
    digest = publish(registry, {"model.gguf": b"x"})
    with Volume.open(target):
        pass
    (target / "model").mkdir()
    (target / "model/model.gguf").symlink_to(victim)
    await copy(settings(registry, target, digest))
    assert victim.read_bytes() == b"safe"
    assert files_of(target) == {"model.gguf": b"x"}


async def test_part_that_is_a_link_is_not_written_through(registry: FakeRegistry, target: Path) -> None:
    victim = target.parent / "victim"
    victim.write_bytes(b"safe")
    digest = publish(registry, {"model.gguf": b"x"})
    with Volume.open(target):
        pass
    (target / STAGING / (hashlib.sha256(b"x").hexdigest() + ".part")).symlink_to(victim)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        await copy(settings(registry, target, digest))
    assert victim.read_bytes() == b"safe"


@pytest.mark.parametrize("foreign", ["data.bin", "model/model.gguf"])
async def test_volume_with_something_else_on_it_is_refused(
    registry: FakeRegistry, target: Path, foreign: str
) -> None:
    (target / foreign).parent.mkdir(exist_ok=True)
    (target / foreign).write_bytes(b"somebody's")
    with pytest.raises(VolumeRefused, match="no copy has written"):
        await copy(settings(registry, target, publish(registry, {"model.gguf": b"x"})))
    assert (target / foreign).read_bytes() == b"somebody's"


async def test_fresh_file_systems_are_accepted(registry: FakeRegistry, target: Path) -> None:
    (target / "lost+found").mkdir()
    (target / "model").mkdir()
    await copy(settings(registry, target, publish(registry, {"model.gguf": b"x"})))


async def test_volume_of_another_model_is_refused(registry: FakeRegistry, target: Path) -> None:
    await copy(settings(registry, target, publish(registry, {"model.gguf": b"x"})))
    with pytest.raises(VolumeRefused, match="another claim"):
        await copy(settings(registry, target, publish(registry, {"model.gguf": b"y"})))
    assert files_of(target) == {"model.gguf": b"x"}


@pytest.mark.parametrize("line", [b'{"version":2,"manifest":"x"}\n', b"nonsense\n"])
async def test_journal_of_another_version_is_refused(
    registry: FakeRegistry, target: Path, line: bytes
) -> None:
    with Volume.open(target):
        (target / STAGING / "journal").write_bytes(line)
    with pytest.raises(VolumeRefused, match="journal"):
        await copy(settings(registry, target, publish(registry, {"model.gguf": b"x"})))


async def test_line_cut_by_a_crash_is_ignored(registry: FakeRegistry, target: Path) -> None:
    digest = publish(registry, {"a": b"1", "b": b"2"})
    await copy(settings(registry, target, digest))
    journal = target / STAGING / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    for whole in range(len(lines)):
        journal.write_bytes(b"".join(lines[:whole]) + lines[whole][: len(lines[whole]) // 2])
        await copy(settings(registry, target, digest))
        assert journal.read_bytes() == b"".join(lines)
        assert files_of(target) == {"a": b"1", "b": b"2"}


async def test_too_small_volume_is_told_before_a_byte_moves(
    registry: FakeRegistry, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = publish(registry, {"model.gguf": b"x" * 1000})
    monkeypatch.setattr(Volume, "free_bytes", lambda _: 999)
    with pytest.raises(VolumeFull, match="1000 more bytes, the volume has 999 free"):
        await copy(settings(registry, target, digest))
    assert len(registry.ranges) == 1, "only the config was read"


async def test_volume_that_takes_no_direct_writes_is_written_through_the_cache(
    registry: FakeRegistry, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill, "_DIRECT_ABOVE", 0)
    real = Volume.open_part

    def refuses(self: Volume, name: str, *, direct: bool) -> int:
        if direct:
            raise OSError(errno.EINVAL, "no direct writes here")
        return real(self, name, direct=direct)

    monkeypatch.setattr(Volume, "open_part", refuses)
    body = os.urandom(BUFFER_BYTES + 1)
    await copy(settings(registry, target, publish(registry, {"model.gguf": body})))
    assert files_of(target) == {"model.gguf": body}


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, VolumeFull),
        (errno.EDQUOT, VolumeFull),
        (errno.EROFS, VolumeRefused),
        (errno.EACCES, VolumeRefused),
        (errno.EIO, OSError),
    ],
)
def test_file_system_errors_become_reasons(number: int, kind: type[Exception]) -> None:
    with pytest.raises(kind), volume.refusing("written"):
        raise OSError(number, os.strerror(number))


def test_short_direct_writes_go_on_at_a_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    def short(_descriptor: int, view: memoryview, at: int) -> int:
        calls.append((at, len(view)))
        return min(len(view), 5000)

    monkeypatch.setattr(os, "pwrite", short)
    sink._write(0, memoryview(bytes(12_288)), 0)
    assert calls == [(0, 12_288), (4096, 8192), (8192, 4096)]
    monkeypatch.setattr(os, "pwrite", lambda *_: 100)
    with pytest.raises(OSError, match="No space left"):
        sink._write(0, memoryview(bytes(8192)), 0)


def test_wrong_settings_are_told_all_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in list(os.environ):
        if name.startswith("COPY_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COPY_DIGEST", "sha256:x")
    assert main() == Exit.WRONG_SETTINGS
    said = capsys.readouterr().err
    assert "COPY_DMCR_URL" in said
    assert "COPY_REPOSITORY" in said
