"""Images that run Python: the base layer, a layer of locked wheels, a layer of our own files."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from devcluster import cache
from images.archive import Image, Layer, LayerWriter, kept_layer
from images.debian import USER, Base, compile_python
from images.errors import ImageError

WHEELS_DIR = "/opt/wheels"
NOT_SHIPPED = ("__pycache__", "*.pyc", "*.egg-info", "Dockerfile")
TAG_LENGTH = 12
FORMAT = "2"


def wheels_layer(base: Base, lock: Path) -> Layer:
    """Return the layer of the locked wheels for the image's Python, from the cache when made before."""
    kept = cache.folder("images")
    words = (FORMAT, WHEELS_DIR, base.python, platform.machine(), str(sys.version_info[:2]))
    path = kept / f"wheels-{cache.key(words, [lock])}.tar"
    with cache.locked(path):
        found = kept_layer(path)
        if found:
            return found
        with tempfile.TemporaryDirectory(dir=kept) as work:
            folder = Path(work) / "wheels"
            _install(lock, base.python, folder)
            return _folder_layer(folder, WHEELS_DIR, base, path)


def wheels_folder(name: str, lock: Path) -> Path:
    """Return a folder, kept in the cache, with the locked wheels for the Python that runs this."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    path = cache.folder("images") / f"{name}-{cache.key((FORMAT, python, platform.machine()), [lock])}"
    with cache.locked(path):
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=path.parent) as work:
                _install(lock, python, Path(work) / "wheels")
                (Path(work) / "wheels").rename(path)
    return path


def own_layer(source: Path, target: str, base: Base, path: Path) -> Layer:
    """Write the layer of our own files, a folder or a single one, which changes all the time."""
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        folder = Path(work) / "own"
        if source.is_dir():
            shutil.copytree(source, folder, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
        else:
            folder.mkdir()
            shutil.copy(source, folder)
        return _folder_layer(folder, target, base, path)


def image(name: str, layers: list[Layer], *, python_path: str, entrypoint: list[str]) -> Image:
    """Describe the image; its tag says what is in it."""
    config = {
        "Entrypoint": entrypoint,
        "Env": [
            "PATH=/usr/local/bin:/usr/bin:/bin",
            f"PYTHONPATH={python_path}",
            "PYTHONUNBUFFERED=1",
            "PYTHONDONTWRITEBYTECODE=1",
            "LANG=C.UTF-8",
        ],
        "User": f"{USER}:{USER}",
        "WorkingDir": "/tmp",  # noqa: S108 - inside the container
    }
    content = hashlib.sha256(Image("", layers, config).document()).hexdigest()
    return Image(f"{name}:{content[:TAG_LENGTH]}", layers, config)


def _install(lock: Path, python: str, folder: Path) -> None:
    command = [str(cache.uv()), "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--link-mode", "copy", "--python", sys.executable]
    command += ["--python-version", python, "--target", str(folder), "-r", str(lock)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ImageError("uv is not in the cache; run `make setup` first") from None
    if result.returncode:
        raise ImageError(f"the wheels of {lock.name} cannot be installed:\n{result.stderr.strip()}")


def _folder_layer(folder: Path, target: str, base: Base, path: Path) -> Layer:
    folder.chmod(0o755)
    compile_python(folder, base.python)
    writer = LayerWriter()
    writer.add(folder, target)
    return writer.write(path)
