"""A Diffusers pipeline: its class from ``model_index.json``, its weights from the files of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelkit.errors import NotAModel
from modelkit.formats import quantization
from modelkit.formats.checkpoint import add_files
from modelkit.formats.config import parse
from modelkit.formats.weights import Weights
from modelkit.reading import read_small

if TYPE_CHECKING:
    from modelkit.facts import FactSheet
    from modelkit.reading import Files

INDEX = "model_index.json"
_LIMIT = 1 << 20
#: part of the class name, lower case -> family
_FAMILIES = (
    ("stablediffusionxl", "stable-diffusion-xl"),
    ("stablediffusion", "stable-diffusion"),
    ("flux", "flux"),
    ("cogvideo", "cogvideo"),
    ("hunyuanvideo", "hunyuan-video"),
    ("wan", "wan"),
    ("audioldm", "audioldm"),
)
#: part of the class name, lower case -> endpoint types and features; the first that fits
_TASKS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("video2video", ("VideoGeneration",), ("VideoInput", "VideoOutput")),
    ("videotovideo", ("VideoGeneration",), ("VideoInput", "VideoOutput")),
    ("imagetovideo", ("VideoGeneration",), ("VisionInput", "VideoOutput")),
    ("img2vid", ("VideoGeneration",), ("VisionInput", "VideoOutput")),
    ("stablevideodiffusion", ("VideoGeneration",), ("VisionInput", "VideoOutput")),
    ("video", ("VideoGeneration",), ("VideoOutput",)),
    ("animatediff", ("VideoGeneration",), ("VideoOutput",)),
    ("wanpipeline", ("VideoGeneration",), ("VideoOutput",)),
    ("ltxpipeline", ("VideoGeneration",), ("VideoOutput",)),
    ("mochi", ("VideoGeneration",), ("VideoOutput",)),
    ("audio", ("AudioGeneration",), ("AudioOutput",)),
    ("musicldm", ("AudioGeneration",), ("AudioOutput",)),
    ("img2img", ("ImageGeneration",), ("VisionInput", "ImageOutput")),
    ("inpaint", ("ImageGeneration",), ("VisionInput", "ImageOutput")),
    ("imagevariation", ("ImageGeneration",), ("VisionInput", "ImageOutput")),
    ("upscale", ("ImageGeneration",), ("VisionInput", "ImageOutput")),
    ("pix2pix", ("ImageGeneration",), ("VisionInput", "ImageOutput")),
    ("imageedit", ("ImageGeneration",), ("VisionInput", "ImageOutput")),
    ("kontext", ("ImageGeneration",), ("VisionInput", "ImageOutput")),
    ("stablediffusion", ("ImageGeneration",), ("ImageOutput",)),
    ("flux", ("ImageGeneration",), ("ImageOutput",)),
    ("pixart", ("ImageGeneration",), ("ImageOutput",)),
    ("kandinsky", ("ImageGeneration",), ("ImageOutput",)),
    ("sana", ("ImageGeneration",), ("ImageOutput",)),
    ("image", ("ImageGeneration",), ("ImageOutput",)),
    ("texttoimage", ("ImageGeneration",), ("ImageOutput",)),
    ("ddpm", ("ImageGeneration",), ("ImageOutput",)),
    ("ddim", ("ImageGeneration",), ("ImageOutput",)),
)
#: marks of files that hold the same weights again in another precision
_VARIANTS = (".fp16.", ".fp32.", ".bf16.", ".non_ema.", ".ema.")


def learn(sheet: FactSheet, files: Files) -> None:
    """Learn what a pipeline says.

    Raises:
        NotAModel: the index or a weight file is damaged.
    """
    data = read_small(files, INDEX, _LIMIT)
    if data is None:
        raise NotAModel(INDEX, "is missing or too large")
    name = parse(data, INDEX).get("_class_name")
    if isinstance(name, str):
        lowered = name.lower()
        sheet.exact(architecture=name)
        sheet.derived(family=next((family for mark, family in _FAMILIES if mark in lowered), None))
        for mark, endpoints, features in _TASKS:
            if mark in lowered:
                sheet.derived(supported_endpoint_types=endpoints, supported_features=features)
                break
    _learn_weights(sheet, files)


def _learn_weights(sheet: FactSheet, files: Files) -> None:
    """Count the parts in their plain precision; parts in pickled files have no header to read."""
    tensors = [path for path in files if path.endswith(".safetensors")]
    plain = [path for path in tensors if not _is_variant(path)] or tensors
    parts = {path.rpartition("/")[0] for path in plain}
    pickled = {path.rpartition("/")[0] for path in files if path.endswith(".bin")}
    if pickled - parts:
        return
    weights = Weights()
    add_files(weights, files, sorted(plain))
    counted = weights.parameters(quantization.NONE, tied=None)
    sheet.exact(
        parameter_count=counted[0] if counted else None,
        weight_bytes=weights.weight_bytes,
        tensor_count=weights.tensor_count,
        dtype_bytes=dict(sorted(weights.dtype_bytes.items())),
    )
    sheet.derived(quantization=quantization.from_types(weights.dtype_bytes))


def _is_variant(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(mark in name for mark in _VARIANTS)
