"""Says which step is running and how long it took, while it happens."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator


class Progress:
    """Prints a line when a step is done; on a terminal also the name of the step that runs."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = output or sys.stderr
        self._start = time.monotonic()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        start = time.monotonic()
        if self._output.isatty():
            print(f"      ... {name}", end="", file=self._output, flush=True)
        try:
            yield
        except BaseException:
            self._line(f"{name} (failed)", start)
            raise
        self._line(name, start)

    def note(self, text: str) -> None:
        """Print a line that is no step."""
        print(text, file=self._output, flush=True)

    def total(self, name: str) -> None:
        """Print the time since the beginning."""
        self._line(name, self._start)

    def _line(self, name: str, start: float) -> None:
        erase = "\r\x1b[K" if self._output.isatty() else ""
        print(f"{erase}{time.monotonic() - start:7.1f} s  {name}", file=self._output, flush=True)
