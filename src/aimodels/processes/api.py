"""``ai-models-api``: what the cluster asks of the module, on every replica; it writes nothing.

What belongs here: putting the routes together. What does not: any of them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from starlette.applications import Starlette

from aimodels.delivery import webhook
from aimodels.lookup import routes as lookup
from aimodels.processes.settings import ApiSettings
from kubekit.client import Client, connect
from kubekit.manager import Manager, Stage
from opskit import logging, process, settings
from webkit import health, problems
from webkit.server import serve
from webkit.tls import TlsFiles

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "ai-models-api"


def build(client: Client, given: ApiSettings, *, started: Callable[[int], None] | None = None) -> Manager:
    """Return the process, ready to run; ``started`` is told the port."""
    manager = Manager(client)
    app = Starlette(
        routes=[
            *health.routes(live={"api": manager.live}, ready={"api": manager.ready}),
            *webhook.routes(manager, module_namespace=given.namespace),
            *lookup.routes(manager),
        ],
        exception_handlers=problems.handlers(),
    )
    files = TlsFiles(given.tls_cert_file, given.tls_key_file)

    async def listen() -> None:
        await serve(app, port=given.port, tls=files, started=started)

    # From the start: the probes have to be answered while the informers list.
    manager.add_task("listener", listen, Stage.START)
    return manager


async def main() -> None:
    """Serve until SIGTERM."""
    given = settings.load(ApiSettings, prefix="AI_MODELS_")
    logging.configure(NAME, given.log_level)
    logging.logger(__name__).info("starting", **settings.describe(given))
    async with connect() as client:
        await build(client, given).run()


if __name__ == "__main__":
    sys.exit(process.run(main))
