"""The policy that holds for an order: the class's, and what the platform has built in for all it leaves out.

What belongs here: one frozen value, and how it follows from a class or from none. What does not: whether a
class is in order (``decide``) and what follows for an order.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """What of the cluster's accelerators orders may use; absent lists restrict nothing."""

    allowed_device_classes: tuple[str, ...] | None = None
    sharing_modes: tuple[str, ...] = ("Shared", "Dedicated")
    placement_types: tuple[str, ...] = ("WholeDevice", "Partition")
    max_count: int = 1
    min_share: int = 1
    max_share: int = 100
    fallback: str = "None"


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
