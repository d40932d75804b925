"""How long a publication goes on: its attempts, the pauses between them, and when there is no hope. Pure.

What belongs here: counting. What does not: what is told or done (``publications``).

An attempt that ends early, or never begins to run, is followed by another one for as long as the publication
comes further at least once a day.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from kubekit.moments import whole
from opskit.retry import Backoff

if TYPE_CHECKING:
    from datetime import datetime

    from aimodels.api.model import PublicationStatus
    from aimodels.catalog.state import Bytes

#: a publication that comes no further for so long fails
GIVE_UP = timedelta(hours=24)

_BACKOFF = Backoff(first=2.0, most=300.0, jitter=0.0)


def begun(publication: PublicationStatus, now: datetime, image: str) -> PublicationStatus:
    """Return the publication with its attempt begun.

    Nobody comes further while waiting for a place, so that time does not count.
    """
    waited = now - publication.retry_at if publication.retry_at else timedelta()
    since = now if publication.since is None else min(now, publication.since + waited)
    return msgspec.structs.replace(publication, image=image or None, retry_at=None, since=whole(since))


def wished(publication: PublicationStatus, now: datetime) -> PublicationStatus:
    """Return the publication as it goes on when a person asks for it: without a pause, counted anew."""
    retry_at = publication.retry_at and min(publication.retry_at, whole(now))
    return msgspec.structs.replace(publication, retry_at=retry_at, since=whole(now))


def following(publication: PublicationStatus, now: datetime, *, at_once: bool = False) -> PublicationStatus:
    """Return the publication with the next attempt to come, after a pause that grows."""
    if at_once:
        return msgspec.structs.replace(
            publication, attempt=publication.attempt + 1, image=None, retry_at=whole(now)
        )
    pause = timedelta(seconds=_BACKOFF.delay(publication.attempt))
    return msgspec.structs.replace(
        publication, attempt=publication.attempt + 1, image=None, retry_at=now + pause
    )


def counted(publication: PublicationStatus, begun: datetime) -> PublicationStatus:
    """Return the publication with a time to count from, also where none was written yet."""
    if publication.since is not None:
        return publication
    return msgspec.structs.replace(publication, since=whole(begun))


def furthest(publication: PublicationStatus, moved: Bytes | None) -> PublicationStatus:
    """Return the publication with what its attempt has done beyond every earlier one.

    Reading the same bytes again and again is no progress, so a worker that always dies at one place ends too.
    """
    if moved is None or moved.last_progress is None or moved.moved <= (publication.furthest_bytes or 0):
        return publication
    since = max(publication.since or moved.last_progress, moved.last_progress)
    return msgspec.structs.replace(publication, since=since, furthest_bytes=moved.moved)


def is_hopeless(publication: PublicationStatus, now: datetime) -> bool:
    """Tell whether the publication came no further for too long."""
    return publication.since is not None and now - publication.since >= GIVE_UP
