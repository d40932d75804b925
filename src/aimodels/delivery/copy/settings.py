"""The copy Job's settings: environment variables ``COPY_*``."""

from pathlib import Path

from aimodels.jobs.worker import WorkerSettings


class Settings(WorkerSettings, frozen=True, kw_only=True):
    """What, where to.

    digest: of the manifest. target: where the claim is mounted.
    """

    digest: str
    target: Path = Path("/target")
