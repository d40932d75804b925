"""How a command ends: exit codes that scripts can rely on, and errors that a person can act on.

What belongs here: the codes and the form of an error. What does not: any particular error.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import IO, Any

import click

_WORD = re.compile(r"[a-z]+ ")


class Exit(IntEnum):
    """What a shell sees."""

    DONE = 0
    FAILED = 1  #: something went wrong that may go right another time
    USAGE = 2  #: wrong use, or the file is not a model
    IMPOSSIBLE = 3  #: cannot succeed as things are: something has to change first
    DENIED = 4  #: the cluster does not allow it to this user
    TIMED_OUT = 5
    INTERRUPTED = 130


class Failure(click.ClickException):
    """The end of a command that did not do what was asked: what, why, and the next step."""

    def __init__(
        self, what: str, why: str, next_step: str = "", *, code: Exit = Exit.FAILED, detail: str = ""
    ) -> None:
        super().__init__(
            " ".join(part for part in (_sentence(what), _sentence(why), _sentence(next_step)) if part)
        )
        self.exit_code = int(code)  # type: ignore[misc] # click reads it from the instance
        self.code = code
        context = click.get_current_context(silent=True)
        verbose = context is not None and context.find_root().params.get("verbose")
        self.detail = detail if verbose else ""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentences to standard error, and what lies behind them with ``-v``."""
        click.echo(f"aictl: {self.message}", file=file, err=True)
        if self.detail:
            click.echo(self.detail, file=file, err=True)


def _sentence(text: str) -> str:
    """Return a text with a capital, if it begins with a word and no name, and with a full stop."""
    text = text.strip()
    if _WORD.match(text):
        text = text[0].upper() + text[1:]
    return text if not text or text[-1] in ".!?:" or "\n" in text else f"{text}."
