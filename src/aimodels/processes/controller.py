"""``ai-models-controller``: the controllers of models and of their delivery, and a listener for health only.

What belongs here: putting the parts together. What does not: any of them.
"""

from __future__ import annotations

import asyncio
import sys

from starlette.applications import Starlette

from aimodels.catalog.bootstrap import TRUST, Bootstrap, BootstrapSettings
from aimodels.catalog.handout import UploadSettings
from aimodels.catalog.registry import Registry
from aimodels.catalog.wiring import Catalog, CatalogSettings
from aimodels.delivery import wiring as deliveries
from aimodels.delivery.wiring import DeliverySettings
from aimodels.jobs.manifest import JobSettings
from aimodels.processes.settings import ControllerSettings
from kubekit.certs import Policy
from kubekit.client import Client, connect
from kubekit.lease import Lease, lease_of_pod
from kubekit.manager import Manager, Stage
from kubekit.placement import Placement
from opskit import logging, process, settings
from opskit.clock import Clock, SystemClock
from webkit import health
from webkit.server import serve

NAME = "ai-models-controller"


def build(client: Client, given: ControllerSettings, clock: Clock, *, lease: Lease | None) -> Manager:
    """Return the process, ready to run."""
    manager = Manager(client, lease=lease)
    registry = Registry(given.dmcr_url, given.dmcr_token_file, clock)
    bootstrap = Bootstrap(
        client,
        registry,
        BootstrapSettings(
            given.namespace,
            given.public_upload_url,
            Policy(leaf_validity=given.certificate_validity),
            given.public_ca_secret,
        ),
        clock,
    )
    placement = Placement(given.node_selector, given.tolerations)
    jobs = JobSettings(given.namespace, given.image, given.dmcr_url, TRUST, given.log_level, placement)
    delivery = deliveries.setup(
        manager,
        DeliverySettings(jobs, given.shared_pvc_storage_class, given.max_copies),
        registry,
        clock,
    )
    uploads = UploadSettings(given.public_upload_url, bootstrap.upload_trust)
    catalog = Catalog(
        manager,
        CatalogSettings(jobs, uploads, given.max_publications, given.evaluation_store),
        registry,
        consumers=delivery.consumers,
        clock=clock,
    )
    registry.tell(catalog.registry_changed)
    manager.add_task("bootstrap", bootstrap.run, Stage.LEADING)
    manager.add_task("registry", lambda: _closed_at_the_end(registry), Stage.START)
    manager.add_task("health", lambda: _health(manager, given.health_port), Stage.START)
    return manager


async def _closed_at_the_end(registry: Registry) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await registry.close()


async def _health(manager: Manager, port: int) -> None:
    checks = health.routes(live={"controller": manager.live}, ready={"controller": manager.ready})
    await serve(Starlette(routes=checks), port=port)


async def main() -> None:
    """Run until SIGTERM."""
    given = settings.load(ControllerSettings, prefix="AI_MODELS_")
    logging.configure(NAME, given.log_level)
    logging.logger(__name__).info("starting", **settings.describe(given))
    async with connect() as client:
        lease = lease_of_pod(client, given.namespace, NAME, given.pod_uid)
        await build(client, given, SystemClock(), lease=lease).run()


if __name__ == "__main__":
    sys.exit(process.run(main))
