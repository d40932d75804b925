"""Metrics of this process: one registry, the names of its product, the text that ``/metrics`` serves.

What belongs here: how a metric is declared and rendered. What does not: which ones there are; each room
declares its own at import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Named(Collector):
    """Gives the families of a registry the names of the product whose process this is."""

    def __init__(self, families: CollectorRegistry) -> None:
        self._families = families
        self.prefix = "d8_ai_models_"

    def describe(self) -> Iterator[Metric]:
        """Name nothing at registration: rooms declare their metrics later."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        for family in self._families.collect():
            named = Metric(self.prefix + family.name, family.documentation, family.type, family.unit)
            named.samples = [one._replace(name=self.prefix + one.name) for one in family.samples]
            yield named


_OURS = CollectorRegistry(auto_describe=True)
_NAMED = _Named(_OURS)
_REGISTRY = CollectorRegistry()
ProcessCollector(registry=_REGISTRY)
PlatformCollector(registry=_REGISTRY)
_REGISTRY.register(_NAMED)


def belong_to(product: str) -> None:
    """Have the names of this process's metrics begin with ``d8_<product>_``; without it ``d8_ai_models_``."""
    _NAMED.prefix = f"d8_{product}_"


def registry() -> CollectorRegistry:
    """Return the one registry of this process."""
    return _REGISTRY


def counter(name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
    """Declare a counter; the rendered name is ``d8_<product>_<name>_total``."""
    return Counter(name, documentation, labels, registry=_OURS)


def gauge(name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
    """Declare a gauge ``d8_<product>_<name>``."""
    return Gauge(name, documentation, labels, registry=_OURS)


def histogram(
    name: str,
    documentation: str,
    labels: Sequence[str] = (),
    *,
    buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS,
) -> Histogram:
    """Declare a histogram ``d8_<product>_<name>``."""
    return Histogram(name, documentation, labels, registry=_OURS, buckets=buckets)


def render() -> bytes:
    """Return all metrics in the Prometheus text format."""
    return generate_latest(_REGISTRY)
