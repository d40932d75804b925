"""Manifests on the wire: PUT, GET, DELETE, tag lists, referrers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from aimodels.dmcr import documents, names
from aimodels.dmcr.manifests import Push, unknown
from aimodels.dmcr.problems import Invalid, NotFound
from aimodels.dmcr.wire import Answer, next_page

if TYPE_CHECKING:
    from aimodels.dmcr.documents import Descriptor
    from aimodels.dmcr.layout import Record
    from aimodels.dmcr.principal import Access
    from aimodels.dmcr.registry import Registry
    from aimodels.dmcr.wire import Request

_MOST_TAGS = 1000
_MOST_TAGS_A_PUT = 100
_REFERRERS_PAGE = 3 << 20


class ManifestRoutes:
    """Handlers for manifests, tags and referrers."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def put(self, request: Request, name: str, reference: str) -> Answer:
        """Commit a manifest under a tag, or under its digest with any number of tags."""
        self._registry.right(request, name, "push")
        tags = _tags(request, reference)
        record = await self._registry.created(request, name)
        body = await request.small_body(
            documents.MANIFEST_LIMIT,
            Invalid(
                f"a manifest has at most {documents.MANIFEST_LIMIT} bytes", status=413, code="SIZE_INVALID"
            ),
        )
        named = names.digest(reference) if names.is_digest(reference) else "sha256:"
        digest = f"{named.partition(':')[0]}:{hashlib.new(named.partition(':')[0], body).hexdigest()}"
        if names.is_digest(reference) and digest != named:
            raise Invalid(f"the manifest is {digest}, not {named}")
        manifest = documents.parse(body, request.headers.get("content-type", ""))
        push = Push(
            name=name, life=record.life, digest=digest, body=body, tags=tags, by=request.principal.name
        )
        await self._registry.manifests.put(push, manifest)
        headers = {"Location": f"/v2/{name}/manifests/{digest}", "Docker-Content-Digest": digest}
        if manifest.subject is not None:
            headers["OCI-Subject"] = manifest.subject
        if names.is_digest(reference) and tags:
            headers["OCI-Tag"] = ", ".join(tags)
        return Answer(201, headers)

    async def get(self, request: Request, name: str, reference: str) -> Answer:
        """Send the bytes exactly as they were pushed."""
        _checked(reference)
        record, access = await self._registry.readable(request, name)
        digest, entry, body = await self._registry.manifests.get(record, reference)
        await self._within(record, access, digest)
        headers = {
            "Content-Type": entry.media_type,
            "Content-Length": str(entry.size),
            "Docker-Content-Digest": digest,
            "ETag": f'"{digest}"',
        }
        if f'"{digest}"' in request.headers.get("if-none-match", ""):
            return Answer(304, headers)
        return Answer(200, headers, body)

    async def delete(self, request: Request, name: str, reference: str) -> Answer:
        """Remove a tag, or a manifest with its tags: seen at once by everyone."""
        _checked(reference)
        record = await self._registry.deletable(request, name)
        await self._registry.manifests.delete(name, record.life, reference)
        return Answer(202)

    async def tags(self, request: Request, name: str, _: str) -> Answer:
        """List tags in byte order, page by page."""
        record, access = await self._registry.readable(request, name)
        limit = _limit(request)
        last = request.parameter("last") or ""
        found = sorted(tag for tag, to in record.tags.items() if access.digest in (None, to))
        found = [tag for tag in found if tag > last]
        page = found[:limit]
        more = len(found) > len(page) > 0
        headers = next_page(f"/v2/{name}/tags/list", n=str(limit), last=page[-1]) if more else {}
        return _json({"name": name, "tags": page}, headers)

    async def referrers(self, request: Request, name: str, reference: str) -> Answer:
        """List what names the digest as its subject; an empty index when nothing does."""
        subject = names.digest(reference)
        found = await self._referrers(request, name, subject)
        kind = request.parameter("artifactType")
        headers: dict[str, str] = {}
        if kind:
            found = [item for item in found if item.artifact_type == kind]
            headers["OCI-Filters-Applied"] = "artifactType"
        page = _page(found, request.parameter("last") or "")
        if page and page[-1] is not found[-1]:
            more = {"last": page[-1].digest, **({"artifactType": kind} if kind else {})}
            headers |= next_page(f"/v2/{name}/referrers/{subject}", **more)
        index = {"schemaVersion": 2, "mediaType": documents.OCI_INDEX, "manifests": page}
        return _json(index, {**headers, "Content-Type": documents.OCI_INDEX})

    async def _referrers(self, request: Request, name: str, subject: str) -> list[Descriptor]:
        try:
            record, access = await self._registry.readable(request, name)
            await self._within(record, access, subject)
        except NotFound:
            return []
        return await self._registry.manifests.referrers(record, subject)

    async def _within(self, record: Record, access: Access, digest: str) -> None:
        """Refuse what lies outside a right that is narrowed to one manifest."""
        if access.digest not in (None, digest) and digest not in await self._registry.manifests.closure(
            record, access.digest or ""
        ):
            raise unknown(digest, record.name)


def _tags(request: Request, reference: str) -> tuple[str, ...]:
    """Return every tag that the request sets, checked before anything is written."""
    if not names.is_digest(reference):
        return (names.tag(reference),)
    tags = tuple(dict.fromkeys(names.tag(tag) for tag in request.query.get("tag", [])))
    if len(tags) > _MOST_TAGS_A_PUT:
        raise Invalid(f"at most {_MOST_TAGS_A_PUT} tags at once", status=414, code="UNSUPPORTED")
    return tags


def _checked(reference: str) -> None:
    if names.is_digest(reference):
        names.digest(reference)
    else:
        names.tag(reference)


def _limit(request: Request) -> int:
    text = request.parameter("n")
    if text is None:
        return _MOST_TAGS
    if not text.isascii() or not text.isdigit() or len(text) > len(str(1 << 31)):
        raise Invalid("n is a number of tags", code="UNSUPPORTED")
    return min(int(text), _MOST_TAGS)


def _page(found: list[Descriptor], last: str) -> list[Descriptor]:
    """Return as many descriptors after ``last`` as one answer holds, at least one."""
    page: list[Descriptor] = []
    size = 0
    for item in found:
        if item.digest <= last:
            continue
        size += len(msgspec.json.encode(item))
        if page and size > _REFERRERS_PAGE:
            break
        page.append(item)
    return page


def _json(value: object, headers: dict[str, str]) -> Answer:
    return Answer(200, {"Content-Type": "application/json", **headers}, msgspec.json.encode(value))
