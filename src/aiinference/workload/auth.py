"""The key of an order: made once, replaced on demand with both keys valid for a while, never overwritten.

What belongs here: which step comes next, and the manifests. What does not: when it is looked at, and the
randomness of a key.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from aiinference.api.fields import GROUP
from aiinference.api.orders import ROTATE_TOKEN_ANNOTATION
from aiinference.workload import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiinference.api.orders import InferenceService
    from kubekit.resources import Secret

TOKEN, PREVIOUS = "token", "previousToken"
#: on the Secret: which wish for a rotation it answers, and when the newest key was made
ROTATED_FOR_ANNOTATION = f"{GROUP}/rotated-for"
ROTATED_AT_ANNOTATION = f"{GROUP}/rotated-at"
#: Kubelets take a minute or two to bring a new key into Pods, and clients some more to fetch it.
OVERLAP = timedelta(minutes=10)
#: clocks of two processes may differ by so much; what is said to be made later than that was not
_SKEW = timedelta(minutes=1)


class Step(StrEnum):
    """What is to be done with the Secret."""

    CREATE = "create"
    REPLACE = "replace"
    KEEP = "keep"
    #: another Secret of this name is in the way
    CONFLICT = "conflict"
    #: that of an earlier order of this name is still there, and goes with it
    WAIT = "wait"


@dataclass(frozen=True)
class KeyPlan:
    """The next step, with the manifest to create, or to replace exactly the version that was read with."""

    step: Step
    manifest: dict[str, Any] | None = None
    #: when to look again without being woken
    again: timedelta | None = None
    message: str = ""


def plan(
    order: InferenceService, secret: Secret | None, now: datetime, make_key: Callable[[], str]
) -> KeyPlan:
    """Return what the Secret of an order that asks for keys needs now."""
    wish = order.metadata.annotations.get(ROTATE_TOKEN_ANNOTATION, "")
    if secret is None:
        return KeyPlan(Step.CREATE, _secret(order, {TOKEN: make_key().encode()}, wish, now))
    present = {name: secret.data[name] for name in (TOKEN, PREVIOUS) if secret.data.get(name)}
    if not secret.metadata.belongs_to(order.metadata):
        return _foreign(order, secret, present)
    answered = secret.metadata.annotations.get(ROTATED_FOR_ANNOTATION, "")
    if TOKEN in present and PREVIOUS in present:
        return _rotating(order, secret, present, answered, now)
    if TOKEN in present and wish in {"", answered}:
        return KeyPlan(Step.KEEP)
    keys = {TOKEN: make_key().encode()} | ({PREVIOUS: present[TOKEN]} if TOKEN in present else {})
    return KeyPlan(Step.REPLACE, _replacing(order, secret, keys, wish, now), again=OVERLAP)


def probe_key(secret: Secret) -> str | None:
    """Return the key that every Pod knows already: while one is being replaced, the old one."""
    value = secret.data.get(PREVIOUS) or secret.data.get(TOKEN)
    return value.decode(errors="replace").strip() if value else None


def reader(order: InferenceService) -> dict[str, Any]:
    """Return the Role with which an administrator of the namespace hands the key out."""
    name = order.metadata.name
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [names.auth_secret(name)],
        "verbs": ["get"],
    }
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": names.metadata(order, names.auth_reader(name)),
        "rules": [rule],
    }


def _rotating(
    order: InferenceService, secret: Secret, both: dict[str, bytes], answered: str, now: datetime
) -> KeyPlan:
    """Let the old key go when its time is over; a further rotation waits until then."""
    made = _time(secret.metadata.annotations.get(ROTATED_AT_ANNOTATION, ""))
    left = made + OVERLAP - now if made else timedelta()
    if left > OVERLAP + _SKEW:
        # A clock that was ahead would keep the old key for ever: its time begins anew by the clock of now.
        return KeyPlan(Step.REPLACE, _replacing(order, secret, both, answered, now), again=OVERLAP)
    if left > timedelta():
        return KeyPlan(Step.KEEP, again=left)
    # What has just ended may be followed by a rotation that was asked for meanwhile.
    manifest = _replacing(order, secret, {TOKEN: both[TOKEN]}, answered, made or now)
    return KeyPlan(Step.REPLACE, manifest, again=timedelta())


def _foreign(order: InferenceService, secret: Secret, present: dict[str, bytes]) -> KeyPlan:
    """Use a Secret that somebody else has made, or say why it does not do."""
    name = names.auth_secret(order.metadata.name)
    if names.is_of_earlier(order, secret.metadata):
        text = f"The Secret {name} is of an earlier order of this name and is about to be deleted with it."
        return KeyPlan(Step.WAIT, message=text)
    if TOKEN in present:
        return KeyPlan(Step.KEEP)
    return KeyPlan(
        Step.CONFLICT,
        message=f"The Secret {name} was not made for this order and has no value {TOKEN}. Delete it, or "
        f"put a key of 16 to 200 letters, digits, '_', '-' and '.' under {TOKEN}.",
    )


def _secret(order: InferenceService, keys: dict[str, bytes], answered: str, made: datetime) -> dict[str, Any]:
    head = names.metadata(order, names.auth_secret(order.metadata.name))
    head["annotations"] = {
        ROTATED_FOR_ANNOTATION: answered,
        ROTATED_AT_ANNOTATION: made.astimezone(UTC).isoformat(),
    }
    data = {name: base64.b64encode(value).decode() for name, value in keys.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": head, "type": "Opaque", "data": data}


def _replacing(
    order: InferenceService, secret: Secret, keys: dict[str, bytes], answered: str, made: datetime
) -> dict[str, Any]:
    manifest = _secret(order, keys, answered, made)
    manifest["metadata"]["resourceVersion"] = secret.metadata.resource_version
    return manifest


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
