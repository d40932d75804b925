"""``ai-models-api``: what the cluster asks of the module, on every replica; it writes nothing.

What belongs here: putting the routes together. What does not: any of them.
"""

from __future__ import annotations

import uvloop
from starlette.applications import Starlette

from aimodels.processes.settings import ApiSettings
from opskit import logging, settings
from webkit import health, problems
from webkit.server import serve
from webkit.tls import TlsFiles

NAME = "ai-models-api"


def application() -> Starlette:
    """Return the routes of the process."""
    return Starlette(routes=health.routes(), exception_handlers=problems.handlers())


async def main() -> None:
    """Serve until the process is ended."""
    given = settings.load(ApiSettings, prefix="AI_MODELS_")
    logging.configure(NAME, given.log_level)
    logging.logger(__name__).info("starting", **settings.describe(given))
    await serve(application(), port=given.port, tls=TlsFiles(given.tls_cert_file, given.tls_key_file))


if __name__ == "__main__":
    uvloop.run(main())
