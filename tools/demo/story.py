"""Tells the demo while it happens: a heading for each step, its time, and a table of times at the end."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator


class Story:
    """What is told to the person in front of the terminal."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._times: list[tuple[str, float]] = []

    @contextmanager
    def step(self, title: str, phase: str) -> Iterator[None]:
        """Tell what is done now, in the user's words, and how long it took; `phase` names it in the table."""
        click.echo()
        click.secho(f"{len(self._times) + 1}. {title}", bold=True)
        start = time.monotonic()
        yield
        taken = time.monotonic() - start
        self._times.append((phase, taken))
        click.secho(f"   done in {taken:.1f} s", fg="green")

    def say(self, text: str) -> None:
        """Say something within a step."""
        for line in text.splitlines():
            click.echo(f"   {line}")

    def table(self) -> str:
        """Return the table of times."""
        rows = [*self._times, ("in all", time.monotonic() - self._start)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"  {name:{width}}  {taken:7.1f} s" for name, taken in rows)
