"""Manifest documents: what a registry has to understand of them, bounded and tolerant of the rest.

What belongs here: parsing and the references a document makes. What does not: whether they exist.
"""

from __future__ import annotations

import msgspec

from aimodels.dmcr import names
from aimodels.dmcr.problems import Invalid

#: what the distribution specification asks registries to take
MANIFEST_LIMIT = 4 << 20
SCHEMA_VERSION = 2

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFESTS = (OCI_MANIFEST, "application/vnd.docker.distribution.manifest.v2+json")
_INDEXES = (OCI_INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A reference to content."""

    media_type: str
    digest: str
    size: int
    urls: tuple[str, ...] | None = None
    artifact_type: str | None = None
    annotations: dict[str, str] | None = None


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    """Union of image manifest and index; unknown fields are allowed by the specification."""

    schema_version: int
    media_type: str | None = None
    artifact_type: str | None = None
    config: Descriptor | None = None
    layers: tuple[Descriptor, ...] | None = None
    manifests: tuple[Descriptor, ...] | None = None
    subject: Descriptor | None = None
    annotations: dict[str, str] | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What the registry keeps of a manifest."""

    media_type: str
    blobs: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    subject: str | None = None
    artifact_type: str | None = None
    annotations: dict[str, str] | None = None


def parse(body: bytes, content_type: str) -> Manifest:
    """Return what the document refers to, or refuse it with MANIFEST_INVALID."""
    media_type = content_type.partition(";")[0].strip()
    try:
        document = msgspec.json.decode(body, type=_Document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(f"the manifest is not a valid document: {error}") from error
    if document.schema_version != SCHEMA_VERSION:
        raise _invalid(f"schemaVersion is {document.schema_version}, not {SCHEMA_VERSION}")
    if document.media_type not in (None, media_type):
        raise _invalid(f"Content-Type {media_type!r} is not the document's mediaType {document.media_type!r}")
    if media_type in _MANIFESTS:
        return _image(document, media_type)
    if media_type in _INDEXES:
        return _index(document, media_type)
    raise _invalid(f"Content-Type {media_type!r} is not a manifest: {', '.join(_MANIFESTS + _INDEXES)}")


def referenced(body: bytes) -> tuple[str, ...]:
    """Return config and layers of stored manifest bytes, those kept elsewhere included."""
    document = msgspec.json.decode(body, type=_Document)
    return tuple(item.digest for item in (document.config, *(document.layers or ())) if item is not None)


def descriptors(body: bytes) -> tuple[Descriptor, ...]:
    """Return the manifests that an index lists; none when it is not readable as one."""
    try:
        return msgspec.json.decode(body, type=_Document).manifests or ()
    except (msgspec.DecodeError, RecursionError):
        return ()


def _image(document: _Document, media_type: str) -> Manifest:
    if document.config is None or document.manifests is not None:
        raise _invalid("an image manifest has a config and no manifests")
    needed = [document.config, *(layer for layer in document.layers or () if not _elsewhere(layer))]
    return Manifest(
        media_type=media_type,
        blobs=tuple(dict.fromkeys(names.digest(item.digest) for item in needed)),
        subject=_subject(document),
        artifact_type=document.artifact_type or document.config.media_type,
        annotations=document.annotations,
    )


def _index(document: _Document, media_type: str) -> Manifest:
    if document.manifests is None or document.config is not None or document.layers is not None:
        raise _invalid("an index has manifests, and neither config nor layers")
    return Manifest(
        media_type=media_type,
        children=tuple(dict.fromkeys(names.digest(item.digest) for item in document.manifests)),
        subject=_subject(document),
        artifact_type=document.artifact_type,
        annotations=document.annotations,
    )


def _subject(document: _Document) -> str | None:
    return names.digest(document.subject.digest) if document.subject else None


def _elsewhere(layer: Descriptor) -> bool:
    """Tell whether a layer's bytes are kept outside by design."""
    return bool(layer.urls) or "nondistributable" in layer.media_type or ".foreign." in layer.media_type


def _invalid(message: str) -> Invalid:
    return Invalid(message, code="MANIFEST_INVALID")
