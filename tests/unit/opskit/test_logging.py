"""Log lines: one form for all, and nothing secret in them."""

from __future__ import annotations

import io
import json
import logging as stdlib
from typing import TYPE_CHECKING, Any

import pytest

from opskit import logging

if TYPE_CHECKING:
    from collections.abc import Iterator


class Lines:
    def __init__(self) -> None:
        self.stream = io.StringIO()

    def __getitem__(self, index: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stream.getvalue().splitlines()[index])
        return found

    def __len__(self) -> int:
        return len(self.stream.getvalue().splitlines())


@pytest.fixture
def lines() -> Iterator[Lines]:
    root = stdlib.getLogger()
    before = root.handlers[:], root.level
    made = Lines()
    logging.configure("tested", "info", stream=made.stream)
    yield made
    stdlib.captureWarnings(capture=False)
    root.handlers[:], root.level = before


def test_a_line_begins_with_the_same_keys(lines: Lines) -> None:
    logging.logger("room.module").info("done", bytes=3, duration_ms=1.5)
    assert list(lines[0]) == ["ts", "level", "msg", "component", "logger", "bytes", "duration_ms"]
    assert (lines[0]["level"], lines[0]["msg"], lines[0]["component"]) == ("info", "done", "tested")


def test_libraries_speak_the_same_form(lines: Lines) -> None:
    stdlib.getLogger("some.library").warning("took %d s", 3)
    assert (lines[0]["msg"], lines[0]["logger"], lines[0]["level"]) == ("took 3 s", "some.library", "warning")


@pytest.mark.parametrize("key", ["token", "uploadToken", "secretKey", "PASSWORD", "Authorization", "key_pem"])
def test_values_of_secret_keys_never_get_out(lines: Lines, key: str) -> None:
    logging.logger("a").info("x", **{key: "hunter2"}, deep={"list": [{key: "hunter2"}]})
    assert "hunter2" not in lines.stream.getvalue()


def test_credentials_inside_a_text_never_get_out(lines: Lines) -> None:
    stdlib.getLogger("http").error("sent Authorization: Bearer abcdefghijkl.mnop")
    logging.logger("a").info("x", err=ValueError("header was 'Bearer abcdefghijkl.mnop'"))
    assert "abcdefghijkl" not in lines.stream.getvalue()


def test_an_error_is_named_and_its_traceback_stands_apart(lines: Lines) -> None:
    try:
        int("none")
    except ValueError as error:
        logging.logger("a").warning("short", err=error)
        logging.logger("a").exception("long")
    assert (lines[0]["err"], "stack" in lines[0]) == (
        "ValueError: invalid literal for int() with base 10: 'none'",
        False,
    )
    assert lines[1]["err"] == lines[0]["err"]
    assert "Traceback" in lines[1]["stack"]


def test_the_level_changes_at_run_time(lines: Lines) -> None:
    log = logging.logger("a.changing")
    log.debug("hidden")
    logging.set_level("Debug")
    log.debug("shown")
    logging.set_level("error")
    log.warning("hidden")
    assert [line["msg"] for line in lines] == ["shown"]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="debug, info, warning or error"):
        logging.set_level("loud")


def test_values_that_are_no_json_do_not_break_a_line(lines: Lines) -> None:
    logging.logger("a").info("x", value=object(), raw=b"\xff", number=float("nan"))
    assert lines[0]["msg"] == "x"
