"""Why something is as it is: one answer from an order to its model and its Pods. Pure.

What belongs here: what is said of objects that were read. What does not: reading them (``why``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aictl import orders, words
from aictl.cluster import flags
from aiinference.api.reasons import OrderReason
from aimodels.api import meanings as model_meanings
from aimodels.api.reasons import DeliveryBlockedReason, ModelReason, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from aiinference.api.orders import InferenceService
    from aimodels.api.model import AnyModel
    from kubekit.conditions import Condition
    from kubekit.resources import Pod
    from kubekit.vocabulary import Meaning

_NO_CONTROLLER = "no controller has looked at it yet"
#: What goes on by itself after a person has changed something, and never before: waiting alone does not help.
_CHANGE_FIRST: frozenset[str] = frozenset(
    {
        *(OrderReason.CLASS_NOT_FOUND, OrderReason.CLASS_NOT_READY, OrderReason.NAMESPACE_NOT_ALLOWED),
        *(OrderReason.DOMAIN_MISSING, OrderReason.MODEL_NOT_FOUND, OrderReason.CATALOG_DISABLED),
        *(OrderReason.AUTH_SECRET_MISSING, OrderReason.AUTH_SECRET_KEY_MISSING),
        *(OrderReason.OBJECT_CONFLICT, OrderReason.OBJECT_REFUSED),
        *(OrderReason.CERTIFICATE_MISSING, OrderReason.CERTIFICATE_INVALID),
        *(ModelReason.IN_USE, ModelReason.CATALOG_AUTH_FAILED, ModelReason.CATALOG_TLS_INVALID),
        DeliveryBlockedReason.SHARED_PVC_STORAGE_CLASS_MISSING,
        DeliveryBlockedReason.SHARED_PVC_STORAGE_CLASS_AMBIGUOUS,
        DeliveryBlockedReason.SHARED_PVC_QUOTA_EXCEEDED,
        DeliveryBlockedReason.INVALID_SPEC,
        DeliveryBlockedReason.DUPLICATE_MODEL_NAME,
        DeliveryBlockedReason.INSUFFICIENT_NODE_CACHE_CAPACITY,
        DeliveryBlockedReason.NODE_CACHE_DELIVERY_DISABLED,
    }
)
#: on the way of every delivery, and where it stops when something is in the way of the copy
_COPYING: frozenset[str] = frozenset(
    {
        DeliveryBlockedReason.SHARED_PVC_CLAIM_PENDING,
        DeliveryBlockedReason.SHARED_PVC_MATERIALIZER_PENDING,
    }
)
_PREPARING = (
    "The model is being prepared, which passes by itself; where the message names something in the way, "
    "remove that"
)
#: the scheduler repeats what it says of a claim that is not there
_TWICE, _ONCE = re.compile(r"\b(not found)\. \1\b"), r"\1"


@dataclass(frozen=True)
class Link:
    """One part of the chain: what it is, its name, and how it is."""

    part: str
    name: str
    state: str


@dataclass(frozen=True)
class Named:
    """A model as a workload names it, and what is there under that name."""

    kind: type[AnyModel]
    name: str
    model: AnyModel | None = None
    #: the user may not read it
    hidden: bool = False


@dataclass(frozen=True)
class Explanation:
    """The answer: where it stands, why, since when, what hangs together, what to do."""

    name: str
    phase: str
    ready: bool
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    links: tuple[Link, ...] = field(default=())
    next_step: str = ""
    #: None: nothing is known about that
    passes_by_itself: bool | None = None

    def text(self, now: datetime) -> str:
        """Return it for people."""
        age = words.age(self.since, now)
        head = f"{self.name} is {self.phase or 'new'}"
        why = f": {self.message.rstrip('.')}" if self.message and not self.ready else ""
        reason = f" ({self.reason})" if self.reason and not self.ready else ""
        lines = [f"{head}{why}{reason}{f', since {age}' if age else ''}."]
        width = max((len(link.part) for link in self.links), default=0)
        for link in self.links:
            shown = (link.part.ljust(width), link.name, link.state)
            lines.append("  " + "  ".join(word for word in shown if word))
        if self.next_step and not self.ready:
            lines.append(f"Next: {self.next_step}")
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return it with stable keys."""
        return {
            "name": self.name,
            "phase": self.phase,
            "ready": self.ready,
            "reason": self.reason,
            "message": self.message,
            "since": self.since.isoformat() if self.since else None,
            "chain": [{"part": one.part, "name": one.name, "state": one.state} for one in self.links],
            "nextStep": self.next_step,
            "passesByItself": self.passes_by_itself,
        }


def of_order(order: InferenceService, model: AnyModel | None, pods: Iterable[Pod] | None) -> Explanation:
    """Explain an order; ``model`` and ``pods`` are None where they could not be read."""
    metadata, status = order.metadata, order.status
    wrong = orders.in_the_way(order)
    said = orders.meaning(wrong.reason) if wrong else None
    waits = wrong is not None and wrong.type == "ModelResolved" and model is not None and not _is_ready(model)
    waited = model if waits else None
    return Explanation(
        name=f"InferenceService {metadata.namespace}/{metadata.name}",
        phase=(status.phase if status else None) or "",
        ready=orders.is_ready(order),
        reason=wrong.reason if wrong else "",
        message=wrong.message if wrong else ("" if status else _NO_CONTROLLER),
        since=wrong.last_transition_time if wrong else _ready_since(status.conditions if status else ()),
        links=(*_order_links(order, model), *_pod_links(pods)),
        next_step=_follow(waited) if waited else _step(said),
        passes_by_itself=_passes(wrong.reason if wrong else "", said, waited),
    )


def of_model(model: AnyModel) -> Explanation:
    """Explain a model."""
    reason = words.reason(model)
    entries: Mapping[Any, Meaning] = model_meanings.MODEL
    said = next((entry for word, entry in entries.items() if word == reason), None)
    ready = words.condition(model, "Ready")
    place = f"{model.metadata.namespace}/" if model.KIND.namespaced else ""
    facts = words.facts(model.status.resolved if model.status else None)
    return Explanation(
        name=f"{model.KIND.name} {place}{model.metadata.name}",
        phase=words.phase(model),
        ready=_is_ready(model),
        reason=reason,
        message=words.message(model) or ("" if model.status else _NO_CONTROLLER),
        since=ready.last_transition_time if ready else None,
        links=tuple(
            Link("", "", line) for line in (words.progress(model), facts) if line and not _is_failed(model)
        ),
        next_step=_step(said),
        passes_by_itself=_passes(reason, said, model),
    )


def of_workload(kind: str, name: str, reason: str, message: str, models: Sequence[Named]) -> Explanation:
    """Explain why a workload's models are not there yet; no reason means that nothing is in their way."""
    entries: Mapping[Any, Meaning] = model_meanings.BLOCKED
    said = next((entry for word, entry in entries.items() if word == reason), None)
    step, passes = _step(said), _passes(reason, said)
    if reason in _COPYING:
        step = _PREPARING
        missing = next((one for one in models if one.model is None and not one.hidden), None)
        waited = next(
            (one.model for one in models if one.model is not None and not _is_ready(one.model)), None
        )
        if missing is not None:
            step, passes = f"Create {missing.kind.KIND.name} {missing.name}, or correct the annotation", False
        elif waited is not None:
            step, passes = _follow(waited), _passes(reason, said, waited)
    return Explanation(
        name=f"{kind} {name}",
        phase="waiting for its models" if reason else "supplied with its models",
        ready=not reason,
        reason=reason,
        message=message,
        links=tuple(Link("model", f"{one.kind.KIND.name}/{one.name}", _named_state(one)) for one in models),
        next_step=step,
        passes_by_itself=passes,
    )


def _named_state(named: Named) -> str:
    if named.model is None:
        return "cannot be read by you" if named.hidden else "is not there"
    return model_state(named.model)


def model_state(model: AnyModel | None) -> str:
    """Return in a few words how a model is."""
    if model is None:
        return "cannot be read by you, or is not there"
    if _is_ready(model):
        return "Ready"
    return "  ".join(
        part for part in (words.phase(model) or "new", words.reason(model), words.progress(model)) if part
    )


def _order_links(order: InferenceService, model: AnyModel | None) -> list[Link]:
    spec, status = order.spec, order.status
    conditions = {one.type: one for one in (status.conditions if status else ())}
    links = [
        Link(
            "class",
            spec.inference_service_class_name or "(built-in)",
            _state(conditions.get("ClassResolved")),
        )
    ]
    ref = spec.model.ref
    state = model_state(model) if ref.kind else _state(conditions.get("ModelResolved"))
    links.append(Link("model", f"{ref.kind or spec.model.src}/{ref.name}", state))
    if "Planned" in conditions or "RuntimeCurrent" in conditions:
        device = status.resolved.device_class if status and status.resolved else None
        links.append(Link("plan", device or "cpu", _state(conditions.get("Planned"))))
    if status and status.endpoint and (status.endpoint.url or status.endpoint.in_cluster_url):
        address = status.endpoint.url or status.endpoint.in_cluster_url or ""
        links.append(Link("endpoint", address, status.model.endpoint_type or "" if status.model else ""))
    return links


def _pod_links(pods: Iterable[Pod] | None) -> list[Link]:
    if pods is None:
        return [Link("pods", "", "cannot be read by you")]
    links = []
    for pod in sorted(pods, key=lambda one: one.metadata.name):
        ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
        waiting = next((one for one in pod.status.conditions if one.status != "True" and one.message), None)
        why = f": {_TWICE.sub(_ONCE, waiting.message)}" if waiting and not ready else ""
        links.append(Link("pod", pod.metadata.name, "Ready" if ready else f"{pod.status.phase}{why}"))
    return links


def _state(condition: Condition | None) -> str:
    if condition is None:
        return ""
    return "holds" if condition.status == "True" else f"{condition.reason}: {condition.message}"


def _ready_since(conditions: Iterable[Condition]) -> datetime | None:
    return next((one.last_transition_time for one in conditions if one.type == "Ready"), None)


def _is_ready(model: AnyModel) -> bool:
    ready = words.condition(model, "Ready")
    return ready is not None and ready.status == "True"


def _is_failed(model: AnyModel) -> bool:
    return words.phase(model) == Phase.FAILED


def _follow(model: AnyModel) -> str:
    name, place = model.metadata.name, flags(type(model), model.metadata.namespace)
    return f"`aictl wait {name} {place}` follows the model"


def _passes(reason: str, said: Meaning | None, waited: AnyModel | None = None) -> bool | None:
    """Tell whether waiting alone may help; None when nothing is known about that."""
    if reason in _CHANGE_FIRST or (waited is not None and _is_failed(waited)):
        return False
    return said.recovers if said else None


def _step(said: Meaning | None) -> str:
    if said is None:
        return ""
    return said.do or ("It passes by itself; wait." if said.recovers else "")
