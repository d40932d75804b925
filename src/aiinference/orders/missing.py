"""Why Pods of a workload are not made, in the cluster's words.

What belongs here: reading it. What does not: what keeps a Pod that was made from running
(``aiinference.probes.failures``).

A quota, a policy or a webhook may refuse Pods: their StatefulSet says so in its events and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiinference.probes import logs
from kubekit.errors import KubeError
from kubekit.events import newest
from kubekit.resources import Event
from opskit import logging

if TYPE_CHECKING:
    from kubekit.client import Client
    from kubekit.resources import StatefulSet

#: nothing wakes an order whose Pods are refused, and each look costs questions; that they are made wakes it
_LOOK_AGAIN, _TOLD_ALREADY = 5.0, 60.0
_REFUSED, _MADE = "FailedCreate", "SuccessfulCreate"
_SHOWN = 512

_log = logging.logger(__name__)


def lacks_pods(workload: StatefulSet) -> bool:
    """Tell whether fewer Pods were made than are wanted."""
    wanted = 1 if workload.spec.replicas is None else workload.spec.replicas
    return workload.status.replicas < wanted


def pause(workload: StatefulSet, told: str) -> float | None:
    """Return after how many seconds to look again; None when no Pod is lacking."""
    if not lacks_pods(workload):
        return None
    return _TOLD_ALREADY if told else _LOOK_AGAIN


async def why(client: Client, workload: StatefulSet | None) -> str:
    """Return why a workload lacks Pods; empty when it does not, or nothing is known.

    It only explains: an order is not kept from anything when events cannot be read.
    """
    if workload is None or not lacks_pods(workload):
        return ""
    head = workload.metadata
    try:
        selector = f"involvedObject.uid={head.uid}"
        found = await client.list(Event, head.namespace, field_selector=selector)
    except KubeError as error:
        _log.warning("events cannot be read", order=head.name, err=error)
        return ""
    # Of what happened within one second, the refusal is what Pods are still lacking for.
    told = sorted(found, key=lambda event: event.reason != _REFUSED)
    last = newest(event for event in told if event.reason in {_REFUSED, _MADE})
    return logs.plain(last.message)[:_SHOWN] if last is not None and last.reason == _REFUSED else ""
