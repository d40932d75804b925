"""The closed vocabularies of ai-models: phases, condition types, reasons, events, words of the status.

What belongs here: the words. What they mean and what to do stands in ``meanings``; both make docs/reasons.md.
"""

from enum import StrEnum


class Phase(StrEnum):
    """Where a model is on its way; derived from the conditions."""

    PENDING = "Pending"
    WAIT_FOR_UPLOAD = "WaitForUpload"
    PUBLISHING = "Publishing"
    READY = "Ready"
    FAILED = "Failed"
    DELETING = "Deleting"


class ConditionType(StrEnum):
    """What is said about a model, in the order in which it becomes true."""

    STORAGE_AVAILABLE = "StorageAvailable"
    SOURCE_CHECKED = "SourceChecked"
    PROGRESSING = "Progressing"
    ARTIFACT_RESOLVED = "ArtifactResolved"
    METADATA_RESOLVED = "MetadataResolved"
    EVALUATION_STORE = "EvaluationStore"
    READY = "Ready"


class ModelReason(StrEnum):
    """Why a condition of a model is as it is."""

    # on the way
    PENDING = "Pending"
    WAITING_FOR_USER_UPLOAD = "WaitingForUserUpload"
    PUBLISHING = "Publishing"
    DOWNLOADING = "Downloading"
    PACKAGING = "Packaging"
    VERIFYING = "Verifying"
    DELETING = "Deleting"
    # as it should be
    SOURCE_ACCEPTED = "SourceAccepted"
    STORAGE_AVAILABLE = "StorageAvailable"
    ARTIFACT_PUBLISHED = "ArtifactPublished"
    MODEL_METADATA_CALCULATED = "ModelMetadataCalculated"
    MODEL_METADATA_PARTIAL = "ModelMetadataPartial"
    EVALUATION_STORE = "EvaluationStore"
    READY = "Ready"
    # waiting for something that recovers
    STORAGE_UNAVAILABLE = "StorageUnavailable"
    STALLED = "Stalled"
    IN_USE = "InUse"
    # failed
    UNSUPPORTED_SOURCE = "UnsupportedSource"
    PUBLICATION_FAILED = "PublicationFailed"
    INSUFFICIENT_STORAGE = "InsufficientStorage"
    MANIFEST_INVALID = "ManifestInvalid"
    ACCESS_DENIED = "AccessDenied"
    LICENCE_NOT_ACCEPTED = "LicenceNotAccepted"
    REVISION_NOT_FOUND = "RevisionNotFound"
    AUTH_SECRET_MISSING = "AuthSecretMissing"  # noqa: S105 - a word, no secret
    # catalogues
    CATALOG_AUTH_FAILED = "CatalogAuthFailed"
    CATALOG_TLS_INVALID = "CatalogTLSInvalid"
    CATALOG_SOURCE_NOT_READY = "CatalogSourceNotReady"
    CATALOG_SOURCE_AMBIGUOUS = "CatalogSourceAmbiguous"
    CATALOG_SOURCE_MISSING = "CatalogSourceMissing"
    CATALOG_ENTRY_NOT_FOUND = "CatalogEntryNotFound"
    CATALOG_ENTRY_NOT_ALLOWED = "CatalogEntryNotAllowed"
    CATALOG_ENTRY_CHANGED = "CatalogEntryChanged"


class DeliveryBlockedReason(StrEnum):
    """Values of a workload's annotation ``ai.deckhouse.io/model-delivery-blocked-reason``."""

    SHARED_PVC_STORAGE_CLASS_MISSING = "SharedPVCStorageClassMissing"
    SHARED_PVC_STORAGE_CLASS_AMBIGUOUS = "SharedPVCStorageClassAmbiguous"
    SHARED_PVC_QUOTA_EXCEEDED = "SharedPVCQuotaExceeded"
    SHARED_PVC_CLAIM_PENDING = "SharedPVCClaimPending"
    SHARED_PVC_MATERIALIZER_PENDING = "SharedPVCMaterializerPending"
    INVALID_SPEC = "InvalidSpec"
    DUPLICATE_MODEL_NAME = "DuplicateModelName"
    INSUFFICIENT_NODE_CACHE_CAPACITY = "InsufficientNodeCacheCapacity"
    NODE_CACHE_DELIVERY_DISABLED = "NodeCacheDeliveryDisabled"


class ModelEvent(StrEnum):
    """Events about a model, on transitions only."""

    UPLOAD_SESSION_ISSUED = "UploadSessionIssued"
    REMOTE_FETCH_STARTED = "RemoteFetchStarted"
    RAW_STAGED = "RawStaged"
    PUBLICATION_SUCCEEDED = "PublicationSucceeded"
    PUBLICATION_FAILED = "PublicationFailed"


class WorkloadEvent(StrEnum):
    """Events about a workload, on transitions only."""

    MODEL_DELIVERY_APPLIED = "ModelDeliveryApplied"
    MODEL_DELIVERY_PENDING = "ModelDeliveryPending"
    MODEL_DELIVERY_REMOVED = "ModelDeliveryRemoved"
    MODEL_DELIVERY_BLOCKED = "ModelDeliveryBlocked"
    MODEL_DELIVERY_FAILED = "ModelDeliveryFailed"
    INVALID_MODEL_REFERENCE = "InvalidModelReference"


class DeliveryMode(StrEnum):
    """Values of a template's annotation ``ai.deckhouse.io/resolved-delivery-mode``."""

    SHARED_DIRECT = "SharedDirect"
    SHARED_PVC = "SharedPVC"


class DeliveryReason(StrEnum):
    """Values of a template's annotation ``ai.deckhouse.io/resolved-delivery-reason``."""

    NODE_SHARED_RUNTIME_PLANE = "NodeSharedRuntimePlane"
    RWX_SHARED_VOLUME = "RWXSharedVolume"


class TransferStage(StrEnum):
    """What a model's bytes are doing; ``status.transfer.stage``."""

    QUEUED = "Queued"
    UPLOADING = "Uploading"
    DOWNLOADING = "Downloading"
    PACKAGING = "Packaging"
    VERIFYING = "Verifying"


class SourceType(StrEnum):
    """Where a model comes from; ``status.source.resolvedType``."""

    HUGGING_FACE = "HuggingFace"
    OLLAMA = "Ollama"
    UPLOAD = "Upload"
    CATALOG = "Catalog"


class ModelFormat(StrEnum):
    """How the weights are stored; ``status.resolved.format``."""

    SAFETENSORS = "Safetensors"
    GGUF = "GGUF"
    DIFFUSERS = "Diffusers"


class EndpointType(StrEnum):
    """What a model can be asked for; ``status.resolved.supportedEndpointTypes``."""

    CHAT = "Chat"
    TEXT_GENERATION = "TextGeneration"
    EMBEDDINGS = "Embeddings"
    RERANK = "Rerank"
    SPEECH_TO_TEXT = "SpeechToText"
    TEXT_TO_SPEECH = "TextToSpeech"
    TRANSLATION = "Translation"
    IMAGE_CLASSIFICATION = "ImageClassification"
    OBJECT_DETECTION = "ObjectDetection"
    IMAGE_SEGMENTATION = "ImageSegmentation"
    IMAGE_TO_TEXT = "ImageToText"
    VISUAL_QUESTION_ANSWERING = "VisualQuestionAnswering"
    IMAGE_GENERATION = "ImageGeneration"
    VIDEO_GENERATION = "VideoGeneration"
    AUDIO_GENERATION = "AudioGeneration"


class ModelFeature(StrEnum):
    """What a model can do beyond text; ``status.resolved.supportedFeatures``."""

    VISION_INPUT = "VisionInput"
    AUDIO_INPUT = "AudioInput"
    AUDIO_OUTPUT = "AudioOutput"
    IMAGE_OUTPUT = "ImageOutput"
    VIDEO_INPUT = "VideoInput"
    VIDEO_OUTPUT = "VideoOutput"
    MULTI_MODAL_INPUT = "MultiModalInput"
    TOOL_CALLING = "ToolCalling"
