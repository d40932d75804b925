"""The policy that holds for an order: the class's, and what the platform has built in for all it leaves out.

What belongs here: one frozen value, and how it follows from a class or from none. What does not: whether a
class is in order (``decide``) and what follows for an order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiinference.api import quantities
from aiinference.api.classes import AcceleratorPolicy, ExposurePolicy, ScalingPolicy
from aiinference.api.reasons import (
    Authentication,
    ExposureType,
    Fallback,
    HttpsMode,
    PlacementMode,
    SharingMode,
    UpdateStrategy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiinference.api import classes
    from aiinference.api.classes import InferenceServiceClass

EVERY_NAMESPACE = "*"
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Https:
    """How an endpoint outside the cluster gets its certificate."""

    mode: str
    cluster_issuer_name: str | None = None
    secret_name: str | None = None


@dataclass(frozen=True, slots=True)
class Exposure:
    """From where an endpoint is reached, and by whom."""

    type: str
    authentication: str
    #: None when nothing of it is reached from outside
    https: Https | None = None


@dataclass(frozen=True, slots=True)
class Accelerator:
    """What of the cluster's accelerators orders may use."""

    #: None: any
    allowed_device_classes: tuple[str, ...] | None = None
    sharing_modes: tuple[str, ...] = tuple(SharingMode)
    placement_types: tuple[str, ...] = tuple(PlacementMode)
    max_count: int = 1
    min_share: int = 1
    max_share: int = _WHOLE
    fallback: str = Fallback.NONE


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """What holds for an order; an order without a class has no endpoint types and no accelerator."""

    class_name: str | None
    endpoint_types: tuple[str, ...]
    max_parameter_count: int | None
    exposure: Exposure
    #: None: the planner is not asked
    accelerator: Accelerator | None
    #: None: every namespace
    allowed_namespaces: tuple[str, ...] | None
    priority_class: str | None
    min_replicas: int
    max_replicas: int
    update_strategy: str

    def admits(self, namespace: str) -> bool:
        """Tell whether orders of the namespace may use the class."""
        return self.allowed_namespaces is None or namespace in self.allowed_namespaces


#: certificates of an order without a class, as the shipped class has them
BUILT_IN_HTTPS = Https(HttpsMode.CERT_MANAGER, cluster_issuer_name="selfsigned")


def effective(klass: InferenceServiceClass | None, module_https: Https) -> EffectivePolicy:
    """Return what holds under the class, or for an order without one.

    ``module_https`` holds for a class that leaves its certificates to the module's setting.
    """
    if klass is None:
        return _built_in()
    spec = klass.spec
    scaling = spec.scaling_policy or ScalingPolicy()
    least = scaling.min_replicas or 1
    limit = spec.model_policy.max_parameter_count
    return EffectivePolicy(
        class_name=klass.metadata.name,
        endpoint_types=spec.model_policy.allowed_endpoint_types,
        max_parameter_count=None if limit is None else quantities.parse(limit),
        exposure=_exposure(spec.exposure_policy, module_https),
        accelerator=_accelerator(spec.accelerator_policy),
        allowed_namespaces=_namespaces(spec.admission_policy),
        priority_class=next(iter(scaling.allowed_priority_class_names), None),
        min_replicas=least,
        max_replicas=max(least, scaling.max_replicas or least),
        update_strategy=spec.update_policy.strategy if spec.update_policy else UpdateStrategy.ROLLING_UPDATE,
    )


def device_classes(allowed: Iterable[str] | None, ordered: Iterable[str]) -> tuple[str, ...] | None:
    """Return the device classes that class and order have in common, in the order of their names.

    None means any, on either side an absent list; empty means that nothing is left.
    """
    wanted = set(ordered)
    if allowed is None:
        return tuple(sorted(wanted)) or None
    common = set(allowed) & wanted if wanted else set(allowed)
    return tuple(sorted(common))


def _built_in() -> EffectivePolicy:
    return EffectivePolicy(
        class_name=None,
        endpoint_types=(),
        max_parameter_count=None,
        exposure=Exposure(ExposureType.EXTERNAL, Authentication.TOKEN, BUILT_IN_HTTPS),
        accelerator=None,
        allowed_namespaces=None,
        priority_class=None,
        min_replicas=1,
        max_replicas=1,
        update_strategy=UpdateStrategy.ROLLING_UPDATE,
    )


def _exposure(policy: ExposurePolicy | None, module_https: Https) -> Exposure:
    policy = policy or ExposurePolicy(type=ExposureType.EXTERNAL)
    if policy.type == ExposureType.CLUSTER_LOCAL:
        return Exposure(policy.type, policy.authentication)
    return Exposure(policy.type, policy.authentication, _https(policy.https) or module_https)


def _https(given: classes.Https | None) -> Https | None:
    if given is None:
        return None
    issuer = given.cert_manager.cluster_issuer_name if given.cert_manager else None
    secret = given.custom_certificate.secret_name if given.custom_certificate else None
    return Https(given.mode, issuer, secret)


def _accelerator(policy: AcceleratorPolicy | None) -> Accelerator | None:
    if policy is None:
        return None
    return Accelerator(
        allowed_device_classes=policy.allowed_device_classes or None,
        sharing_modes=policy.allowed_sharing_modes or tuple(SharingMode),
        placement_types=policy.allowed_placement_types or tuple(PlacementMode),
        max_count=policy.max_accelerator_count,
        min_share=policy.min_share_percent or 1,
        max_share=policy.max_share_percent or _WHOLE,
        fallback=policy.fallback,
    )


def _namespaces(policy: classes.AdmissionPolicy | None) -> tuple[str, ...] | None:
    if policy is None or not policy.allowed_namespaces or EVERY_NAMESPACE in policy.allowed_namespaces:
        return None
    return policy.allowed_namespaces
