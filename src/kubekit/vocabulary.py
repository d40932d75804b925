"""What the words of a closed vocabulary tell a person: the shape of an explanation.

What belongs here: that shape. What does not: any word, which is its product's (``api``).
"""

from typing import NamedTuple


class Meaning(NamedTuple):
    """What it means, what to do, and whether it passes by itself (None: nothing is wrong)."""

    means: str
    do: str = ""
    recovers: bool | None = None
