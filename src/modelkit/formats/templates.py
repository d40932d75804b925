"""Chat templates: what a template says about the model, read as text and never run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: what templates that take tools have in common: a branch, a loop or the marks around calls
_TOOL_MARKS = (
    "if tools",
    "in tools",
    "<tools>",
    "tool_call",
    "available_tools",
    "tools is not none",
    "tools is defined",
)


def template_features(templates: Iterable[str]) -> tuple[str, ...]:
    """Return the features that the templates show."""
    lowered = (template.lower() for template in templates)
    return ("ToolCalling",) if any(mark in text for text in lowered for mark in _TOOL_MARKS) else ()
