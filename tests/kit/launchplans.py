"""Requests for launch plans, and what they are planned with."""

from __future__ import annotations

from typing import Any

import msgspec

from aiinference.planner.contract import LaunchPlan, LaunchRequest, Refusal
from aiinference.planner.inventory import Inventory
from aiinference.planner.plan import Recipes, plan
from aiinference.recipes.catalogue import shipped

IMAGES = {"llama": "registry.example/llama@sha256:" + "1" * 64}
RECIPES = Recipes(shipped(), IMAGES)
FACTS: dict[str, Any] = {
    "layers": 18,
    "hiddenSize": 640,
    "intermediateSize": 2048,
    "attentionHeads": 4,
    "keyValueHeads": 1,
    "headDim": 256,
    "vocabularySize": 262144,
    "slidingWindow": 512,
    "weightBytes": 246587904,
}
MODEL: dict[str, Any] = {
    "name": "gemma",
    "format": "GGUF",
    "family": "gemma3",
    "architecture": "gemma3",
    "parameterCount": 268098176,
    "quantization": "Q4_K_M",
    "contextWindowTokens": 32768,
    "sizeBytes": 253116800,
    "supportedEndpointTypes": ["Chat", "TextGeneration"],
    "facts": FACTS,
}
ORDER: dict[str, Any] = {"model": MODEL, "endpointType": "Chat", "accelerator": {"fallback": "CPU"}}


def request(model: dict[str, Any] | None = None, **more: Any) -> LaunchRequest:
    """An order for the demo's small model, changed as said; None takes a fact away."""
    facts = {name: value for name, value in (MODEL | (model or {})).items() if value is not None}
    return msgspec.convert(ORDER | {"model": facts} | more, LaunchRequest)


def planned(asked: LaunchRequest, inventory: Inventory | None = None) -> LaunchPlan:
    """The plan; a refusal fails."""
    found = plan(asked, RECIPES, inventory or Inventory())
    assert isinstance(found, LaunchPlan), found
    return found


def refused(asked: LaunchRequest, inventory: Inventory | None = None) -> Refusal:
    """The refusal; a plan fails."""
    found = plan(asked, RECIPES, inventory or Inventory())
    assert isinstance(found, Refusal), found
    return found
