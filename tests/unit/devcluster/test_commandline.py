from __future__ import annotations

import click
import pytest

from devcluster import commandline


class Trouble(Exception):
    """What a person can act on."""


def raising(error: BaseException | None) -> click.Command:
    def body() -> None:
        if error is not None:
            raise error

    return click.Command("tool", callback=body)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (None, 0, ""),
        (Trouble("the port is taken"), 1, "error: the port is taken\n"),
        (click.exceptions.Exit(7), 7, ""),
        (click.UsageError("no such option"), 2, "no such option"),
        (click.Abort(), 130, "interrupted\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_a_command_line_ends_with_a_code_and_at_most_a_line(
    error: BaseException | None,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["tool"])
    assert commandline.run(raising(error), (Trouble,)) == code
    assert said in capsys.readouterr().err


def test_a_mistake_of_ours_is_no_line_but_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tool"])
    with pytest.raises(ZeroDivisionError):
        commandline.run(raising(ZeroDivisionError()), (Trouble,))
