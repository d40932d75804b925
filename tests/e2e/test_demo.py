"""The demo, as a newcomer runs it: on a fresh module, and again on what it has left."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools import installation
from tools.demo import scenario

if TYPE_CHECKING:
    from tests.kit.cluster import Platform

pytestmark = [pytest.mark.root, pytest.mark.disruptive, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
OURS = {scenario.NAMESPACE, installation.NAMESPACE}


@pytest.mark.parametrize("run", ["first", "again"])
def test_a_real_model_answers(platform: Platform, run: str) -> None:
    told = _demo(platform, "up")
    assert "Gemma Terms of Use" in told
    assert re.search(r"gemma +Ready +Ready +100% +GGUF +241 MiB", told)
    assert "parameters    268 098 176" in told
    assert re.search(rf"{re.escape(scenario.PROMPT)} \S+", told), "no completion was printed"
    assert re.search(r"^  in all +\d", told, re.MULTILINE)


def test_what_the_demo_has_made_goes_with_it(platform: Platform) -> None:
    platform.values = None
    _demo(platform, "down")
    namespaces = {item["metadata"]["name"] for item in platform.target.get("namespaces")["items"]}
    assert not namespaces & OURS
    volumes = platform.target.get("persistentvolumes")["items"]
    assert [volume for volume in volumes if volume["spec"]["claimRef"]["namespace"] in OURS] == []


def _demo(platform: Platform, command: str) -> str:
    words = [sys.executable, "-m", "tools.demo", "--kubeconfig", str(platform.target.kubeconfig), command]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr
