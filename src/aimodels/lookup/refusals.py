"""Every refusal of the lookup: its reason, why, and what to do next."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from aimodels.api.reasons import Phase
from webkit.problems import Problem

if TYPE_CHECKING:
    from aimodels.lookup.answers import NotReady

AUDIENCE = "ai-models"
_AGAIN = {"retry-after": "1"}


class Reason(StrEnum):
    """The closed set of what the lookup refuses by."""

    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    INVALID_PARAMETERS = "InvalidParameters"
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_NOT_READY = "ModelNotReady"
    MODEL_UNREADABLE = "ModelUnreadable"
    API_SERVER_UNAVAILABLE = "APIServerUnavailable"
    BUSY = "Busy"
    STARTING = "Starting"


def unauthorized(why: str) -> Problem:
    """Answer whoever cannot be told from anybody else."""
    return Problem(
        401,
        Reason.UNAUTHORIZED,
        why,
        f"send a token of the cluster for the audience {AUDIENCE} as Bearer; a projected one is read anew "
        "from its file",
        headers={"www-authenticate": f'Bearer realm="{AUDIENCE}"'},
    )


def forbidden(user: str, target: str) -> Problem:
    """Answer the same whether there is such a model or not."""
    return Problem(
        403,
        Reason.FORBIDDEN,
        f"{user} may not get {target}",
        "have the verb get on models or clustermodels of ai.deckhouse.io granted there",
    )


def invalid(why: str) -> Problem:
    """Answer a request that can never be right."""
    return Problem(
        400,
        Reason.INVALID_PARAMETERS,
        why,
        "ask with kind=Model, namespace and name, or with kind=ClusterModel and name",
    )


def not_found(target: str) -> Problem:
    """Answer who may get the model, if there were one."""
    return Problem(404, Reason.MODEL_NOT_FOUND, f"there is no {target}", "create it, or correct the name")


def not_ready(target: str, why: NotReady) -> Problem:
    """Answer with what the model's status says."""
    waits = why.phase not in {Phase.FAILED, Phase.DELETING}
    return Problem(
        409,
        Reason.MODEL_NOT_READY,
        f"{target} is not ready: {why.reason}: {why.message}",
        "ask again later" if waits else "look at the model's conditions; it does not become ready by waiting",
        phase=why.phase,
        modelReason=why.reason,
        modelMessage=why.message,
    )


def unreadable(target: str) -> Problem:
    """Answer about an object of a form that another version of the module has written."""
    return Problem(
        503,
        Reason.MODEL_UNREADABLE,
        f"{target} has a form that this version of ai-models cannot read",
        "look at the object's events; correct it, or update the module",
    )


def api_server_unavailable(error: Exception) -> Problem:
    """Answer when nobody can say who asks or what he may."""
    return Problem(
        503,
        Reason.API_SERVER_UNAVAILABLE,
        f"the Kubernetes API cannot review token and access now: {type(error).__name__}",
        "ask again in a moment",
        headers=_AGAIN,
    )


def busy() -> Problem:
    """Answer when too many ask at once."""
    return Problem(
        503, Reason.BUSY, "too many lookups are being answered", "ask again in a moment", headers=_AGAIN
    )


def starting(why: str) -> Problem:
    """Answer before the models are known: what is not known yet is not missing."""
    return Problem(503, Reason.STARTING, f"this replica is {why}", "ask again in a moment", headers=_AGAIN)
