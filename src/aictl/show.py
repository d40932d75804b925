"""What a terminal shows: a bar for people, plain lines for pipes, nothing but the end with ``-q``.

Everything live goes to standard error; standard output holds the result alone, so that it can be piped.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from modelkit import sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.progress import Progress

PLAIN_SECONDS = 5.0


class Show:
    """One command's voice."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.as_json = as_json
        self._quiet = quiet or as_json
        self._moving: Progress | None = None

    def note(self, text: str) -> None:
        """Say something on the way; above a bar that moves."""
        if self._moving:
            self._moving.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif not self._quiet:
            click.echo(text, err=True)

    def result(self, text: str, document: Any) -> None:
        """Say the end: text for people, one JSON document with ``--json``."""
        click.echo(json.dumps(document, indent=2, default=str) if self.as_json else text)

    @contextmanager
    def bar(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show bytes moving while the block runs; the given call takes how many are done."""
        if self._quiet:
            yield lambda _done: None
        elif sys.stderr.isatty():
            with _bar() as moving:
                self._moving = moving
                task = moving.add_task(name, total=total)
                try:
                    yield lambda done: moving.update(task, completed=done)
                finally:
                    self._moving = None
        else:
            yield _Lines(self, name, total)


def _bar() -> Progress:
    """Return a bar; what draws it takes long to load, and pipes have none."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


class _Lines:
    """Progress for a pipe: a line every few seconds, and one at the end."""

    def __init__(self, show: Show, name: str, total: int) -> None:
        self._show, self._name, self._total = show, name, total
        self._said = time.monotonic()

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if done < self._total and now - self._said < PLAIN_SECONDS:
            return
        self._said = now
        percent = 100 * done // self._total if self._total else 100
        self._show.note(f"{self._name}  {percent}%  {sizes.text(done)} of {sizes.text(self._total)}")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns as kubectl aligns them: no lines, three spaces between."""
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (header, *rows)
    ]
    return "\n".join(line.rstrip() for line in lines)
