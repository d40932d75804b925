"""The one line of a log's end that says why a runtime has ended. Pure.

What belongs here: choosing and cleaning a line, and what kind of failure it tells of. What does not: reading
logs.
"""

from __future__ import annotations

import re

from aiinference.api.reasons import OrderReason

_LIMIT = 16 << 10
_SHOWN = 300
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


def _any(*patterns: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile("|".join(patterns), flags)


#: Lines that follow an error and say nothing of it.
_NOISE = _any(
    *(r"^Traceback \(most recent", r"^\s+\S", r"^[~^\s]*$", r"^usage: ", r"root cause above", r"see above"),
    *(
        r"cleaning up before",
        r"exiting due to",
        r"shutting down",
        r"^The above exception",
        r"^During handling",
    ),
    *(r"resource_tracker", r"destroy_process_group", r"Engine core initialization failed", r"core dumped"),
    *(r"check the input params", r"^Aborted", r"RUST_BACKTRACE"),
)
#: an exception's own line, or one that a program has marked as its error
_STRONG = _any(
    *(r"\b[A-Z]\w*(Error|Exception)\b: ", r"(^|\s)(error|fatal|panic(ked)?)\b\s*:", r" E \w+"),
    r"\b(ERROR|FATAL|CRITICAL)\b",
    flags=0,
)
_WEAK = _any(
    *(
        "error",
        "exception",
        "fail",
        "fatal",
        "cannot",
        "can't",
        "could not",
        "unable",
        "not found",
        "no such",
    ),
    *("denied", "invalid", "unsupported", "killed", "panicked"),
)
_MEMORY = _any(
    *("out of memory", "cannot allocate memory", "bad_alloc", "unable to allocate", "failed to allocate"),
    *("MemoryError", "No available memory for the cache blocks", "not enough memory", "failed to mmap"),
    *("less than desired GPU memory", r"allocation .{0,40}failed"),
    "larger than the maximum number of tokens that can be stored",
)
_ARGUMENT = _any(
    *(r"unrecognized arguments?", "unknown argument", "invalid argument", "invalid choice", "no such option"),
    *("unexpected argument", "the following arguments are required", r"error: argument -\S+"),
    *("error while handling argument", r"invalid value .{0,80} for '"),
)


def plain(text: str) -> str:
    """Return a text of somebody else on one line, without what steers terminals."""
    text = _ESCAPES.sub("", text[-_LIMIT:])
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def meaningful(tail: str) -> str:
    """Return the last line of a log that says something about its end; empty when there is none."""
    lines = [line for line in _lines(tail) if not _NOISE.search(line)]
    for pattern in (_STRONG, _WEAK):
        for line in reversed(lines):
            if pattern.search(line):
                return plain(line)[:_SHOWN]
    return plain(lines[-1])[:_SHOWN] if lines else ""


def kind(tail: str) -> OrderReason | None:
    """Return what kind of failure a log ends with, when its words are known."""
    for line in reversed(_lines(tail)):
        if _ARGUMENT.search(line):
            return OrderReason.INVALID_ARGUMENT
        if _MEMORY.search(line):
            return OrderReason.OUT_OF_MEMORY
    return None


def _lines(tail: str) -> list[str]:
    text = _ESCAPES.sub("", tail[-_LIMIT:])
    return [line.rstrip() for line in text.splitlines() if line.strip()]
