"""The certificate that an administrator has made for External orders: a copy beside every order.

An Ingress takes its certificate from a Secret of its own namespace. So the one Secret that the class, or the
module, names is copied there, follows it and goes with the order.

What belongs here: what the copy has to be, and what is wrong with the original. What does not: reading and
writing either.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiinference.api.reasons import ExposureType, HttpsMode, OrderReason
from aiinference.workload import names
from kubekit import certcheck

if TYPE_CHECKING:
    from datetime import datetime

    from aiinference.api.orders import InferenceService
    from aiinference.workload.intent import Served
    from kubekit.resources import Secret

CERTIFICATE, KEY = "tls.crt", "tls.key"
TYPE = "kubernetes.io/tls"
_PARTS = (CERTIFICATE, KEY)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is nothing to copy."""

    reason: OrderReason
    message: str


def is_copied(intent: Served) -> bool:
    """Tell whether the order is served with a certificate of the administrator's."""
    exposure = intent.policy.exposure
    custom = exposure.https is not None and exposure.https.mode == HttpsMode.CUSTOM_CERTIFICATE
    return exposure.type == ExposureType.EXTERNAL and bool(intent.host) and custom


def original(intent: Served) -> str | None:
    """Return the name of the administrator's Secret."""
    https = intent.policy.exposure.https
    return https.secret_name if https else None


def fault(intent: Served, place: str, source: Secret | None, now: datetime) -> Fault | None:
    """Return what is wrong with the administrator's Secret, which lies in the namespace ``place``."""
    name, host = original(intent), intent.host or ""
    if name is None:
        return Fault(
            OrderReason.CERTIFICATE_MISSING,
            f"{host} is to be served with a certificate of the administrator's, and no Secret is named for "
            f"it. Ask the administrator to name one of namespace {place}.",
        )
    if source is None or any(not source.data.get(part) for part in _PARTS):
        lacks = "does not exist" if source is None else f"lacks {CERTIFICATE} or {KEY}"
        return Fault(
            OrderReason.CERTIFICATE_MISSING,
            f"The Secret {place}/{name} with the certificate for {host} {lacks}. Ask the administrator to "
            f"put the certificate there, as {CERTIFICATE} and {KEY}; Secrets of other namespaces are not "
            "read.",
        )
    wrong = certcheck.fault(source.data[CERTIFICATE], source.data[KEY], host, now)
    if wrong is None:
        return None
    return Fault(
        OrderReason.CERTIFICATE_INVALID,
        f"The certificate in Secret {place}/{name} cannot serve {host}: {wrong}. Ask the administrator to "
        "replace it.",
    )


def copy(order: InferenceService, source: Secret) -> dict[str, Any]:
    """Return the copy, which holds the pair and nothing else of the original."""
    data = {part: base64.b64encode(source.data[part]).decode() for part in _PARTS}
    head = names.metadata(order, names.certificate(order.metadata.name))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": head, "type": TYPE, "data": data}


def is_current(present: Secret, source: Secret, order: InferenceService) -> bool:
    """Tell whether the copy is as it should be."""
    wanted = names.labels(order.metadata.name).items()
    same = all(present.data.get(part) == source.data[part] for part in _PARTS)
    return same and wanted <= present.metadata.labels.items()
