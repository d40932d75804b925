"""What holds for every test."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, settings

# A busy machine is no reason to fail: properties are judged by what holds, never by how fast they are tried.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_configure() -> None:
    """Tell the event loop policy that there is no loop yet.

    Otherwise the first async test after a sync one makes it create a loop that nobody closes, and the warning
    about it fails whichever test happens to run when it is collected.
    """
    asyncio.set_event_loop(None)
