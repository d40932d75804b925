"""Sizes: bytes inside, GiB in text, Kubernetes quantities at the border."""

from __future__ import annotations

import re
from decimal import Decimal

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40

_BINARY = {"Ki": KIB, "Mi": MIB, "Gi": GIB, "Ti": TIB, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_QUANTITY = re.compile(r"(\d{1,19}(?:\.\d{1,9})?)([EPTGMK]i|[EPTGMKk])?\Z")
_TEXT_UNITS = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_COUNT_UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))
#: three significant digits are enough for a person and keep a column narrow
_THREE_DIGITS = 100


def text(size: int) -> str:
    """Return a size for people: ``1.4 GiB``, ``241 MiB``, ``12 B``."""
    for unit, factor in _TEXT_UNITS:
        if size >= factor:
            value = size / factor
            return f"{value:.0f} {unit}" if value >= _THREE_DIGITS else f"{value:.1f} {unit}"
    return f"{size} B"


def count(number: int) -> str:
    """Return a number of parameters for people: ``268 M``, ``7.6 B``."""
    for factor, unit in _COUNT_UNITS:
        if number >= factor:
            value = number / factor
            return f"{value:.0f} {unit}" if value >= _THREE_DIGITS else f"{value:.1f} {unit}"
    return str(number)


def parse_quantity(quantity: str) -> int:
    """Return the bytes of a Kubernetes quantity such as ``200Gi`` or ``1.5T``, rounded up.

    Raises:
        ValueError: the text is no quantity; the message names the form that is.
    """
    match = _QUANTITY.match(quantity.strip())
    if match is None:
        raise ValueError(f"{quantity!r} is not a size; write a number with Ki, Mi, Gi or Ti, such as 200Gi")
    number, unit = match.groups()
    factor = _BINARY.get(unit) or _DECIMAL[unit or ""]
    exact = Decimal(number) * factor
    whole = int(exact)
    return whole if whole == exact else whole + 1
