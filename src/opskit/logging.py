"""JSON log lines for every logger of the process, ours and the libraries', with secrets taken out.

What belongs here: the format, the level, the redaction. What does not: audit lines (``webkit.audit``).

One line is one object: ``ts``, ``level``, ``msg``, ``component``, ``logger``, then the fields of the call.
An error goes under ``err`` (and its traceback under ``stack``), a duration under ``duration_ms``.
"""

from __future__ import annotations

import logging as stdlib
import re
import sys
import traceback
from collections.abc import Mapping, MutableMapping
from typing import IO, TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# structlog's console for developers takes rich when it finds it, which costs each start 0.15 s for nothing.
_rich = sys.modules.get("rich")
sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
finally:
    del sys.modules["rich"]
    if _rich is not None:
        sys.modules["rich"] = _rich

REDACTED = "***"
_SECRET_KEY = re.compile(r"token|secret|password|authorization|key_pem", re.IGNORECASE)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_FIRST = ("ts", "level", "msg", "component", "logger")

Event = MutableMapping[str, Any]


def configure(component: str, level: str = "info", *, stream: IO[str] | None = None) -> None:
    """Send every log record of the process as JSON lines to ``stream`` (standard error by default)."""
    handler = stdlib.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
                _Named(component),
                _errors,
                _redact,
                _render,
            ],
        )
    )
    root = stdlib.getLogger()
    root.handlers[:] = [handler]
    set_level(level)
    stdlib.captureWarnings(capture=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def set_level(level: str) -> None:
    """Change the level of the running process; libraries stay at warning unless it is debug."""
    wanted = stdlib.getLevelNamesMapping().get(level.upper())
    if wanted is None:
        raise ValueError(f"log level {level!r} is unknown; use debug, info, warning or error")
    stdlib.getLogger().setLevel(wanted)
    for chatty in (
        "botocore",
        "boto3",
        "urllib3",
        "httpx",
        "httpx2",
        "httpcore",
        "asyncio",
        "aiohttp.access",
    ):
        stdlib.getLogger(chatty).setLevel(max(wanted, stdlib.WARNING))


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module; fields are keyword arguments of its calls."""
    return structlog.stdlib.get_logger(name)


def bound(**fields: Any) -> AbstractContextManager[None]:
    """Add fields to every line that is logged within, also by what is called."""
    return structlog.contextvars.bound_contextvars(**fields)


class _Named:
    """Adds the component and puts the well-known keys first."""

    def __init__(self, component: str) -> None:
        self._component = component

    def __call__(self, _logger: Any, _method: str, event: Event) -> Event:
        event["msg"] = event.pop("event", "")
        event["component"] = self._component
        return {key: event[key] for key in _FIRST if key in event} | dict(event)


def _errors(_logger: Any, _method: str, event: Event) -> Event:
    exc_info = event.pop("exc_info", None)
    if exc_info is True:
        exc_info = sys.exc_info()
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if isinstance(error, BaseException):
        event.setdefault("err", error)
        event["stack"] = "".join(traceback.format_exception(error))
    if isinstance(event.get("err"), BaseException):
        event["err"] = f"{type(event['err']).__name__}: {event['err']}"
    return event


def _redact(_logger: Any, _method: str, event: Event) -> Event:
    return {key: _clean(key, value) for key, value in event.items()}


def _clean(key: str, value: Any) -> Any:
    if _SECRET_KEY.search(key) and value is not None:
        return REDACTED
    if isinstance(value, Mapping):
        return {inner: _clean(str(inner), item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean("", item) for item in value]
    if isinstance(value, str):
        return _BEARER.sub(rf"\1 {REDACTED}", value)
    return value


def _render(_logger: Any, _method: str, event: Event) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
