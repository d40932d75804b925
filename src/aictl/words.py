"""Models in the words of people: times, facts, why one waits, what to do with it.

Pure; unknown is left out, never shown as zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from aimodels.api import meanings
from modelkit import sizes

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.api.model import AnyModel, ResolvedStatus
    from kubekit.conditions import Condition

_AGES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_CONTEXT_UNIT = 1024
_TWO_UNITS = 10


def age(since: datetime | None, now: datetime) -> str:
    """Return how long ago something was, as kubectl does: ``45s``, ``6m``, ``3d``."""
    if since is None:
        return ""
    seconds = max(0, int((now - since).total_seconds()))
    for factor, unit in _AGES:
        if seconds >= 2 * factor or unit == "s":
            return f"{seconds // factor}{unit}"
    raise AssertionError


def seconds(value: float) -> str:
    """Return a duration for people: ``4.2 s``, ``43 s``, ``3 min 5 s``."""
    if value < _TWO_UNITS:
        return f"{value:.1f} s"
    whole = round(value)
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes else f"{whole} s"


def facts(resolved: ResolvedStatus | None) -> str:
    """Return what is known of a model, as in ``GGUF, gemma3, 268 M parameters, Q4_K_M, 32 K context``."""
    if resolved is None:
        return ""
    parts = [resolved.format, resolved.family]
    if resolved.parameter_count:
        parts.append(f"{sizes.count(resolved.parameter_count)} parameters")
    parts.append(resolved.quantization)
    if resolved.context_window_tokens:
        parts.append(f"{context(resolved.context_window_tokens)} context")
    return ", ".join(part for part in parts if part)


def context(tokens: int) -> str:
    """Return a context window: ``32 K`` where it is whole, the number where not."""
    return f"{tokens // _CONTEXT_UNIT} K" if tokens % _CONTEXT_UNIT == 0 else f"{tokens} tokens"


def condition(model: AnyModel, kind: str) -> Condition | None:
    """Return one condition of a model."""
    conditions = model.status.conditions if model.status else ()
    return next((one for one in conditions if one.type == kind), None)


def phase(model: AnyModel) -> str:
    """Return the phase; a model that no controller looked at yet has none."""
    return (model.status.phase if model.status else None) or ""


def reason(model: AnyModel) -> str:
    """Return why the model is where it is, as the REASON column has it."""
    ready = condition(model, "Ready")
    return ready.reason if ready else ""


def message(model: AnyModel) -> str:
    """Return the text of the first condition that is not true, else that of Ready."""
    conditions = model.status.conditions if model.status else ()
    first = next((one for one in conditions if one.status != "True" and one.message), None)
    return first.message if first else ""


def passes_by_itself(reason: str) -> bool:
    """Tell whether a reason names an obstacle that is waited out."""
    return any(word == reason and meaning.recovers is True for word, meaning in meanings.MODEL.items())


def progress(model: AnyModel) -> str:
    """Return how far the work is: percentage, bytes, place in the queue; what is unknown is left out."""
    status = model.status
    if status is None:
        return ""
    parts = [status.progress]
    moving = status.transfer
    if moving:
        if moving.queue_position:
            parts.append(f"place {moving.queue_position} in the queue")
        if moving.bytes is not None and moving.total_bytes:
            parts.append(f"{sizes.text(moving.bytes)} of {sizes.text(moving.total_bytes)}")
        if moving.bytes_per_second:
            parts.append(f"{sizes.text(moving.bytes_per_second)}/s")
    return ", ".join(part for part in parts if part)


def document(model: AnyModel) -> dict[str, Any]:
    """Return a model as one JSON document with stable keys: kind, namespace, name, and its status."""
    found: dict[str, Any] = {"kind": model.KIND.name}
    if model.KIND.namespaced:
        found["namespace"] = model.metadata.namespace
    found["name"] = model.metadata.name
    found["phase"] = phase(model)
    found["reason"] = reason(model)
    found["message"] = message(model)
    status = msgspec.to_builtins(model.status) if model.status else {}
    return found | {
        key: status[key] for key in ("progress", "transfer", "artifact", "resolved") if key in status
    }
