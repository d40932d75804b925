"""The images of the project, by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from images import busyboximage, debian, gateimage, pythonimage
from images.archive import Image, write_archive
from images.errors import ImageError
from tools import compile_recipes

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
SOURCE_DIR = "/opt/ai-models"
LLAMA_DIR = "/opt/llama"


def _ai_models(work: Path) -> Image:
    base = debian.base()
    wheels = pythonimage.wheels_layer(base, CHECKOUT / "requirements.image.lock")
    own = pythonimage.own_layer(CHECKOUT / "src", SOURCE_DIR, base, work / "own.tar")
    path = f"{SOURCE_DIR}:{pythonimage.WHEELS_DIR}"
    return pythonimage.image(
        "ai-models", [base.layer, wheels, own], python_path=path, entrypoint=["/usr/bin/python3"]
    )


def _check_recipes(checkout: Path) -> None:
    """Make no image whose planner would start an engine with what the engine does not take."""
    try:
        compile_recipes.verify(checkout)
    except compile_recipes.BadCatalogue as error:
        raise ImageError(f"the recipes do not hold:\n{error}") from None


def _llama(work: Path) -> Image:
    base = debian.base()
    wheels = pythonimage.wheels_layer(base, HERE / "llama" / "requirements.lock")
    own = pythonimage.own_layer(HERE / "llama" / "serve.py", LLAMA_DIR, base, work / "own.tar")
    entrypoint = ["/usr/bin/python3", f"{LLAMA_DIR}/serve.py"]
    return pythonimage.image(
        "llama", [base.layer, wheels, own], python_path=pythonimage.WHEELS_DIR, entrypoint=entrypoint
    )


def _gate(work: Path) -> Image:
    return gateimage.image(debian.base(), work)


def _busybox(work: Path) -> Image:
    return busyboximage.image(busyboximage.binary(), work)


BUILDS: dict[str, Callable[[Path], Image]] = {
    "ai-models": _ai_models,
    "llama": _llama,
    "gate": _gate,
    "busybox": _busybox,
}


def build(name: str, output: Path, work: Path) -> str:
    """Write the archive of an image and return the image's reference."""
    if name == "ai-models":
        _check_recipes(CHECKOUT)
    made = BUILDS[name](work)
    write_archive([made], output)
    return made.reference
