"""``ai-inference-planner``: answers launch plans over HTTPS, on every replica; it writes nothing.

What belongs here: putting the parts together. What does not: any of them.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from starlette.applications import Starlette

from aiinference.planner import service
from aiinference.planner.plan import Recipes
from aiinference.planner.source import Source
from aiinference.recipes.catalogue import shipped
from kubekit.client import Client, connect
from kubekit.tokens import TokenReviews
from opskit import logging, metrics, process, settings
from opskit.clock import SystemClock
from webkit import health, problems
from webkit.server import serve
from webkit.tls import TlsFiles

NAME = "ai-inference-planner"


class PlannerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What ``ai-inference-planner`` is told."""

    #: by the key that the engine has in the recipes
    images: dict[str, str]
    log_level: str = "info"
    port: int = 8443
    tls_cert_file: Path = Path("/etc/ai-inference/tls/tls.crt")
    tls_key_file: Path = Path("/etc/ai-inference/tls/tls.key")
    #: ServiceAccounts that may ask, as namespace/name
    callers: tuple[str, ...] = ("d8-ai-inference/ai-inference-controller",)
    audience: str = "ai-inference-planner"


def app(client: Client, given: PlannerSettings) -> Starlette:
    """Return the application of the process."""
    clock = SystemClock()
    planner = service.Planner(
        recipes=Recipes(shipped(), given.images),
        source=Source(client, clock),
        reviews=TokenReviews(client, [given.audience], clock=clock),
        callers=frozenset(_user(caller) for caller in given.callers),
        audience=given.audience,
    )
    return Starlette(
        routes=[*health.routes(), *service.routes(planner)], exception_handlers=problems.handlers()
    )


async def run(
    client: Client, given: PlannerSettings, *, started: Callable[[int], None] | None = None
) -> None:
    """Serve until cancelled; ``started`` is told the port."""
    files = TlsFiles(given.tls_cert_file, given.tls_key_file)
    await serve(app(client, given), port=given.port, tls=files, started=started)


def _user(caller: str) -> str:
    namespace, _, name = caller.partition("/")
    return f"system:serviceaccount:{namespace}:{name}"


async def main() -> None:
    """Serve until SIGTERM."""
    given = settings.load(PlannerSettings, prefix="AI_INFERENCE_")
    logging.configure(NAME, given.log_level)
    metrics.belong_to("ai_inference")
    logging.logger(__name__).info("starting", **settings.describe(given))
    async with connect() as client:
        await run(client, given)


if __name__ == "__main__":
    sys.exit(process.run(main))
