"""The copy's pure parts: errors of file systems, short writes, settings."""

from __future__ import annotations

import errno
import os

import pytest

from aimodels.delivery.copy import sink, volume
from aimodels.delivery.copy.__main__ import main
from aimodels.delivery.copy.outcome import VolumeFull, VolumeRefused
from aimodels.jobs.worker import Exit


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
