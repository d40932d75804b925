"""Which publications run, and who is next: at most so many Jobs at once, first come first served.

What belongs here: counting and order. What does not: starting (``act``).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from aimodels.api.reasons import ConditionType, Phase
from aimodels.catalog.names import UID_LABEL
from aimodels.catalog.state import Queue
from kubekit.conditions import find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aimodels.api.model import AnyModel
    from aimodels.catalog.state import Obstacle
    from kubekit.resources import Job

#: a Job that no informer shows by then came and went unseen
_EXPECTED = timedelta(minutes=1)
_NEVER = datetime.max.replace(tzinfo=UTC)


class Slots:
    """The places for publications.

    A Job that was just made counts before the informer shows it: ``begun`` remembers its model until then.
    ``freed`` is called when a model stands aside that would have been next.
    """

    def __init__(self, limit: int, freed: Callable[[], None] = lambda: None) -> None:
        self._limit = limit
        self._freed = freed
        self._begun: dict[str, str] = {}
        self._asked: dict[str, datetime] = {}
        self._obstacles: dict[str, Obstacle] = {}

    def begun(self, uid: str, job: str) -> None:
        """Note that a Job was made for the model."""
        self._begun[uid] = job
        self._asked.pop(uid, None)
        self._obstacles.pop(uid, None)

    def hinder(self, uid: str, obstacle: Obstacle) -> None:
        """Note that the model's Job cannot be: it takes no place until then, and comes behind the others."""
        self._obstacles[uid] = obstacle
        self._freed()

    def obstacle(self, uid: str) -> Obstacle | None:
        """Return what stood in the way of the model's Job when it was tried last."""
        return self._obstacles.get(uid)

    def expects(self, uid: str, job: str, now: datetime) -> bool:
        """Tell whether the Job was made and may still be shown by the informer."""
        if self._begun.get(uid) != job:
            return False
        if now - self._asked.setdefault(uid, now) < _EXPECTED:
            return True
        self.settled(uid, job)
        return False

    def settled(self, uid: str, job: str) -> None:
        """Note that the Job need not be expected: the informer showed it, or it was not made after all."""
        if self._begun.get(uid) == job:
            del self._begun[uid]
            self._asked.pop(uid, None)

    def queue(self, model: AnyModel, models: Iterable[AnyModel], jobs: Iterable[Job], now: datetime) -> Queue:
        """Return the model's place among those that wait, and how many may begin.

        A Job that has not ended yet though its model is done with it takes no place.
        """
        uid = model.metadata.uid
        others = [one for one in models if one.metadata.uid != uid and _publishes(one)]
        live = {one.metadata.uid for one in others} | {uid}
        self._begun = {one: job for one, job in self._begun.items() if one in live}
        self._asked = {one: when for one, when in self._asked.items() if one in self._begun}
        self._obstacles = {one: found for one, found in self._obstacles.items() if one in live}
        running = {job.metadata.labels.get(UID_LABEL, "") for job in jobs if _runs(job)}
        busy = (running | self._begun.keys()) & live
        waiting = [one for one in others if one.metadata.uid not in busy and self._is_due(one, now)]
        mine = self._turn(model)
        before = sum(self._turn(one) < mine for one in waiting)
        free = max(0, self._limit - len(busy - {uid}))
        crowded = uid in busy and len(waiting) > max(0, free - 1)
        return Queue(position=before + 1, free=free, crowded=crowded)

    def _is_due(self, model: AnyModel, now: datetime) -> bool:
        """Tell whether the model waits neither for a back-off nor for an obstacle to go."""
        obstacle = self._obstacles.get(model.metadata.uid)
        if obstacle is not None and obstacle.stands(model, now):
            return False
        publication = model.status.publication if model.status else None
        return publication is None or publication.retry_at is None or publication.retry_at <= now

    def _turn(self, model: AnyModel) -> tuple[datetime, datetime, str]:
        """Order by when the upload was complete, then by age; who was hindered comes when it is due again."""
        checked = find(model.status.conditions, ConditionType.SOURCE_CHECKED) if model.status else None
        since = checked.last_transition_time if checked and checked.status == "True" else _NEVER
        obstacle = self._obstacles.get(model.metadata.uid)
        if obstacle is not None:
            since = max(since, obstacle.until)
        return since, model.metadata.creation_timestamp or _NEVER, model.metadata.uid


def _publishes(model: AnyModel) -> bool:
    return model.status is not None and model.status.phase == Phase.PUBLISHING and not model.metadata.deleting


def _runs(job: Job) -> bool:
    return not (job.succeeded or job.failed or job.metadata.deleting)
