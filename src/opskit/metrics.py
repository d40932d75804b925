"""Metrics of this process: one registry, our prefix, the text that ``/metrics`` serves.

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
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "d8_ai_models_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=_REGISTRY)
PlatformCollector(registry=_REGISTRY)


def registry() -> CollectorRegistry:
    """Return the one registry of this process."""
    return _REGISTRY


def counter(name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
    """Declare a counter; the rendered name is ``d8_ai_models_<name>_total``."""
    return Counter(PREFIX + name, documentation, labels, registry=_REGISTRY)


def gauge(name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
    """Declare a gauge ``d8_ai_models_<name>``."""
    return Gauge(PREFIX + name, documentation, labels, registry=_REGISTRY)


def histogram(
    name: str,
    documentation: str,
    labels: Sequence[str] = (),
    *,
    buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS,
) -> Histogram:
    """Declare a histogram ``d8_ai_models_<name>``."""
    return Histogram(PREFIX + name, documentation, labels, registry=_REGISTRY, buckets=buckets)


def render() -> bytes:
    """Return all metrics in the Prometheus text format."""
    return generate_latest(_REGISTRY)
