"""One model, one pass: observe, decide, act, report.

What belongs here: the order of the steps and what an error of our own registry means. What does not: any of
the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.api.model import FINALIZER
from aimodels.api.reasons import ModelEvent, Phase
from aimodels.api.reasons import ModelReason as Reason
from aimodels.catalog import publications, statuses
from aimodels.catalog.act import JobRefused
from aimodels.catalog.decide import decide
from aimodels.catalog.registry import TOLD_AFTER, is_outage, problem_text
from aimodels.catalog.state import AddFinalizer, Note, RemoveFinalizer
from aimodels.catalog.verify import UploadGone
from kubekit.controller import Again, Done
from kubekit.errors import Forbidden, NeedsUser, NotFound, Transient
from modelio.registry import RegistryError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from aimodels.api.model import AnyModel
    from aimodels.catalog.act import Actor
    from aimodels.catalog.names import Key
    from aimodels.catalog.observe import Observer
    from aimodels.catalog.registry import Registry
    from aimodels.catalog.report import Reporter
    from aimodels.catalog.state import Action, Plan
    from kubekit.client import Client
    from opskit.clock import Clock

_STALE = 0.05
_WHEN_IN_THE_WAY = 60.0
_SETTLED = (Phase.READY, Phase.FAILED)
_BEGINNING = (None, Phase.PENDING, Phase.WAIT_FOR_UPLOAD)


class Reconciler:
    """Reconciles models, one key at a time each."""

    def __init__(
        self,
        client: Client,
        registry: Registry,
        observer: Observer,
        actor: Actor,
        *,
        reporter: Reporter,
        clock: Clock,
    ) -> None:
        self._client = client
        self._registry = registry
        self._observer = observer
        self._actor = actor
        self._reporter = reporter
        self._clock = clock
        self._judged: dict[Key, str] = {}
        self._failing: dict[Key, tuple[float, str]] = {}

    async def reconcile(self, key: Key) -> Done | Again:
        """Bring one model a step further."""
        model = self._observer.model(key)
        if model is None:
            self._judged.pop(key, None)
            self._failing.pop(key, None)
            return Done()
        if self._judged.get(key) == model.metadata.resource_version:
            # The informer still shows the version over which we wrote: what it will show is on its way.
            return Again(_STALE)
        now = self._clock.now()
        try:
            plan = await self._step(key, model, now)
        except JobRefused as error:
            self._observer.hindered(model, publications.refused(model, str(error), now))
            return Again(_STALE)
        except RegistryError as error:
            if not is_outage(error):
                raise Transient("RegistryRefuses", str(error), retry_after=error.retry_after) from error
            await self._tell(key, model, error)
            raise Transient(Reason.STORAGE_UNAVAILABLE, str(error), retry_after=error.retry_after) from error
        except NeedsUser as error:
            await self._tell_whoever_is_in_the_way(key, model, error.message)
            return Again(_WHEN_IN_THE_WAY)
        except (NotFound, Forbidden) as error:
            if isinstance(error, Forbidden) and not error.namespace_terminating:
                await self._tell_whoever_is_in_the_way(key, model, error.message)
                raise
            # The object or its namespace went while we worked: what comes from the informer decides.
            raise Transient("Overtaken", str(error)) from error
        self._failing.pop(key, None)
        return Done() if plan.again is None else Again(plan.again)

    async def _step(self, key: Key, model: AnyModel, now: datetime) -> Plan:
        observation = await self._observer.observe(key, model, now)
        plan = decide(observation, now)
        try:
            await self._carry_out(key, model, plan)
        except UploadGone:
            plan = publications.lost(observation, now)
            await self._carry_out(key, model, plan)
        return plan

    async def _carry_out(self, key: Key, model: AnyModel, plan: Plan) -> None:
        seen = model
        model = await self._act(key, model, plan.actions)
        version = await self._reporter.status(model, plan.status)
        if (version or model.metadata.resource_version) != seen.metadata.resource_version:
            self._judged[key] = seen.metadata.resource_version
        await self._reporter.notes(model, plan.notes)
        await self._act(key, model, plan.afterwards)

    async def _act(self, key: Key, model: AnyModel, actions: Iterable[Action]) -> AnyModel:
        for action in actions:
            await self._actor.act(key, model, action)
            if isinstance(action, AddFinalizer):
                model = await self._client.get(
                    type(model), model.metadata.name, model.metadata.namespace or None
                )
            elif isinstance(action, RemoveFinalizer):
                self._judged.pop(key, None)
        return model

    async def _tell_whoever_is_in_the_way(self, key: Key, model: AnyModel, message: str) -> None:
        """Say on a model that cannot begin or go what a person has to change, and record it once."""
        phase, now = model.status.phase if model.status else None, self._clock.now()
        if model.metadata.deleting and FINALIZER in model.metadata.finalizers:
            text = f"What belongs to the model cannot be removed: {message} It is tried again by itself."
            status = statuses.deleting(model, now, Reason.DELETING, text)
        elif not model.metadata.deleting and phase in _BEGINNING:
            status = statuses.pending(model, now, message)
        else:
            return
        version = await self._reporter.status(model, status)
        if version is not None and version != model.metadata.resource_version:
            self._judged[key] = model.metadata.resource_version
            note = Note(ModelEvent.PUBLICATION_FAILED, message, warning=True)
            await self._reporter.notes(model, (note,))

    async def _tell(self, key: Key, model: AnyModel, error: RegistryError) -> None:
        """Say on the model that our own registry does not answer, once that has lasted."""
        self._registry.failed(error)
        # The text of the first error is kept: one that names something new each time would be written anew.
        since, text = self._failing.setdefault(key, (self._clock.monotonic(), problem_text(error)))
        lasting = self._clock.monotonic() - since >= TOLD_AFTER
        problem = self._registry.problem or (text if lasting else "")
        phase = model.status.phase if model.status else None
        if not problem:
            return
        now = self._clock.now()
        if model.metadata.deleting:
            if FINALIZER not in model.metadata.finalizers:
                return
            text = "The deletion waits for the registry."
            status = statuses.deleting(model, now, Reason.DELETING, text, problem)
        elif phase in _SETTLED:
            return
        else:
            status = statuses.unavailable(model, now, problem)
        version = await self._reporter.status(model, status)
        if version is not None and version != model.metadata.resource_version:
            self._judged[key] = model.metadata.resource_version
