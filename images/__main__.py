"""The command line: `python -m images build NAME --output FILE` prints the image's reference."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click

from devcluster import cache, commandline
from images.builds import BUILDS, build
from images.errors import ImageError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Build the project's container images, without Docker."""


@main.command("build")
@click.argument("name", type=click.Choice(sorted(BUILDS)))
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The archive to write."
)
def build_command(name: str, output: Path) -> None:
    """Write a docker-archive; `devcluster load`, podman and docker read it."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=cache.folder("images")) as work:
        reference = build(name, output, Path(work))
    size = output.stat().st_size / 1e6
    print(f"{time.monotonic() - start:7.1f} s  {output}, {size:.0f} MB", file=sys.stderr)
    print(reference)


if __name__ == "__main__":
    sys.exit(commandline.run(main, (ImageError,)))
