"""Who is it, and may they: TokenReview and SubjectAccessReview.

What belongs here: the two questions to the API server. What does not: what follows from the answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubekit.resources import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubekit.client import Client

#: keys of a token's extra that name the Pod it is bound to
POD_NAME = "authentication.kubernetes.io/pod-name"
POD_UID = "authentication.kubernetes.io/pod-uid"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a token belongs to."""

    username: str
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}

    def first(self, key: str) -> str | None:
        """Return the first value of an extra, such as the name of the Pod."""
        return next(iter(self.extra.get(key, [])), None)


class Attributes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody wants to do."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """Whether it is allowed, and the authorizer's reason."""

    allowed: bool
    reason: str = ""


class _TokenStatus(msgspec.Struct, frozen=True, kw_only=True):
    user: Identity
    audiences: list[str] = []


async def review_token(client: Client, token: str, audiences: Sequence[str] = ()) -> Identity | None:
    """Return whom the token belongs to, or None when it is not valid for one of the audiences.

    Without audiences the token must be meant for the API server itself.
    """
    spec: dict[str, Any] = {"token": token}
    if audiences:
        spec["audiences"] = list(audiences)
    answer = await client.create(_manifest(TOKEN_REVIEW.api_version, TOKEN_REVIEW.name, spec))
    if answer.get("status", {}).get("authenticated") is not True:  # then the user is an empty object
        return None
    status = msgspec.convert(answer["status"], _TokenStatus)
    # An authenticator that knows no audiences answers without them: then nothing was checked.
    if audiences and not set(audiences) & set(status.audiences):
        return None
    return status.user


async def review_access(client: Client, who: Identity, what: Attributes) -> Verdict:
    """Return whether the identity may do it, by the cluster's own authorizers."""
    spec = {
        "user": who.username,
        "uid": who.uid,
        "groups": who.groups,
        "extra": who.extra,
        "resourceAttributes": msgspec.to_builtins(what),
    }
    answer = await client.create(
        _manifest(SUBJECT_ACCESS_REVIEW.api_version, SUBJECT_ACCESS_REVIEW.name, spec)
    )
    status = answer.get("status", {})
    return Verdict(status.get("allowed") is True, str(status.get("reason", "")))


def _manifest(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": spec}
