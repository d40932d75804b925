"""Debian's packages, unpacked without running anything: the base layer, python3 with all it depends on.

Packages come from the machine's own package sources, so that the image has the release of the machine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import cache
from images.archive import Layer, LayerWriter, kept_layer
from images.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The last two are C and C++ runtime libraries that wheels with compiled parts expect.
PACKAGES = ("python3", "busybox-static", "libstdc++6", "libgomp1")
UNNEEDED = (
    *("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/perl5"),
    *("usr/share/bash-completion", "usr/share/common-licenses/GFDL-1.2", "var/lib/dpkg", "etc/apt"),
)
USER = 64535
PASSWD = f"root:x:0:0:root:/root:/bin/sh\nai-models:x:{USER}:{USER}:ai-models:/tmp:/bin/sh\n"
GROUP = f"root:x:0:\nai-models:x:{USER}:\n"
SHELL_COMMANDS = ("sh", "ls", "cat", "sleep", "id", "env", "ps", "df", "du", "sha256sum", "wget", "tar")
FORMAT = "2"


@dataclass(frozen=True)
class Base:
    """The base layer and the version of the Python in it, as in `3.11`."""

    layer: Layer
    python: str


def base() -> Base:
    """Return the base, from the cache when it was made before."""
    kept = cache.folder("images")
    words = (FORMAT, *PACKAGES, *UNNEEDED, PASSWD, *SHELL_COMMANDS, str(sys.version_info[:2]))
    path = kept / f"base-{cache.key(words, [Path('/etc/os-release')])}.tar"
    version = path.with_suffix(".python")
    with cache.locked(path):
        found = kept_layer(path)
        if found:
            return Base(found, version.read_text())
        with tempfile.TemporaryDirectory(dir=kept) as work:
            root = Path(work) / "root"
            _unpack(_download(Path(work), PACKAGES, closure=True), root)
            python = (root / "usr/bin/python3").readlink().name.removeprefix("python")
            compile_python(root, python)
            version.write_text(python)
            return Base(_root_filesystem(root).write(path), python)


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """Return the folder, kept in the cache, with these packages and none of those they depend on."""
    kept = cache.folder("images")
    words = (FORMAT, *packages, *UNNEEDED)
    path = kept / f"{name}-{cache.key(words, [Path('/etc/os-release')])}"
    with cache.locked(path):
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=kept) as work:
                root = Path(work) / "root"
                _unpack(_download(Path(work), packages, closure=False), root)
                root.rename(path)
    return path


def compile_python(folder: Path, python: str) -> None:
    """Compile to bytecode that is valid whatever the files' times: a container cannot write its own.

    Only the interpreter of the same version can do it; with another one, containers start a little slower.
    It runs as a process of its own, since bytecode depends on what the compiling process has in memory.
    """
    if python != f"{sys.version_info.major}.{sys.version_info.minor}":
        return
    options = ("-q", "--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", "/", "-j", "0")
    subprocess.run(
        [sys.executable, "-I", "-m", "compileall", *options, str(folder)], capture_output=True, check=False
    )


def _download(work: Path, packages: Sequence[str], *, closure: bool) -> list[Path]:
    """Download packages, with all that they depend on by pretending that nothing is installed yet."""
    archives = work / "archives"
    for folder in (archives, work / "lists"):
        (folder / "partial").mkdir(parents=True)
    (work / "status").touch()
    options = {
        "Dir::State::status": work / "status",
        "Dir::State::lists": work / "lists",
        "Dir::Cache::archives": archives,
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "root",
    }
    settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    _run("apt-get", *settings, "update", "-q")
    whole = ("install", "-y", "-q", "--download-only", "--no-install-recommends")
    wanted = whole if closure else ("download", "-q")
    _run("apt-get", *settings, *wanted, *packages, folder=archives)
    return sorted(archives.glob("*.deb"))


def _unpack(packages: Sequence[Path], root: Path) -> None:
    root.mkdir()
    for directory in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / directory).mkdir(parents=True)
        (root / directory).symlink_to(f"usr/{directory}")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda package: _unpack_package(package, root), packages))
    for directory in UNNEEDED:
        shutil.rmtree(root / directory, ignore_errors=True)


def _unpack_package(package: Path, root: Path) -> None:
    """Unpack through tar, which keeps the links from /bin to /usr/bin where dpkg-deb replaces them."""
    content = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
    command = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(root)]
    subprocess.run(command, input=content.stdout, capture_output=True, check=True)


def _root_filesystem(root: Path) -> LayerWriter:
    writer = LayerWriter()
    writer.add(root, "")
    writer.add_text("etc/passwd", PASSWD)
    writer.add_text("etc/group", GROUP)
    writer.add_directory("tmp", 0o1777)
    for command in SHELL_COMMANDS:
        if not (root / "usr/bin" / command).exists():
            writer.add_link(f"usr/bin/{command}", "busybox")
    return writer


def _run(*command: str, folder: Path | None = None) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    except FileNotFoundError:
        raise ImageError(
            f"{command[0]} is missing: images are built from Debian's packages on Debian; "
            f"elsewhere use the Dockerfile beside the image's sources"
        ) from None
    if result.returncode:
        raise ImageError(f"{' '.join(command)} failed:\n{result.stderr.strip()}")
