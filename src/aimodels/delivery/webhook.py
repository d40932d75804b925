"""The admission webhook: an annotated workload gets its models' volumes before it is stored.

What belongs here: the route and its answers. What does not: what the template becomes (``knowledge``,
``template``).

It never refuses a workload and asks nobody while it answers. What cannot be followed is left as it is with
a warning that kubectl prints; the controller writes the reason on the workload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from aimodels.api.model import ClusterModel, Model
from aimodels.delivery.knowledge import Knowledge, claim_indexes
from aimodels.delivery.names import ROLE_LABEL, serves
from aimodels.delivery.references import InvalidReference
from aimodels.delivery.template import InvalidTemplate
from kubekit import admission
from kubekit.resources import PersistentVolumeClaim
from opskit import logging, metrics
from webkit.limits import read_body
from webkit.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from kubekit.manager import Manager

PATH = "/mutate-workload"

_log = logging.logger(__name__)

_ADMISSIONS = metrics.counter("workload_admissions", "Workloads seen by the webhook.", ["outcome"])

_BODY_LIMIT = 8 << 20
_BODY_SECONDS = 3.0


def routes(manager: Manager, *, module_namespace: str) -> list[Route]:
    """Return the webhook's route, and have the manager follow what it needs to know."""
    knowledge = Knowledge(
        manager.informer(Model).store,
        manager.informer(ClusterModel).store,
        manager.informer(
            PersistentVolumeClaim,
            selectors={"labelSelector": ROLE_LABEL},
            indexes=claim_indexes(module_namespace),
        ).store,
        module_namespace,
    )

    async def mutate(request: Request) -> Response:
        body = await read_body(request, _BODY_LIMIT, _BODY_SECONDS)
        try:
            review = admission.decode(body)
        except admission.BadReview as error:
            raise Problem(400, "BadReview", str(error), "This address is for the API server.") from error
        return Response(answer(knowledge, review, module_namespace), media_type="application/json")

    return [Route(PATH, mutate, methods=["POST"])]


def answer(knowledge: Knowledge, review: admission.Request, module_namespace: str) -> bytes:
    """Return the answer to a review: the workload as it should be, or as it is with a warning."""
    workload = review.object
    if workload is None or not serves(review.namespace, module_namespace):
        return admission.allow(review.uid)
    try:
        changed = mutated(knowledge, review.namespace, workload, review.old_object)
    except (InvalidReference, InvalidTemplate) as error:
        _ADMISSIONS.labels("invalid").inc()
        return admission.allow(review.uid, warnings=[f"no model is delivered: {error}"])
    patch = admission.json_patch(workload, changed)
    _ADMISSIONS.labels("changed" if patch else "unchanged").inc()
    if patch:
        kind = review.kind.kind
        _log.info("workload mutated", kind=kind, namespace=review.namespace, name=review.name)
    return admission.allow(review.uid, patch)


def mutated(
    knowledge: Knowledge,
    namespace: str,
    workload: Mapping[str, Any],
    earlier: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the workload with its template as it should be."""
    annotations = (workload.get("metadata") or {}).get("annotations") or {}
    template = pod_template(workload)
    wanted = knowledge.template(namespace, annotations, template, pod_template(earlier or {}))
    return _with_template(workload, wanted)


def pod_template(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Pod template of a workload; a CronJob's lies inside its Job's."""
    spec = workload.get("spec") or {}
    if "jobTemplate" in spec:
        spec = (spec["jobTemplate"] or {}).get("spec") or {}
    return spec.get("template") or {}


def _with_template(workload: Mapping[str, Any], template: dict[str, Any]) -> dict[str, Any]:
    spec = dict(workload["spec"])
    if "jobTemplate" not in spec:
        return dict(workload) | {"spec": spec | {"template": template}}
    job = dict(spec["jobTemplate"])
    inner = dict(job["spec"]) | {"template": template}
    return dict(workload) | {"spec": spec | {"jobTemplate": job | {"spec": inner}}}
