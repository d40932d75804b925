"""The gate's image: Debian's nginx and the program that looks after it, on the Python base."""

from __future__ import annotations

from pathlib import Path

from images import debian, pythonimage
from images.archive import Image, Layer, LayerWriter

SOURCE = Path(__file__).resolve().parent / "gate"
#: what the base lacks of what nginx needs; its other dependencies are for setting up a service
PACKAGES = ("nginx", "libpcre2-8-0")
_PROGRAMS = "/opt/programs"


def nginx() -> Path:
    """Return the folder with nginx in it as Debian packs it."""
    return debian.unpacked("nginx", PACKAGES)


def image(base: debian.Base, work: Path) -> Image:
    """Make the image; what is not kept in the cache is written into the work folder."""
    own = pythonimage.own_layer(SOURCE, f"{_PROGRAMS}/gate", base, work / "own.tar")
    layers = [base.layer, _nginx_layer(work), own]
    return pythonimage.image(
        "gate", layers, python_path=_PROGRAMS, entrypoint=["/usr/bin/python3", "-m", "gate"]
    )


def _nginx_layer(work: Path) -> Layer:
    root = nginx()
    writer = LayerWriter()
    # The path that the image's programs are looked for has no sbin.
    writer.add(root / "usr/sbin/nginx", "usr/bin/nginx")
    writer.add(root / "usr/lib", "usr/lib")
    return writer.write(work / "nginx.tar")
