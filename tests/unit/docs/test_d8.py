"""The stand-in for Deckhouse's command hands the guides' lines to kubectl, word for word."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.documents import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SHELL = "/bin:/usr/bin"


@pytest.fixture
def path(tmp_path: Path) -> str:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\nprintf "<%s>\\n" "$@"\n')
    kubectl.chmod(0o755)
    return f"{tmp_path}:{SHELL}"


def _d8(path: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(ROOT / "bin/d8"), *words]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=False)


def test_words_arrive_as_they_are(path: str) -> None:
    done = _d8(path, "k", "-n", "ai-demo", "get", "model", "x", "-o", 'jsonpath={.status.x}{"\\n"}')
    assert done.stdout.splitlines() == [
        *("<-n>", "<ai-demo>", "<get>", "<model>", "<x>", "<-o>"),
        '<jsonpath={.status.x}{"\\n"}>',
    ]


def test_anything_else_is_refused_with_what_there_is(path: str) -> None:
    done = _d8(path, "system", "status")
    assert done.returncode == 2
    assert "only 'd8 k ...' is known here" in done.stderr


def test_a_missing_kubectl_is_named(tmp_path: Path) -> None:
    done = _d8(str(tmp_path), "k", "get", "pods")
    assert done.returncode == 127
    assert "kubectl is missing" in done.stderr
