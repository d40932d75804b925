"""Leftovers: of models that went without us, and of ends that were written before a crash and not tidied up.

What belongs here: finding transfers and Jobs that nobody needs any more, and ending them. What does not:
bytes, which DMCR's collector judges by its own records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aimodels.api.reasons import Phase
from aimodels.catalog import names
from kubekit.errors import KubeError
from kubekit.resources import Job
from modelio.registry import RegistryError
from opskit.logging import logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aimodels.api.model import AnyModel
    from aimodels.catalog.registry import Registry
    from kubekit.client import Client
    from kubekit.store import Store
    from opskit.clock import Clock

_LOG = logger(__name__)
PERIOD = 600.0
_AFTER_FAILURE = 30.0
_DONE = (Phase.READY, Phase.FAILED)


class Sweeper:
    """Ends what belongs to no model, or to one that is done with it."""

    def __init__(
        self,
        client: Client,
        registry: Registry,
        models: Sequence[Store[AnyModel]],
        jobs: Store[Job],
        clock: Clock,
    ) -> None:
        self._client = client
        self._registry = registry
        self._models = models
        self._jobs = jobs
        self._clock = clock

    async def run(self) -> None:
        """Sweep for ever, the first time at once."""
        while True:
            try:
                await self.once()
            except (RegistryError, KubeError) as error:
                _LOG.info("sweep is repeated", err=error)
                await self._clock.sleep(_AFTER_FAILURE)
                continue
            await self._clock.sleep(PERIOD)

    async def once(self) -> None:
        """End the transfers and Jobs whose model is not there, and the transfers of models that are done.

        They are listed before the models are looked up: whoever is made in between has its model already, and
        a model that begins again takes another transfer. An object that cannot be read stops the sweep, as
        its uid is not known.
        """
        client = await self._registry.client()
        transfers = await client.list_transfers()
        jobs = self._jobs.list()
        moving = self._moving()
        for item in transfers:
            uid = names.uid_of(item.id)
            if uid is not None and not moving.get(uid, False):
                await client.revoke_transfer(item.id)
                await client.end_sessions(item.repository)
                _LOG.warning("transfer that no model needs revoked", transfer=item.id)
        for job in jobs:
            if job.metadata.labels.get(names.UID_LABEL) not in moving:
                await self._client.delete(
                    Job, job.metadata.name, job.metadata.namespace, uid=job.metadata.uid
                )
                _LOG.warning("job without a model deleted", job=job.metadata.name)

    def _moving(self) -> dict[str, bool]:
        """Return of every model's uid whether it may still need a transfer."""
        for store in self._models:
            store.require_whole()
        return {
            model.metadata.uid: model.status is None or model.status.phase not in _DONE
            for store in self._models
            for model in store.list()
        }
