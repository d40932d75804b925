"""The certificates of the module's Services and the bundle to trust, kept by the leader.

What belongs here: which there are, and keeping them. What does not: X.509 (``kubekit.certs``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubekit.errors import KubeError
from kubekit.trust import Place, ServingCertificate, ensure_certificates, service_names
from opskit.logging import logger

if TYPE_CHECKING:
    from kubekit.certs import Policy
    from kubekit.client import Client
    from opskit.clock import Clock

_LOG = logger(__name__)

TRUST = "ai-inference-trust"
CA_SECRET = "ai-inference-ca"  # noqa: S105 - a name
PLANNER = "ai-inference-planner"

_LOOK_EVERY = 300.0
_AFTER_FAILURE = 5.0
#: with short-lived certificates (tests) a look per so many parts of their life
_PARTS = 30


class Certificates:
    """Keeps them."""

    def __init__(self, client: Client, namespace: str, policy: Policy, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._policy = policy
        self._clock = clock

    async def run(self) -> None:
        """Keep everything as it should be, for ever."""
        every = min(_LOOK_EVERY, self._policy.leaf_validity.total_seconds() / _PARTS)
        while True:
            try:
                await self.once()
            except KubeError as error:
                _LOG.warning("certificates are looked at again", err=error)
                await self._clock.sleep(_AFTER_FAILURE)
                continue
            await self._clock.sleep(every)

    async def once(self) -> None:
        """Make what is missing and renew what is due."""
        labels = {"heritage": "deckhouse", "module": "ai-inference"}
        place = Place(self._namespace, CA_SECRET, TRUST, labels)
        planner = ServingCertificate(f"{PLANNER}-tls", service_names(PLANNER, self._namespace))
        await ensure_certificates(self._client, place, (planner,), now=self._clock.now(), policy=self._policy)
