"""What an order's objects are built from.

What belongs here: the frozen inputs. What does not: where they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiinference.api.reasons import Authentication, ExposureType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiinference.api.orders import InferenceService
    from aiinference.classes.policy import EffectivePolicy
    from aiinference.planner.contract import LaunchPlan


@dataclass(frozen=True)
class Settings:
    """What every order of this installation has."""

    gate_image: str
    #: the module's own, where certificates for orders lie
    namespace: str = "d8-ai-inference"
    ingress_class: str | None = None
    #: namespaces from which metrics are read; () = no PodMonitor, and nobody may
    monitoring_namespaces: tuple[str, ...] = ()
    body_limit_bytes: int = 256 << 20
    #: how long an answer may take to begin, and one piece of it to follow another
    answer_seconds: int = 3600
    #: how long a Pod that goes has for the answers that are on their way
    grace_seconds: int = 120
    tolerations: tuple[Mapping[str, Any], ...] = ()
    node_selector: Mapping[str, str] | None = None
    image_pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Served:
    """What decides how an order is reached, and by whom."""

    order: InferenceService
    policy: EffectivePolicy
    #: None for an order without a class
    endpoint_type: str | None
    #: the host that is reserved for the order; None when it is not reached from outside
    host: str | None
    replicas: int

    @property
    def name(self) -> str:
        """Return the name of the order and of everything that belongs to it."""
        return self.order.metadata.name

    @property
    def keys(self) -> bool:
        """Tell whether the API asks for a key."""
        return self.policy.exposure.authentication == Authentication.TOKEN

    @property
    def proxied(self) -> bool:
        """Tell whether clients come through an ingress, which says who they are."""
        return self.policy.exposure.type == ExposureType.EXTERNAL


@dataclass(frozen=True, kw_only=True)
class Intent(Served):
    """Everything that decides what an order runs as."""

    plan: LaunchPlan
    #: digest of what the order asks for
    asked: str
    #: how long a replica may take until it answers, worked out from the model's size
    startup_seconds: int


@dataclass(frozen=True, kw_only=True)
class Upkeep(Served):
    """What runs goes on as it was made while nothing new is decided: it may be closed, and never opened.

    Its policy says how it runs, which may be another than its class wants by now.
    """

    #: the annotations of its StatefulSet
    noted: Mapping[str, str]
    #: the template of its Pods; None when it is not known for sure, and then nobody touches it
    template: Mapping[str, Any] | None
    #: whether it is not to be reached from outside any more
    closed: bool
