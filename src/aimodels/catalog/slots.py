"""Which publications run, and who is next: at most so many Jobs at once, first come first served.

What belongs here: counting and order. What does not: starting (``act``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.api.reasons import ConditionType, Phase
from aimodels.catalog.names import UID_LABEL
from aimodels.catalog.state import Queue
from kubekit.conditions import find

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from aimodels.api.model import AnyModel
    from aimodels.catalog.state import Refusal
    from kubekit.resources import Job


class Slots:
    """The places for publications.

    A Job that was just made counts before the informer shows it: ``begun`` remembers its model until then.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun: dict[str, str] = {}
        self._refused: dict[str, Refusal] = {}

    def begun(self, uid: str, job: str) -> None:
        """Note that a Job was made for the model."""
        self._begun[uid] = job
        self._refused.pop(uid, None)

    def refuse(self, uid: str, refusal: Refusal) -> None:
        """Note that the model's Job could not be made: it takes no place from others until then."""
        self._refused[uid] = refusal

    def refusal(self, uid: str) -> Refusal | None:
        """Return why the model's Job could not be made when it was tried last."""
        return self._refused.get(uid)

    def expects(self, uid: str, job: str) -> bool:
        """Tell whether the Job was made and has not been shown by the informer yet."""
        return self._begun.get(uid) == job

    def settled(self, uid: str, job: str) -> None:
        """Note that the Job need not be expected: the informer showed it, or it was not made after all."""
        if self._begun.get(uid) == job:
            del self._begun[uid]

    def queue(self, model: AnyModel, models: Iterable[AnyModel], jobs: Iterable[Job], now: datetime) -> Queue:
        """Return the model's place among those that wait, and how many may begin.

        A Job that has not ended yet though its model is done with it takes no place.
        """
        uid = model.metadata.uid
        others = [one for one in models if one.metadata.uid != uid and _publishes(one)]
        live = {one.metadata.uid for one in others} | {uid}
        self._begun = {one: job for one, job in self._begun.items() if one in live}
        self._refused = {one: refusal for one, refusal in self._refused.items() if one in live}
        running = {job.metadata.labels.get(UID_LABEL, "") for job in jobs if _runs(job)}
        busy = (running | self._begun.keys()) & live
        waiting = [one for one in others if one.metadata.uid not in busy and self._is_due(one, now)]
        mine = _turn(model)
        before = sum(_turn(one) < mine for one in waiting)
        return Queue(position=before + 1, free=max(0, self._limit - len(busy - {uid})))

    def _is_due(self, model: AnyModel, now: datetime) -> bool:
        """Tell whether the model waits neither for a back-off nor for a cluster that refused its Job."""
        refusal = self._refused.get(model.metadata.uid)
        if refusal is not None and refusal.until > now:
            return False
        publication = model.status.publication if model.status else None
        return publication is None or publication.retry_at is None or publication.retry_at <= now


def _publishes(model: AnyModel) -> bool:
    return model.status is not None and model.status.phase == Phase.PUBLISHING and not model.metadata.deleting


def _runs(job: Job) -> bool:
    return not (job.succeeded or job.failed or job.metadata.deleting)


def _turn(model: AnyModel) -> tuple[str, str, str]:
    """Order by when the upload was complete, then by age."""
    checked = find(model.status.conditions, ConditionType.SOURCE_CHECKED) if model.status else None
    since = checked.last_transition_time.isoformat() if checked and checked.status == "True" else "~"
    created = model.metadata.creation_timestamp
    return since, created.isoformat() if created else "", model.metadata.uid
