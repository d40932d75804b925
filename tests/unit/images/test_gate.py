"""What a gate's configuration can be made to say, and which keys it takes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.gate import keys
from images.gate.__main__ import main
from images.gate.config import Route, Settings, render

if TYPE_CHECKING:
    from pathlib import Path


ROUTES = (Route("POST", "/v1/rerank"), Route("GET", "/v1/models"))
ADDRESSES = {"listen": "[::]:8000 ipv6only=off", "metrics_listen": "8002", "upstream": "127.0.0.1:8001"}
KEY = "a-key-of-32-characters-for-tests"


def _settings(**changes: object) -> Settings:
    fields = {"routes": ROUTES, "keys": True, "directory": "/run/gate", **ADDRESSES, **changes}
    return Settings(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        *("", "POST", "POST=", "=/v1/x", "post=/v1/x", "POST=v1/x", "POST=/", "POST=/a//b", "POST=/a/../b"),
        *("POST=/a b", "POST=/a;return 200", "POST=/a\n", "POST=/a{", 'POST=/a"', "POST=/a$uri", "POST=/a/"),
    ],
)
def test_what_is_no_route_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no route"):
        Route.parse(text)


@given(st.text(max_size=30))
def test_a_route_that_is_taken_cannot_say_anything_else_to_nginx(text: str) -> None:
    try:
        route = Route.parse(f"POST=/{text}")
    except ValueError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_./-]+", route.path)
    assert f"location = {route.path} {{" in render(_settings(routes=(route,)))


@pytest.mark.parametrize("field", ["listen", "metrics_listen", "upstream"])
def test_an_address_that_says_more_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        _settings(**{field: "127.0.0.1:80; access_log /etc/x"})


@pytest.mark.parametrize("folder", ["run/gate", "/run/gate;", "/run/my gate", "/", ""])
def test_a_folder_that_says_more_is_refused(folder: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a configuration"):
        _settings(directory=folder)


def test_equal_settings_give_an_equal_text() -> None:
    assert render(_settings()) == render(_settings())


def test_keys_are_asked_for_on_every_route_or_on_none() -> None:
    assert render(_settings()).count("return 401; }") == len(ROUTES)
    assert "return 401; }" not in render(_settings(keys=False))


def test_nothing_of_what_is_logged_could_hold_a_key() -> None:
    (log,) = re.findall(r"log_format gate escape=json '(.*)';", render(_settings()))
    named = set(json.loads(log).values())
    assert not named & {"$request", "$request_uri", "$uri", "$args", "$http_authorization", "$gate_key"}
    assert re.findall(r"error_log (.*);", render(_settings())) == ["stderr alert"]


def test_a_gate_that_is_told_something_impossible_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--route", "POST=/a;b"]) == 2
    assert "is no route" in json.loads(capsys.readouterr().err)["err"]


def test_keys_become_files_and_go_with_the_secret(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "run" / "keys"
    secret.mkdir()
    (secret / "token").write_text(f"{KEY}\n")
    (secret / "previousToken").write_text(KEY[::-1])
    assert keys.keep(folder, keys.read(secret))
    assert {path.name for path in folder.iterdir()} == {KEY, KEY[::-1]}
    assert not keys.keep(folder, keys.read(secret))
    (secret / "previousToken").unlink()
    assert keys.keep(folder, keys.read(secret))
    assert [path.name for path in folder.iterdir()] == [KEY]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_value_that_is_refused_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a secret that nobody may read in a log!")
    with pytest.raises(keys.BadKey) as refused:
        keys.read(tmp_path)
    assert "nobody may read" not in str(refused.value)


def test_without_a_value_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="token or previousToken"):
        keys.read(tmp_path)


@given(st.text(max_size=250))
def test_a_key_that_is_taken_is_the_name_of_one_file(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    secret = tmp_path_factory.mktemp("secret")
    (secret / "token").write_bytes(text.encode())
    try:
        (found,) = keys.read(secret)
    except keys.BadKey:
        return
    assert "/" not in found
    assert not found.startswith(".")
    assert 16 <= len(found) <= 200
