"""InferenceService, as the API serves it: an order for a model's inference API.

What belongs here: the Structs, which are also the source of the CRD. What does not: anything that a
controller keeps to itself.
"""

from typing import Annotated

import msgspec

from aiinference.api.fields import (
    API_VERSION,
    GROUP,
    NAME_LIMIT,
    Conditions,
    Count,
    ObjectName,
    ParameterCount,
    Part,
    Percent,
    Positive,
    Sentence,
    Time,
    Url,
    field,
    some,
    text,
    words,
)
from aiinference.api.reasons import (
    EndpointType,
    ExposureType,
    LaunchStrategy,
    ModelKind,
    ModelScope,
    ModelSource,
    OrderPhase,
    PlacementMode,
    SharingMode,
    StartupPhase,
)
from kubekit.resources import Resource, resource

ROTATE_TOKEN_ANNOTATION = f"{GROUP}/rotate-token"

#: StatefulSets label their Pods ``<order>-<10 characters>``, and a label has 63
ORDER_NAME_LIMIT = 52


class ModelRef(Part, frozen=True, kw_only=True):
    """Which model: a repository of the hub, or an object of the catalogue."""

    kind: Annotated[str | None, words("Kind of the catalogue's object.", ModelKind)] = None
    namespace: Annotated[
        ObjectName | None, field("Namespace of a Model; it can only be the order's own.")
    ] = None
    name: Annotated[
        str,
        field("Name of the catalogue's object, or id of the repository.", **text(NAME_LIMIT)),
    ]


class SecretKeyRef(Part, frozen=True, kw_only=True):
    """A key in a Secret of the order's namespace."""

    name: Annotated[ObjectName, field("Name of the Secret.")]
    key: Annotated[
        str, field("Key in it; absent: token.", **text(NAME_LIMIT), pattern="^[-._a-zA-Z0-9]+$")
    ] = "token"


class OrderedModel(Part, frozen=True, kw_only=True):
    """The model and where it comes from."""

    src: Annotated[str, words("Where the model comes from.", ModelSource)]
    ref: ModelRef
    auth_secret_ref: Annotated[
        SecretKeyRef | None, field("The hub's token, for a repository that needs one.")
    ] = None
    parameter_count: Annotated[
        ParameterCount | None, field("Size of a model whose source does not tell it, for example 32B.")
    ] = None


class OrderedAccelerator(Part, frozen=True, kw_only=True):
    """What of the class's accelerators is wanted."""

    device_classes: Annotated[
        tuple[ObjectName, ...],
        some(
            "DeviceClasses; narrows the class's list.",
            64,
            empty="an empty list would allow no device; name a DeviceClass, or leave the list out for all "
            "that the class allows",
        ),
    ] = ()


class OrderedResources(Part, frozen=True, kw_only=True):
    """What of the class's resources is wanted."""

    accelerator: OrderedAccelerator | None = None


class InferenceServiceSpec(Part, frozen=True, kw_only=True):
    """What is wanted."""

    inference_service_class_name: Annotated[
        ObjectName | None, field("Name of the InferenceServiceClass; absent: the built-in policy.")
    ] = None
    model: OrderedModel
    launch_strategy: Annotated[
        str, words("What the launch is tuned for; absent: Latency.", LaunchStrategy)
    ] = LaunchStrategy.LATENCY
    resources: OrderedResources | None = None


class ModelStatus(Part, frozen=True, kw_only=True):
    """How the model is served."""

    endpoint_type: Annotated[
        str | None, words("The inference API, chosen from the class's list.", EndpointType)
    ] = None


class EndpointStatus(Part, frozen=True, kw_only=True):
    """Where the inference API is."""

    type: Annotated[str, words("From where it is reached.", ExposureType)]
    url: Annotated[Url | None, field("Address of the API.")] = None
    domain: Annotated[ObjectName | None, field("Host of an External address; kept once given.")] = None
    in_cluster_url: Annotated[Url | None, field("Address of the Service.")] = None


class ConstraintsStatus(Part, frozen=True, kw_only=True):
    """What the class and the model's owner bound the order to."""

    min_replicas: Count | None = None
    max_replicas: Count | None = None
    model_scope: Annotated[str | None, words("To whom the catalogue's model belongs.", ModelScope)] = None


class ResolvedStatus(Part, frozen=True, kw_only=True):
    """The placement that the order runs with."""

    device_class: Annotated[str | None, field("The DeviceClass, or cpu.", maxLength=NAME_LIMIT)] = None
    accelerator_product_name: Annotated[str | None, field("Name of the device.", maxLength=NAME_LIMIT)] = None
    accelerator_memory_gib: Annotated[Positive | None, field("Memory of the device or partition in GiB.")] = (
        msgspec.field(default=None, name="acceleratorMemoryGiB")
    )
    placement_mode: Annotated[str | None, words("What of the device.", PlacementMode)] = None
    sharing_mode: Annotated[str | None, words("Whether others use it too.", SharingMode)] = None
    share_percent: Annotated[Percent | None, field("Share of the device.")] = None
    replan_count: Annotated[Count | None, field("How often the plan was made anew.")] = None


class StartupSeconds(Part, frozen=True, kw_only=True):
    """How long each part of the start took, so far as it is over."""

    scheduling: Count | None = None
    mounting: Count | None = None
    pulling: Count | None = None
    loading: Count | None = None
    answering: Count | None = None


class StartupStatus(Part, frozen=True, kw_only=True):
    """How far the start of the present workload is."""

    phase: Annotated[str, words("What the slowest replica is doing.", StartupPhase)]
    since: Annotated[Time | None, field("When that began.")] = None
    deadline: Annotated[Time | None, field("When the start counts as failed.")] = None
    ready_time: Annotated[Time | None, field("When the API answered for the first time.")] = None
    message: Annotated[Sentence | None, field("More about it, for a person.")] = None
    seconds: Annotated[StartupSeconds | None, field("How long each part took.")] = None


class InferenceServiceStatus(Part, frozen=True, kw_only=True):
    """What is."""

    observed_generation: Count = 0
    phase: Annotated[str | None, words("Where the order is on its way.", OrderPhase)] = None
    model: ModelStatus | None = None
    endpoint: EndpointStatus | None = None
    auth_secret_name: Annotated[ObjectName | None, field("Secret with the key of the API.")] = None
    constraints: ConstraintsStatus | None = None
    resolved: ResolvedStatus | None = None
    share: Annotated[str | None, field("The share for people.", maxLength=8)] = None
    startup: StartupStatus | None = None
    template_digest: Annotated[
        str | None,
        field("Digest of what the StatefulSet says that its Pods were made from.", maxLength=80),
    ] = None
    conditions: Conditions = ()


@resource(API_VERSION, "InferenceService", "inferenceservices")
class InferenceService(Resource, frozen=True, kw_only=True):
    """An order for an inference API."""

    spec: InferenceServiceSpec
    status: InferenceServiceStatus | None = None
