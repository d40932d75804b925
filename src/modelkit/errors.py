"""What can be wrong with bytes that claim to be a model.

Error tree::

    NotAModel          base: the bytes cannot be taken as a model; the text says where and why
    ├── Damaged        the format is recognised, a part of it contradicts the rest or is cut off
    └── NotServed      the format is recognised and this version does not take it
"""

from __future__ import annotations


class NotAModel(Exception):
    """Base: ``where`` names the file (and the place in it), ``why`` what is wrong there."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.where = where
        self.why = why


class Damaged(NotAModel):
    """A recognised format whose parts contradict each other or that ends too early."""


class NotServed(NotAModel):
    """A recognised format that this version does not take."""
