"""InferenceServiceClass, as the API serves it: what an administrator allows and decides for orders.

What belongs here: the Structs, which are also the source of the CRD. What does not: what a class means for
an order when a block is left out (``aiinference.classes``).
"""

from typing import Annotated

from aiinference.api.fields import (
    API_VERSION,
    LABEL_LIMIT,
    Conditions,
    Count,
    ObjectName,
    ParameterCount,
    Part,
    Percent,
    field,
    rule,
    some,
    text,
    words,
)
from aiinference.api.reasons import (
    Authentication,
    ClassPhase,
    EndpointType,
    ExposureType,
    Fallback,
    HttpsMode,
    PlacementMode,
    SharingMode,
    UpdateStrategy,
)
from kubekit.resources import Resource, resource

#: the class that the module ships
DEFAULT_CLASS = "default-llm"

_EndpointType = Annotated[str, words("One inference API.", EndpointType)]
_SharingMode = Annotated[str, words("One way of sharing.", SharingMode)]
_NamespaceName = Annotated[
    str,
    field(
        "One namespace.",
        **text(LABEL_LIMIT),
        **rule(
            "self == '*' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            'this is no name of a namespace; give one name, or "*" alone for every namespace',
        ),
    ),
]
_PlacementMode = Annotated[str, words("One placement.", PlacementMode)]


class ModelPolicy(Part, frozen=True, kw_only=True):
    """Which models an order may have and how they are served."""

    allowed_endpoint_types: Annotated[
        tuple[_EndpointType, ...],
        some("Inference APIs; an order gets the first one that its model can serve.", len(EndpointType)),
    ] = ()
    max_parameter_count: Annotated[
        ParameterCount | None, field("The largest model, for example 70B; absent: any.")
    ] = None


class CertManager(Part, frozen=True, kw_only=True):
    """Certificates are issued by cert-manager."""

    cluster_issuer_name: Annotated[ObjectName, field("Name of the ClusterIssuer.")]


class CustomCertificate(Part, frozen=True, kw_only=True):
    """One certificate for all addresses, made by the administrator."""

    secret_name: Annotated[ObjectName, field("Name of the Secret in the module's namespace.")]


class Https(Part, frozen=True, kw_only=True):
    """Where the certificate of an external address comes from."""

    mode: Annotated[str, words("Where the certificate comes from.", HttpsMode)]
    cert_manager: Annotated[CertManager | None, field("For mode CertManager.")] = None
    custom_certificate: Annotated[CustomCertificate | None, field("For mode CustomCertificate.")] = None


class ExposurePolicy(Part, frozen=True, kw_only=True):
    """From where and by whom the inference API is reached."""

    type: Annotated[str, words("From where it is reached.", ExposureType)]
    authentication: Annotated[
        str, words("Whether a request needs the order's key; absent: Token.", Authentication)
    ] = Authentication.TOKEN
    https: Annotated[
        Https | None, field("Certificates of External addresses; absent: the module's setting.")
    ] = None


class AcceleratorPolicy(Part, frozen=True, kw_only=True):
    """Within which bounds accelerators are planned; absent: no accelerator, and the planner is not asked."""

    allowed_device_classes: Annotated[
        tuple[ObjectName, ...],
        some(
            "DeviceClasses; absent: any.",
            64,
            empty="an empty list would allow no device; name a DeviceClass, or leave the list out for any",
        ),
    ] = ()
    allowed_sharing_modes: Annotated[
        tuple[_SharingMode, ...],
        some(
            "Ways of sharing a device; absent: any.",
            len(SharingMode),
            empty="an empty list would allow no device; name Shared or Dedicated, or leave the list out",
        ),
    ] = ()
    allowed_placement_types: Annotated[
        tuple[_PlacementMode, ...],
        some(
            "Placements; absent: any.",
            len(PlacementMode),
            empty="an empty list would allow no device; name WholeDevice or Partition, or leave it out",
        ),
    ] = ()
    max_accelerator_count: Annotated[
        int, field("Devices per replica at most; absent: 1.", minimum=1, maximum=64)
    ] = 1
    min_share_percent: Annotated[Percent | None, field("The smallest share of a device; absent: 1.")] = None
    max_share_percent: Annotated[Percent | None, field("The largest share; absent: 100.")] = None
    fallback: Annotated[
        str, words("What is planned with while the cluster has no accelerators; absent: None.", Fallback)
    ] = Fallback.NONE


class AdmissionPolicy(Part, frozen=True, kw_only=True):
    """Who may order under the class."""

    allowed_namespaces: Annotated[
        tuple[_NamespaceName, ...],
        some(
            'Namespaces, or "*" for every one; absent: every one.',
            256,
            empty="an empty list would let nobody order; name a namespace, or leave the list out for all",
        ),
    ] = ()


class ScalingPolicy(Part, frozen=True, kw_only=True):
    """How many replicas an order has and how important they are."""

    allowed_priority_class_names: Annotated[
        tuple[ObjectName, ...],
        some(
            "PriorityClasses; an order's Pods get the first one; absent: none.",
            16,
            empty="an empty list names no PriorityClass; name one, or leave the list out",
        ),
    ] = ()
    min_replicas: Annotated[int | None, field("Replicas at least; absent: 1.", minimum=1, maximum=1000)] = (
        None
    )
    max_replicas: Annotated[
        int | None, field("Replicas at most; absent: minReplicas.", minimum=1, maximum=1000)
    ] = None


class UpdatePolicy(Part, frozen=True, kw_only=True):
    """How running replicas are replaced."""

    strategy: Annotated[str, words("How they are replaced; absent: RollingUpdate.", UpdateStrategy)] = (
        UpdateStrategy.ROLLING_UPDATE
    )


class InferenceServiceClassSpec(Part, frozen=True, kw_only=True):
    """What is allowed and decided for orders under this class."""

    # required, by a rule of the CRD that says why
    model_policy: ModelPolicy = ModelPolicy()
    exposure_policy: Annotated[
        ExposurePolicy | None, field("How the API is reached; absent: External with Token.")
    ] = None
    accelerator_policy: AcceleratorPolicy | None = None
    admission_policy: Annotated[AdmissionPolicy | None, field("Who may order; absent: every namespace.")] = (
        None
    )
    scaling_policy: Annotated[ScalingPolicy | None, field("Replicas and priority; absent: one replica.")] = (
        None
    )
    update_policy: Annotated[UpdatePolicy | None, field("Replacement; absent: RollingUpdate.")] = None


class InferenceServiceClassStatus(Part, frozen=True, kw_only=True):
    """What is."""

    observed_generation: Count = 0
    phase: Annotated[str | None, words("Whether orders may use the class.", ClassPhase)] = None
    conditions: Conditions = ()


@resource(API_VERSION, "InferenceServiceClass", "inferenceserviceclasses", namespaced=False)
class InferenceServiceClass(Resource, frozen=True, kw_only=True):
    """A policy under which namespaces order inference."""

    spec: InferenceServiceClassSpec
    status: InferenceServiceClassStatus | None = None
