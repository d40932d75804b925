"""Which cluster a kubeconfig leads to: one file, several, none; and as whom."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml

from aictl.exits import Failure
from aictl.kubeconfig import Target, load

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = Target(None, None, None)


def written(path: Path, name: str, *, current: bool = True, **user: object) -> Path:
    config = {
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}", "certificate-authority": "ca.crt"}}
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": name}}],
        "users": [{"name": name, "user": user}],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(config | ({"current-context": name} if current else {})))
    return path


def test_several_files_are_one_and_the_first_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        tmp_path / "missing",
        written(tmp_path / "a" / "config", "one", current=False, **{"client-certificate": "me.crt"}),
        written(tmp_path / "b" / "config", "two"),
        written(tmp_path / "c" / "config", "one"),
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(["", *map(str, files)]))
    chosen = load(ENVIRONMENT)
    assert (chosen.cluster.server, chosen.namespace) == ("https://two", "two")
    assert chosen.cluster.certificate_auth == f"{tmp_path}/b/ca.crt"
    other = load(Target(None, "one", None))
    assert other.cluster.certificate_auth == f"{tmp_path}/a/ca.crt"
    assert other.user
    assert other.user.client_cert == f"{tmp_path}/a/me.crt"


def test_files_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a{os.pathsep}{tmp_path}/b")
    with pytest.raises(Failure, match=f"{tmp_path}/a or {tmp_path}/b not found"):
        load(ENVIRONMENT)


@pytest.mark.parametrize("value", [None, "", os.pathsep])
def test_without_a_name_it_is_the_one_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("KUBECONFIG", raising=False)
    else:
        monkeypatch.setenv("KUBECONFIG", value)
    written(tmp_path / ".kube" / "config", "home")
    assert load(ENVIRONMENT).cluster.server == "https://home"


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_credential_plugin_is_told_what_it_is_asked_for(tmp_path: Path, version: str) -> None:
    asked = {"apiVersion": f"client.authentication.k8s.io/{version}", "command": "x"}
    file = written(tmp_path / "config", "one", exec=asked | {"env": [{"name": "A", "value": "b"}]})
    user = load(Target(file, None, None)).user
    assert user
    assert user.exec
    told = {one.name: one.value for one in user.exec.env or ()}
    assert told.pop("A") == "b"
    assert ('client.authentication.k8s.io/v1"' in told.get("KUBERNETES_EXEC_INFO", "")) == (version == "v1")
