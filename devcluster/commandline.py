"""How the project's command lines end: an error that a person can act on is one line, not a traceback."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(command: click.Command, failures: Sequence[type[Exception]]) -> int:
    """Run the command line and return its exit code; ``failures`` are what a person can act on."""
    try:
        # What click would exit with comes as the value.
        ended = command(standalone_mode=False)
    except tuple(failures) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    return ended if isinstance(ended, int) else 0
