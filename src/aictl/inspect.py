"""``aictl inspect``: what a model on disk is, from its headers alone.

What belongs here: finding the files of a model at a path, and printing. What does not: reading formats.
"""

from __future__ import annotations

import errno
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click
import msgspec

from modelkit import inspection, sizes
from modelkit.archives import MEMBER_LIMIT, is_hidden
from modelkit.errors import Damaged, NotAModel
from modelkit.formats import detect, gguf
from modelkit.reading import LocalFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelkit.facts import ModelFacts
    from modelkit.inspection import Inspection
    from modelkit.reading import Files, RangeReader

NOT_A_MODEL, IO_ERROR = 2, 3
_DEPTH = 32
_TENSORS_HEAD = slice(8, 9)


@click.command()
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON document with all facts.")
def inspect(path: str, *, as_json: bool) -> None:
    """Say what the model at PATH is: a file, a tar, or a directory.

    Only headers are read, whatever the size. Exit codes: 0 read, 2 not a model or damaged, 3 cannot be read.
    """
    try:
        found = look(path)
    except NotAModel as error:
        _fail(f"{error}", NOT_A_MODEL)
    except OSError as error:
        _fail(f"{error.filename or path}: {error.strerror or error}", IO_ERROR)
    if as_json:
        sys.stdout.write(msgspec.json.encode(found.facts).decode() + "\n")
    else:
        sys.stdout.write(_text(path, found.facts))


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"aictl: {_printable(message)}\n")
    sys.exit(code)


def _printable(text: str) -> str:
    """Return the text with everything escaped that could steer a terminal."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def look(path: str) -> Inspection:
    """Look at the model at a path.

    Raises:
        NotAModel: there is none, or it is damaged.
        OSError: something there cannot be read.
    """
    if os.path.isdir(path):  # noqa: PTH112 - start-up time
        try:
            return inspection.inspect_files(_directory(path))
        except NotAModel as error:
            raise type(error)(os.path.join(path, error.where) if error.where else path, error.why) from error  # noqa: PTH118
    reader = LocalFile(path)
    head = reader.read_at(0, detect.HEAD)
    lowered = path.lower()
    if head.startswith(gguf.MAGIC) or lowered.endswith(".gguf"):
        return inspection.inspect_gguf(_shards(path, gguf.shard_of(path), "gguf"))
    if lowered.endswith(".safetensors") or head[_TENSORS_HEAD] == b"{":
        from modelkit.formats import safetensors  # noqa: PLC0415 - GGUF files start up without it

        return inspection.inspect_tensors(_shards(path, safetensors.shard_of(path), "safetensors"))
    detect.serve(path, head)
    return inspection.inspect_archive(reader, path)


def _shards(path: str, shard: tuple[str, int, int] | None, suffix: str) -> Files:
    """Return the file, and with a numbered one the others of its set."""
    if shard is None:
        return {path: partial(LocalFile, path)}
    stem, _, count = shard
    digits = len(path.rpartition("-of-")[2].partition(".")[0])
    names = [
        f"{stem}-{number:0{digits}}-of-{count:0{digits}}.{suffix}"
        for number in range(1, min(count, MEMBER_LIMIT) + 1)
    ]
    missing = next((name for name in names if not os.path.exists(name)), None)  # noqa: PTH110 - start-up time
    if missing is not None:
        raise Damaged(missing, f"is missing from the set of {path}")
    return {name: partial(LocalFile, name) for name in names}


def _directory(top: str) -> Files:
    """Return the files below a directory by their path from it, hidden ones left out."""
    files: dict[str, Callable[[], RangeReader]] = {}
    pending = [("", 0)]
    while pending:
        inside, depth = pending.pop()
        with os.scandir(os.path.join(top, inside)) as entries:  # noqa: PTH118 - start-up time
            for entry in entries:
                name = f"{inside}/{entry.name}" if inside else entry.name
                if is_hidden(name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if depth < _DEPTH:
                        pending.append((name, depth + 1))
                elif _is_file(entry):
                    files[name] = partial(LocalFile, entry.path)
                if len(files) > MEMBER_LIMIT:
                    raise NotAModel("", f"more than {MEMBER_LIMIT} files are not looked at")
    return files


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Say whether it is a file; a link that leads in circles is none, as one that leads nowhere."""
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _text(path: str, facts: ModelFacts) -> str:
    """Return the facts for people: one line of what it is, then the rest by name."""
    summary = [
        facts.format,
        facts.family,
        f"{sizes.count(facts.parameter_count)} parameters" if facts.parameter_count else None,
        facts.quantization,
        f"{facts.context_window_tokens} tokens of context" if facts.context_window_tokens else None,
        sizes.text(facts.facts.weight_bytes) if facts.facts.weight_bytes else None,
    ]
    lines = [_printable(f"{path}: {', '.join(one for one in summary if one)}")]
    rest: dict[str, object] = {**msgspec.to_builtins(facts), **msgspec.to_builtins(facts.facts)}
    for hidden in ("format", "facts", "confidence"):
        rest.pop(hidden, None)
    width = max(map(len, rest))
    lines += [f"  {name:<{width}}  {_printable(_shown(value))}" for name, value in rest.items()]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, str):
        first = value.strip().partition("\n")[0]
        limit = 80
        return (
            first
            if first == value.strip() and len(first) <= limit
            else f"{first[:limit]} ... ({len(value)} characters)"
        )
    if isinstance(value, dict):
        return ", ".join(f"{key} {sizes.text(size)}" for key, size in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "yes" if value is True else "no" if value is False else str(value)
