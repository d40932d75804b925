"""Model and ClusterModel, as the API serves them.

What belongs here: the Structs, which are also the source of the CRDs. What does not: anything that a
controller keeps to itself. Words of closed sets are read as plain strings, so that a newer object still
decodes; the CRD holds writers to the sets.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from aimodels.api.reasons import EndpointType, ModelFeature, ModelFormat, Phase, SourceType, TransferStage
from kubekit.conditions import Condition
from kubekit.resources import Resource, resource

GROUP = "ai.deckhouse.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
MODULE_NAMESPACE = "d8-ai-models"

FINALIZER = f"{GROUP}/model-cleanup"
RETRY_ANNOTATION = f"{GROUP}/retry"
FORCE_DELETE_ANNOTATION = f"{GROUP}/force-delete"

_NAME_LIMIT = 253
_URL_LIMIT = 2048


def _field(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema or None)


def _words(description: str, words: Iterable[StrEnum]) -> Meta:
    return _field(description, enum=[str(word) for word in words])


def _set(description: str, most: int) -> Meta:
    return _field(description, maxItems=most, **{"x-kubernetes-list-type": "set"})


_Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
_Positive = Annotated[int, Meta(extra_json_schema={"minimum": 1})]
_Digest = Annotated[str, Meta(extra_json_schema={"pattern": "^sha256:[0-9a-f]{64}$"})]
_ObjectName = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": _NAME_LIMIT})]
_Url = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": _URL_LIMIT})]
_Time = Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]
_Endpoint = Annotated[str, Meta(extra_json_schema={"enum": [str(word) for word in EndpointType]})]
_Feature = Annotated[str, Meta(extra_json_schema={"enum": [str(word) for word in ModelFeature]})]
_Word = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 128})]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all parts: what is unknown is absent."""


class SecretReference(_Part, frozen=True, kw_only=True):
    """A Secret of the Model's namespace; of token, HF_TOKEN, HUGGING_FACE_HUB_TOKEN the first key counts."""

    name: Annotated[_ObjectName, _field("Name of the Secret.")]


class UploadSource(_Part, frozen=True, kw_only=True):
    """The model is uploaded by a user; the object is empty."""


class CatalogSource(_Part, frozen=True, kw_only=True):
    """The model is imported from a ModelCatalogSource."""

    name: Annotated[
        _ObjectName,
        _field("Name of the entry: of a ClusterModel there, or the id of a Hugging Face repository."),
    ]
    source_name: Annotated[
        _ObjectName | None,
        _field("Name of the ModelCatalogSource; may be left out while exactly one is Ready."),
    ] = None


class ModelSource(_Part, frozen=True, kw_only=True):
    """Where the model comes from: exactly one of url, upload, catalog."""

    url: Annotated[
        _Url | None,
        _field("https://huggingface.co/<owner>/<repository> or https://ollama.com/library/<name>[:tag]."),
    ] = None
    auth_secret_ref: Annotated[
        SecretReference | None, _field("Secret with the token for a private repository; Model only.")
    ] = None
    upload: UploadSource | None = None
    catalog: CatalogSource | None = None


class ModelSpec(_Part, frozen=True, kw_only=True):
    """What is wanted."""

    source: ModelSource


class CatalogOrigin(_Part, frozen=True, kw_only=True):
    """What an import from a catalogue was pinned to."""

    source_name: Annotated[_ObjectName | None, _field("The ModelCatalogSource that was chosen.")] = None
    catalog_revision: Annotated[str | None, _field("The catalogue's revision the choice was made from.")] = (
        None
    )
    remote_digest: Annotated[_Digest | None, _field("Digest of the artifact in the other catalogue.")] = None


class SourceStatus(_Part, frozen=True, kw_only=True):
    """What the source turned out to be."""

    resolved_type: Annotated[str | None, _words("Kind of the source.", SourceType)] = None
    resolved_revision: Annotated[
        str | None, _field("Commit of the hub's repository, or tag and digest of a registry.")
    ] = None
    catalog: CatalogOrigin | None = None


class ObservedCatalog(_Part, frozen=True, kw_only=True):
    """The part of spec.source.catalog that was worked on."""

    name: _ObjectName
    source_name: _ObjectName | None = None


class ObservedSource(_Part, frozen=True, kw_only=True):
    """The spec.source that this status speaks of; a Ready status for another one is refused.

    It always has a member: server-side apply makes null of an object that becomes empty.
    """

    type: Annotated[str, _field("Which member of spec.source it is.", enum=["upload", "url", "catalog"])]
    url: _Url | None = None
    catalog: ObservedCatalog | None = None


class UploadStatus(_Part, frozen=True, kw_only=True):
    """How to upload; gone when the model is Ready."""

    secret_name: Annotated[_ObjectName, _field("Secret with url and token of the upload.")]
    expires_at: Annotated[_Time | None, _field("When the upload lapses if no further byte arrives.")] = None


class TransferStatus(_Part, frozen=True, kw_only=True):
    """What the model's bytes are doing; unknown numbers are absent."""

    stage: Annotated[str, _words("What is being done.", TransferStage)]
    bytes: Annotated[_Count | None, _field("Bytes done.")] = None
    total_bytes: Annotated[_Count | None, _field("Bytes to do.")] = None
    bytes_per_second: Annotated[_Count | None, _field("Speed since the last report.")] = None
    eta_seconds: Annotated[_Count | None, _field("Seconds left at that speed.")] = None
    last_progress_time: Annotated[_Time | None, _field("When the last byte moved.")] = None
    queue_position: Annotated[
        _Positive | None, _field("Place among the models that wait for a free publication; 1 is next.")
    ] = None


class ArtifactStatus(_Part, frozen=True, kw_only=True):
    """The stored model."""

    digest: Annotated[_Digest, _field("Digest of the artifact.")]
    size_bytes: Annotated[_Positive, _field("Size of the model's files.")]
    stored_bytes: Annotated[
        _Count | None, _field("What deleting this model now would free; not served yet, so absent.")
    ] = None
    size: Annotated[str | None, _field("The size for people.")] = None


class SourceCapabilities(_Part, frozen=True, kw_only=True):
    """What the provider says about the model in its own words; provenance only."""

    provider: Annotated[str | None, _words("Who says so.", SourceType)] = None
    tasks: Annotated[tuple[_Word, ...], _set("Tasks.", 32)] = ()
    features: Annotated[tuple[_Word, ...], _set("Features.", 32)] = ()


class ModelGeometry(_Part, frozen=True, kw_only=True):
    """Numbers read from the weights and their configuration, for planners."""

    layers: _Count | None = None
    hidden_size: _Count | None = None
    intermediate_size: _Count | None = None
    attention_heads: _Count | None = None
    key_value_heads: _Count | None = None
    head_dim: _Count | None = None
    vocabulary_size: _Count | None = None
    experts: _Count | None = None
    active_experts: _Count | None = None
    sliding_window: _Count | None = None
    kv_lora_rank: _Count | None = None
    qk_rope_head_dim: _Count | None = None
    tied_embeddings: bool | None = None
    weight_bytes: _Count | None = None
    tensor_count: _Count | None = None
    dtype_bytes: dict[str, int] | None = None
    pooling: str | None = None
    chat_template: Annotated[str | None, _field("File of the model that holds the chat template.")] = None
    tokenizer: str | None = None


class ResolvedStatus(_Part, frozen=True, kw_only=True):
    """What is known about the model; facts that are only estimated are not published."""

    format: Annotated[str | None, _words("How the weights are stored.", ModelFormat)] = None
    family: str | None = None
    architecture: str | None = None
    parameter_count: Annotated[_Positive | None, _field("Elements of the weights.")] = None
    active_parameter_count: Annotated[_Positive | None, _field("Elements used per token.")] = None
    quantization: str | None = None
    context_window_tokens: _Positive | None = None
    supported_endpoint_types: Annotated[
        tuple[_Endpoint, ...], _set("What the model can be asked for.", 16)
    ] = ()
    supported_features: Annotated[tuple[_Feature, ...], _set("What it can do beyond text.", 16)] = ()
    facts: ModelGeometry | None = None
    source_capabilities: SourceCapabilities | None = None


class PublicationStatus(_Part, frozen=True, kw_only=True):
    """Which attempt at the publication is on, made by what, and when the next one may begin."""

    attempt: Annotated[_Positive, _field("Number of the attempt; none is used twice.")]
    image: Annotated[str | None, _field("Image of the module that made the attempt.")] = None
    retry_at: Annotated[_Time | None, _field("The attempt ended early; the next begins then.")] = None
    since: Annotated[
        _Time | None, _field("When the publication last came further; 24 hours later it fails.")
    ] = None
    furthest_bytes: Annotated[_Count | None, _field("Bytes that its best attempt so far has done.")] = None


class ModelStatus(_Part, frozen=True, kw_only=True):
    """What is."""

    observed_generation: _Count = 0
    phase: Annotated[str | None, _words("Where the model is on its way.", Phase)] = None
    progress: Annotated[str | None, _field("How much is done.", pattern="^(100|[1-9]?[0-9])%$")] = None
    source: SourceStatus | None = None
    observed_source: ObservedSource | None = None
    observed_retry: Annotated[
        str | None, _field(f"Value of the annotation {RETRY_ANNOTATION} that was acted upon last.")
    ] = None
    upload: UploadStatus | None = None
    publication: PublicationStatus | None = None
    transfer: TransferStatus | None = None
    artifact: ArtifactStatus | None = None
    resolved: ResolvedStatus | None = None
    conditions: Annotated[
        tuple[Condition, ...],
        _field(
            "What is said about the model.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()


class AnyModel(Resource, frozen=True, kw_only=True):
    """What Model and ClusterModel have in common."""

    spec: ModelSpec
    status: ModelStatus | None = None


@resource(API_VERSION, "Model", "models")
class Model(AnyModel, frozen=True, kw_only=True):
    """A model of one namespace."""


@resource(API_VERSION, "ClusterModel", "clustermodels", namespaced=False)
class ClusterModel(AnyModel, frozen=True, kw_only=True):
    """A model for every namespace."""
