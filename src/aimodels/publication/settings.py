"""The publication Job's settings: environment variables ``PUBLICATION_*``."""

import msgspec

from aimodels.jobs.worker import WorkerSettings


class Source(msgspec.Struct, frozen=True):
    """Where the model comes from; the type is a word of the API's ``resolvedType``."""

    type: str


class Settings(WorkerSettings, frozen=True, kw_only=True):
    """Which model, from where."""

    transfer: str
    model_name: str
    source: str = '{"type":"Upload"}'
