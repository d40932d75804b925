"""Labels the product's namespace with the Pod security level, before an installation or an upgrade.

Helm makes a namespace without labels and cannot change one that is there; so a Job of the chart runs this.
"""

import sys

import msgspec

from kubekit.client import connect
from kubekit.podsecurity import LEVEL, restrict
from opskit import logging, process, settings


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the Job is told by its environment."""

    namespace: str


async def main() -> None:
    """Label the namespace that the environment names."""
    given = settings.load(Settings, prefix="AI_MODELS_")
    logging.configure("ai-models-namespace")
    async with connect() as client:
        await restrict(client, given.namespace, "ai-models-install")
    log = logging.logger(__name__)
    log.info("namespace labelled", namespace=given.namespace, pod_security=LEVEL)


if __name__ == "__main__":
    sys.exit(process.run(main))
