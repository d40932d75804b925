"""How many parameters a model's name says it has, for where no better fact is known.

What belongs here: reading size tokens such as ``32b``, ``360m``, ``2.4T`` or ``0-6b``. What does not: tables
of known families, and whatever is read from the model itself; both know better than a name.

Names of Kubernetes objects have no dots, so ``qwen2-5-1-5b`` stands for Qwen2.5-1.5B and ``llama-3-1-8b`` for
Llama-3.1-8B: a dash is a decimal point in one place and none in the other. What precedes a size is taken as
the version of the family first, and only what is left over as the whole part of the size.
"""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {"m": 10**6, "b": 10**9, "t": 10**12}
#: below it a number with M is a context length or a version, never a size
_LEAST_MILLIONS = 10
_NAME_LIMIT = 512

_SIZE = re.compile(r"(\d{1,4})(\.\d{1,3})?([mbt])\Z")
#: ``128e``: so many experts, and then the size beside it is the active one only
_EXPERTS = re.compile(r"\d{1,4}e\Z")
_ATTACHED = re.compile(r"([a-z]+)(\d{1,2})\Z")
_NUMBER = re.compile(r"\d{1,2}\Z")
_DECIMAL_UNDERSCORE = re.compile(r"(?<=\d)_(?=\d)")
_SEPARATORS = re.compile(r"[-_ ]+")
#: a version is a major and a minor number; what stands after them before a size belongs to the size
_VERSION_PARTS = 2

#: minor versions that a family really has; x.5 is taken as a version of any
_MINORS = {
    "llama": {(3, 1), (3, 2), (3, 3)},
    "qwen": {(3, 6), (3, 8)},
    "granite": {(3, 1), (3, 2), (3, 3), (4, 1)},
    "mistral": {(3, 1), (3, 2)},
    "minicpm": {(4, 1)},
    "glm": {(4, 1), (4, 6), (4, 7), (5, 1), (5, 2)},
    "deepseek": {(3, 1), (3, 2)},
}
_HALF = 5


def parameter_count(name: str) -> int | None:
    """Return the number of parameters that the name tells, or None when it tells none."""
    if len(name) > _NAME_LIMIT:
        return None
    bare = name.rpartition("/")[2].partition(":")[0].lower()
    words = _SEPARATORS.split(_DECIMAL_UNDERSCORE.sub(".", bare))
    if any(_EXPERTS.match(word) for word in words):
        return None
    found: dict[str, list[int]] = {unit: [] for unit in _UNITS}
    for place, word in enumerate(words):
        size = _SIZE.match(word)
        if size is not None:
            found[size[3]].append(_count(size, words[:place]))
    millions = [count for count in found["m"] if count >= _LEAST_MILLIONS * _UNITS["m"]]
    # Beside a size in billions, M is a length of context and T a number of training tokens.
    return max(found["b"] or found["t"] or millions, default=None)


def _count(size: re.Match[str], before: list[str]) -> int:
    whole, fraction, unit = size[1], size[2], size[3]
    number = whole + fraction if fraction else whole
    if fraction is None and _is_fraction(whole, before):
        number = f"{before[-1]}.{whole}"
    return int(Decimal(number) * _UNITS[unit])


def _is_fraction(digits: str, before: list[str]) -> bool:
    """Say whether the digits are what follows the point of a size whose whole part stands before them."""
    if not before or _NUMBER.match(before[-1]) is None:
        return False
    if before[-1] == "0":
        return True
    if len(digits) > 1:
        return False
    family, version = _version(before)
    if len(version) > _VERSION_PARTS:
        return True
    attached = len(version) == _VERSION_PARTS and _NUMBER.match(before[-2]) is None
    # qwen3-1-7b: the 3 is bound to the name, so the 1 is a minor version only if there is such a one.
    return attached and version[1] != _HALF and (version[0], version[1]) not in _MINORS.get(family, ())


def _version(before: list[str]) -> tuple[str, list[int]]:
    """Return the family's name and the numbers after it, the one that is bound to the name included."""
    numbers: list[int] = []
    for word in reversed(before):
        if _NUMBER.match(word):
            numbers.insert(0, int(word))
            continue
        bound = _ATTACHED.match(word)
        return (bound[1], [int(bound[2]), *numbers]) if bound else (word, numbers)
    return "", numbers
