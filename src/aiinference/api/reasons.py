"""The closed vocabularies of ai-inference: phases, condition types, reasons, words of spec and status.

What belongs here: the words. What they mean and what to do stands in ``meanings``; both make docs/reasons.md.
"""

from enum import StrEnum


class ClassPhase(StrEnum):
    """Whether a class can be used; derived from the conditions."""

    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


class ClassCondition(StrEnum):
    """What is said about a class, in the order in which it becomes true."""

    VALIDATED = "Validated"
    READY = "Ready"


class ClassReason(StrEnum):
    """Why a condition of a class is as it is."""

    PENDING = "Pending"
    VALIDATED = "Validated"
    READY = "Ready"
    ACCELERATOR_POLICY_VIOLATION = "AcceleratorPolicyViolation"
    DEVICE_CLASS_MISSING = "DeviceClassMissing"
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"


class OrderPhase(StrEnum):
    """Where an order is on its way; derived from the conditions."""

    PENDING = "Pending"
    READY = "Ready"
    FAILED = "Failed"


class OrderCondition(StrEnum):
    """What is said about an order, in the order in which it becomes true."""

    CLASS_RESOLVED = "ClassResolved"
    MODEL_RESOLVED = "ModelResolved"
    PLANNED = "Planned"
    RUNTIME_CURRENT = "RuntimeCurrent"
    WORKLOAD_READY = "WorkloadReady"
    SCALING_HEALTHY = "ScalingHealthy"
    READY = "Ready"


class OrderReason(StrEnum):
    """Why a condition of an order is as it is."""

    # as it should be
    CLASS_RESOLVED = "ClassResolved"
    BUILT_IN_POLICY = "BuiltInPolicy"
    MODEL_RESOLVED = "ModelResolved"
    LAUNCH_PLAN_CALCULATED = "LaunchPlanCalculated"
    RUNTIME_CURRENT = "RuntimeCurrent"
    WORKLOAD_READY = "WorkloadReady"
    SCALING_HEALTHY = "ScalingHealthy"
    READY = "Ready"
    # on the way
    PENDING = "Pending"
    UPDATING = "Updating"
    STARTING = "Starting"
    MODEL_DELIVERY_PENDING = "ModelDeliveryPending"
    # the class
    CLASS_NOT_FOUND = "ClassNotFound"
    CLASS_NOT_READY = "ClassNotReady"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    DOMAIN_MISSING = "DomainMissing"
    # the model
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_NOT_READY = "ModelNotReady"
    ENDPOINT_TYPE_NOT_SUPPORTED = "EndpointTypeNotSupported"
    PARAMETER_COUNT_EXCEEDED = "ParameterCountExceeded"
    PARAMETER_COUNT_UNKNOWN = "ParameterCountUnknown"
    AUTH_SECRET_MISSING = "AuthSecretMissing"  # noqa: S105 - a word, no secret
    AUTH_SECRET_KEY_MISSING = "AuthSecretKeyMissing"  # noqa: S105 - a word, no secret
    CATALOG_DISABLED = "CatalogDisabled"
    CATALOG_UNAVAILABLE = "CatalogUnavailable"
    UNSUPPORTED_SOURCE = "UnsupportedSource"
    # the plan
    CLAIM_DEVICE_MISSING = "ClaimDeviceMissing"
    NO_CAPACITY = "NoCapacity"
    QUANTIZATION_MISMATCH = "QuantizationMismatch"
    NO_COMPATIBLE_RUNTIME_AVAILABLE = "NoCompatibleRuntimeAvailable"
    ACCELERATOR_POLICY_VIOLATION = "AcceleratorPolicyViolation"
    INVENTORY_UNAVAILABLE = "InventoryUnavailable"
    PLANNER_UNAVAILABLE = "PlannerUnavailable"
    # objects and Pods
    OBJECT_CONFLICT = "ObjectConflict"
    OBJECT_REFUSED = "ObjectRefused"
    CERTIFICATE_MISSING = "CertificateMissing"
    CERTIFICATE_INVALID = "CertificateInvalid"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    INVALID_ARGUMENT = "InvalidArgument"
    RUNTIME_CRASHED = "RuntimeCrashed"
    STARTUP_DEADLINE_EXCEEDED = "StartupDeadlineExceeded"
    # scaling
    SCALING_LIMITED = "ScalingLimited"
    METRICS_UNAVAILABLE = "MetricsUnavailable"
    # the answer
    HEALTH_CHECK_FAILED = "HealthCheckFailed"
    SERVICE_UNHEALTHY = "ServiceUnhealthy"


class EndpointType(StrEnum):
    """The inference APIs that a class may allow and an order may get."""

    CHAT = "Chat"
    EMBEDDINGS = "Embeddings"
    RERANK = "Rerank"


class ExposureType(StrEnum):
    """From where the inference API is reached."""

    EXTERNAL = "External"
    CLUSTER_LOCAL = "ClusterLocal"


class Authentication(StrEnum):
    """Whether a request needs the order's key."""

    TOKEN = "Token"  # noqa: S105 - a word, no secret
    NONE = "None"


class HttpsMode(StrEnum):
    """Where the certificate of an external address comes from."""

    CERT_MANAGER = "CertManager"
    CUSTOM_CERTIFICATE = "CustomCertificate"
    ONLY_IN_URI = "OnlyInURI"
    DISABLED = "Disabled"


class SharingMode(StrEnum):
    """Whether an order has its device, or its partition of one, for itself."""

    SHARED = "Shared"
    DEDICATED = "Dedicated"


class PlacementMode(StrEnum):
    """What of a device an order is placed on."""

    WHOLE_DEVICE = "WholeDevice"
    PARTITION = "Partition"


class Fallback(StrEnum):
    """What is planned with when the cluster has no accelerators."""

    NONE = "None"
    CPU = "CPU"


class UpdateStrategy(StrEnum):
    """How running replicas are replaced."""

    ROLLING_UPDATE = "RollingUpdate"
    RECREATE = "Recreate"
    ON_DELETE = "OnDelete"


class ModelSource(StrEnum):
    """Where an order's model comes from; ``spec.model.src``."""

    HUGGING_FACE = "HuggingFace"
    AI_MODELS = "ai-models"


class ModelKind(StrEnum):
    """Kinds of the catalogue's objects; ``spec.model.ref.kind``."""

    MODEL = "Model"
    CLUSTER_MODEL = "ClusterModel"


class ModelScope(StrEnum):
    """To whom the catalogue's model belongs; ``status.constraints.modelScope``."""

    CLUSTER = "Cluster"
    NAMESPACED = "Namespaced"


class LaunchStrategy(StrEnum):
    """Which branch of a recipe is taken."""

    LATENCY = "Latency"
    THROUGHPUT = "Throughput"
    BALANCE = "Balance"


class StartupPhase(StrEnum):
    """What the slowest starting replica is doing; ``status.startup.phase``."""

    SCHEDULING = "Scheduling"
    MOUNTING = "Mounting"
    PULLING = "Pulling"
    LOADING = "Loading"
    ANSWERING = "Answering"
    DONE = "Done"
