"""What is said of an order, said the same again while nothing but numbers and identifiers differ.

What belongs here: that comparison. What does not: what is said (``report``).

A status that quotes a port or a request's id anew each time would be written again and again, as every write
has the order looked at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubekit.conditions import Condition

_VARYING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+")
#: of a quota the numbers matter, and they change only when somebody changes them
_EXACT = re.compile("exceeded quota|maximum .* usage|minimum .* usage")


def unless_new(text: str, said: Condition | None) -> str:
    """Return a text, or what was said before when that differs in nothing that matters."""
    if said is None or _EXACT.search(text):
        return text
    return said.message if _VARYING.sub("", said.message) == _VARYING.sub("", text) else text
