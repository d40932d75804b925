"""``ai-inference-controller``: the controllers of classes and orders, and a listener for health only.

What belongs here: putting the parts together. What does not: any of them.
"""

from __future__ import annotations

import socket
import sys

from starlette.applications import Starlette

from aiinference.classes import wiring as classes
from aiinference.classes.observe import has_device_classes
from aiinference.processes.settings import ControllerSettings
from aiinference.processes.trust import Certificates
from kubekit.certs import Policy
from kubekit.client import Client, connect
from kubekit.lease import Lease
from kubekit.manager import Manager, Stage
from opskit import logging, process, settings
from opskit.clock import Clock, SystemClock
from webkit import health
from webkit.server import serve

NAME = "ai-inference-controller"


def build(
    client: Client, given: ControllerSettings, clock: Clock, *, devices: bool, lease: Lease | None
) -> Manager:
    """Return the process, ready to run."""
    manager = Manager(client, lease=lease)
    certificates = Certificates(
        client, given.namespace, Policy(leaf_validity=given.certificate_validity), clock
    )
    classes.setup(manager, clock, devices=devices)
    manager.add_task("certificates", certificates.run, Stage.LEADING)
    manager.add_task("health", lambda: _health(manager, given.health_port), Stage.START)
    return manager


async def _health(manager: Manager, port: int) -> None:
    checks = health.routes(live={"controller": manager.live}, ready={"controller": manager.ready})
    await serve(Starlette(routes=checks), port=port)


async def main() -> None:
    """Run until SIGTERM."""
    given = settings.load(ControllerSettings, prefix="AI_INFERENCE_")
    logging.configure(NAME, given.log_level)
    logging.logger(__name__).info("starting", **settings.describe(given))
    async with connect() as client:
        lease = Lease(client, given.namespace, NAME, socket.gethostname())
        devices = await has_device_classes(client)
        await build(client, given, SystemClock(), devices=devices, lease=lease).run()


if __name__ == "__main__":
    sys.exit(process.run(main))
