"""What a checkpoint's class can be asked: endpoint types and features, by table, else by its name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from modelkit.formats.companions import EMBEDDER_FILES
from modelkit.formats.config import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from modelkit.facts import FactSheet
    from modelkit.reading import Files

_SUFFIXES = (
    *("ForCausalLM", "ForConditionalGeneration", "ForSequenceClassification", "ForTokenClassification"),
    *("ForQuestionAnswering", "ForMaskedLM", "LMHeadModel", "ChatModel", "Model"),
)
_TEXT = ("Chat", "TextGeneration")
_PICTURES = ("Chat", "ImageToText")
#: name's end -> endpoint types, for classes that no table lists; the first that fits
_BY_SUFFIX: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ForCausalLM", _TEXT),
    ("ForConditionalGeneration", _TEXT),
    ("ChatModel", _TEXT),
    ("LMHeadModel", _TEXT),
    ("ForTextEncoding", ("Embeddings",)),
    ("EmbeddingModel", ("Embeddings",)),
    ("ForSequenceClassification", ("Rerank",)),
    ("ForImageClassification", ("ImageClassification",)),
    ("ForObjectDetection", ("ObjectDetection",)),
    ("Segmentation", ("ImageSegmentation",)),
    ("ForSpeechSeq2Seq", ("SpeechToText",)),
    ("ForCTC", ("SpeechToText",)),
    ("ForTextToSpeech", ("TextToSpeech",)),
    ("ForTokenClassification", ()),
    ("Classification", ()),
    ("RewardModel", ()),
    ("ForRewardModeling", ()),
    ("Model", ("Embeddings",)),
)
_BY_ENDPOINT = {
    "ImageClassification": ("VisionInput",),
    "ObjectDetection": ("VisionInput",),
    "ImageSegmentation": ("VisionInput",),
    "ImageToText": ("VisionInput", "MultiModalInput"),
    "VisualQuestionAnswering": ("VisionInput", "MultiModalInput"),
    "SpeechToText": ("AudioInput",),
    "TextToSpeech": ("AudioOutput",),
    "AudioGeneration": ("AudioOutput",),
    "ImageGeneration": ("ImageOutput",),
    "VideoGeneration": ("VideoOutput",),
}


class _Classes(msgspec.Struct, frozen=True):
    classes: dict[str, int]
    sets: list[tuple[tuple[str, ...], tuple[str, ...]]]


@cache
def _classes() -> _Classes:
    return msgspec.json.decode(table("architectures.json"), type=_Classes)


def family_of(architecture: str) -> str | None:
    """Return the family that a class name begins with."""
    for suffix in _SUFFIXES:
        if architecture.endswith(suffix) and len(architecture) > len(suffix):
            return architecture.removesuffix(suffix).lower()
    return architecture.lower() or None


def learn(sheet: FactSheet, architecture: str, config: Mapping[str, Any], files: Files) -> None:
    """Learn endpoint types and features of a class."""
    number = _classes().classes.get(architecture)
    if number is not None:
        endpoints, features = _classes().sets[number]
    else:
        endpoints, features = _by_name(architecture, config)
    if "Rerank" in endpoints and architecture.endswith("Classification") and _labels(config) != 1:
        endpoints = tuple(one for one in endpoints if one != "Rerank")
    if "Chat" in endpoints and any(path in files for path in EMBEDDER_FILES):
        endpoints = ("Embeddings",)
    implied = tuple(feature for one in endpoints for feature in _BY_ENDPOINT.get(one, ()))
    shown = sheet.value("supported_features") or ()
    sheet.forget("supported_features")
    sheet.derived(
        supported_endpoint_types=endpoints,
        supported_features=tuple(dict.fromkeys((*features, *implied, *shown))),
    )


def _by_name(architecture: str, config: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    endpoints = next((found for suffix, found in _BY_SUFFIX if architecture.endswith(suffix)), ())
    features: tuple[str, ...] = ()
    if endpoints == _TEXT:
        if isinstance(config.get("vision_config"), dict):
            endpoints, features = _PICTURES, ("VisionInput", "MultiModalInput")
        if isinstance(config.get("audio_config"), dict):
            features = (*features, "AudioInput")
    return endpoints, features


def _labels(config: Mapping[str, Any]) -> int:
    """Return the number of labels of a classifier; two where the configuration does not say."""
    names = config.get("id2label")
    if isinstance(names, dict) and names:
        return len(names)
    number = config.get("num_labels")
    return number if isinstance(number, int) else 2
