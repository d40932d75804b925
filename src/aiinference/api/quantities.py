"""Counts of parameters as people write them: ``70B``, ``360m``, ``1.5T``, or the plain number.

What belongs here: that notation. What does not: sizes inside names of models (the planner's).
"""

import re
from decimal import Decimal
from typing import Final

#: for the API server: the same notation that ``parse`` takes
PATTERN: Final = r"^([1-9][0-9]{0,14}|([1-9][0-9]{0,3}([.][0-9]{1,3})?|0[.]0{0,2}[1-9][0-9]{0,2})[MBTmbt])$"
#: the longest text that the pattern takes
LENGTH: Final = 15
#: the largest number that the notation reaches
MOST: Final = 10**16 - 1

_PATTERN = re.compile(PATTERN.removesuffix("$") + r"\Z")
_UNITS: Final = {"T": 10**12, "B": 10**9, "M": 10**6}


class BadQuantity(ValueError):
    """A count of parameters that cannot be read; the text says which forms can."""


def parse(quantity: int | str) -> int:
    """Return how many parameters ``70B`` or a plain number means."""
    if isinstance(quantity, int):
        if 0 < quantity <= MOST:
            return quantity
    elif _PATTERN.match(quantity):
        unit = _UNITS.get(quantity[-1].upper())
        return int(Decimal(quantity[:-1]) * unit) if unit else int(quantity)
    raise BadQuantity(
        f"{str(quantity)[:32]!r} is no number of parameters; write it like 70B, 1.5B or 360M, or in full"
    )


def text(count: int) -> str:
    """Return the count for people, rounded to two decimals: ``7.62B``."""
    for unit, factor in _UNITS.items():
        # a number that rounds up to the larger unit is written in it
        if Decimal(count) / factor >= Decimal("0.999995"):
            return f"{Decimal(count) / factor:.2f}".rstrip("0").rstrip(".") + unit
    return str(count)
