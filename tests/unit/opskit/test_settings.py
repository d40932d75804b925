"""Settings: what is read, and that every problem is told at once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from opskit.settings import SettingsError, describe, load


class Nested(msgspec.Struct, frozen=True):
    __secret_fields__ = ("key",)

    endpoint: str = ""
    key: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    store_url: str
    tries: int = 3
    ratio: float = 0.5
    enabled: bool = False
    folder: Path | None = None
    names: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    s3: Nested = Nested()

    def __post_init__(self) -> None:
        if self.tries == 13:
            raise ValueError("APP_TRIES must not be 13")


def test_every_kind_of_value() -> None:
    found = load(
        Sample,
        {
            "APP_STORE_URL": "file:///x",
            "APP_TRIES": "7",
            "APP_RATIO": "0.25",
            "APP_ENABLED": "true",
            "APP_FOLDER": "/var/x",
            "APP_NAMES": "a, b,,c",
            "APP_LABELS": '{"x": "y"}',
            "APP_S3_ENDPOINT": "https://s3",
            "OTHER_TRIES": "no",
        },
        prefix="APP_",
    )
    assert found == Sample(
        store_url="file:///x",
        tries=7,
        ratio=0.25,
        enabled=True,
        folder=Path("/var/x"),
        names=("a", "b", "c"),
        labels={"x": "y"},
        s3=Nested(endpoint="https://s3"),
    )


def test_an_empty_value_is_the_default() -> None:
    assert load(Sample, {"APP_STORE_URL": "x", "APP_TRIES": "", "APP_FOLDER": ""}, "APP_") == Sample(
        store_url="x"
    )


def test_all_problems_are_told_at_once_and_no_secret_with_them() -> None:
    class Secretive(msgspec.Struct, frozen=True):
        __secret_fields__ = ("pin",)
        store_url: str
        pin: int = 0
        tries: int = 3

    with pytest.raises(SettingsError) as caught:
        load(Secretive, {"APP_PIN": "hunter2", "APP_TRIES": "many", "APP_STOER_URL": "x"}, "APP_")

    text = str(caught.value)
    assert [
        word in text for word in ("APP_STORE_URL is missing", "APP_TRIES='many'", "APP_STOER_URL is not")
    ] == [
        True,
        True,
        True,
    ]
    assert "APP_PIN=***" in text
    assert "hunter2" not in text


def test_what_does_not_go_together_is_a_problem_of_the_settings() -> None:
    with pytest.raises(SettingsError, match="must not be 13"):
        load(Sample, {"APP_STORE_URL": "x", "APP_TRIES": "13"}, "APP_")


@pytest.mark.parametrize(
    "link",
    ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTPS", "PORT", "PORT_443_TCP", "PORT_443_TCP_ADDR"],
)
def test_what_the_kubelet_announces_is_no_misspelt_setting(link: str) -> None:
    environ = {"APP_STORE_URL": "x", f"APP_{link}": "10.0.0.1", f"APP_CONTROLLER_{link}": "10.0.0.1"}
    assert load(Sample, environ, "APP_") == Sample(store_url="x")


def test_the_description_shows_no_secret() -> None:
    shown = describe(Sample(store_url="x", s3=Nested("https://s3", "hunter2")))
    assert (shown["store_url"], shown["s3_endpoint"], shown["s3_key"]) == ("x", "https://s3", "***")
