"""``ai-inference-controller``: the controllers of classes and orders, and a listener for health only.

What belongs here: putting the parts together. What does not: any of them.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec
from starlette.applications import Starlette

from aiinference.classes import wiring as classes
from aiinference.classes.observe import has_device_classes
from aiinference.classes.policy import Https
from aiinference.models import opening
from aiinference.models.rest import RestSettings
from aiinference.orders import wiring as orders
from aiinference.planner import client as planning
from aiinference.planner.plan import Recipes
from aiinference.processes.settings import ControllerSettings
from aiinference.processes.trust import TRUST, Certificates
from aiinference.recipes.catalogue import shipped
from aiinference.workload.intent import Settings as WorkloadSettings
from kubekit.certs import Policy
from kubekit.client import Client, connect
from kubekit.lease import Lease, lease_of_pod
from kubekit.manager import Manager, Stage
from opskit import logging, metrics, process, settings
from opskit.clock import Clock, SystemClock
from webkit import health
from webkit.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "ai-inference-controller"


def build(
    client: Client,
    given: ControllerSettings,
    clock: Clock,
    *,
    devices: bool,
    lease: Lease | None,
    with_orders: Callable[[Manager], None],
) -> Manager:
    """Return the process, ready to run; ``with_orders`` adds what needs connections of its own."""
    manager = Manager(client, lease=lease)
    certificates = Certificates(
        client, given.namespace, Policy(leaf_validity=given.certificate_validity), clock
    )
    classes.setup(manager, clock, devices=devices)
    with_orders(manager)
    manager.add_task("certificates", certificates.run, Stage.LEADING)
    manager.add_task("health", lambda: _health(manager, given.health_port), Stage.START)
    return manager


async def _health(manager: Manager, port: int) -> None:
    checks = health.routes(live={"controller": manager.live}, ready={"controller": manager.ready})
    await serve(Starlette(routes=checks), port=port)


def order_settings(given: ControllerSettings) -> orders.OrderSettings:
    """Return what the orders' controller is told."""
    return orders.OrderSettings(
        workload=WorkloadSettings(
            gate_image=given.gate_image,
            namespace=given.namespace,
            ingress_class=given.ingress_class or None,
            monitoring_namespaces=given.monitoring_namespaces,
            tolerations=tuple(msgspec.to_builtins(given.tolerations)),
            node_selector=given.node_selector or None,
        ),
        domain_template=given.domain_template,
        module_https=Https(given.https_mode, given.https_cluster_issuer or None, given.https_secret or None),
        runtime_fallback=given.runtime_fallback,
        not_ready_requeue_seconds=given.catalog_not_ready_requeue_seconds,
    )


async def opened(
    stack: AsyncExitStack, client: Client, given: ControllerSettings, clock: Clock
) -> Callable[[Manager], None]:
    """Open the ways to catalogue and planner; return what adds the orders' controller."""
    rest = RestSettings(
        given.catalog_base_url, given.catalog_path, given.catalog_token_file, given.catalog_timeout_seconds
    )
    catalogue_settings = opening.CatalogueSettings(rest, given.catalog_mode, given.catalog_transport)
    catalogue = await stack.enter_async_context(opening.opened(catalogue_settings, client, clock))
    planner_settings = planning.PlannerSettings(
        given.planner_url,
        given.planner_token_file,
        trust_namespace=given.namespace,
        trust_config_map=TRUST,
    )
    planner = await stack.enter_async_context(planning.opened(planner_settings, client, clock))
    settings_of_orders = order_settings(given)
    recipes = Recipes(shipped(), given.images)

    def add(manager: Manager) -> None:
        orders.setup(
            manager, clock, settings_of_orders, catalogue=catalogue, planner=planner, recipes=recipes
        )

    return add


async def main() -> None:
    """Run until SIGTERM."""
    given = settings.load(ControllerSettings, prefix="AI_INFERENCE_")
    logging.configure(NAME, given.log_level)
    metrics.belong_to("ai_inference")
    logging.logger(__name__).info("starting", **settings.describe(given))
    clock = SystemClock()
    async with connect() as client, AsyncExitStack() as stack:
        lease = lease_of_pod(client, given.namespace, NAME, given.pod_uid)
        devices = await has_device_classes(client)
        with_orders = await opened(stack, client, given, clock)
        await build(client, given, clock, devices=devices, lease=lease, with_orders=with_orders).run()


if __name__ == "__main__":
    sys.exit(process.run(main))
