from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from devcluster import gobuild, toolchain, wanted
from devcluster.components import CONTROL_PLANE, INGRESS, NODE, Component
from devcluster.errors import ClusterError
from devcluster.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

NO_COMMANDS: dict[str, str] = {}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.27rc1 linux/arm64", (1, 27)),
        ("go version devel +abc", None),
        ("", None),
    ],
)
def test_reading_go_version(text: str, version: tuple[int, int] | None) -> None:
    assert toolchain.version_of(text) == version


def test_only_packages_of_missing_commands_are_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        wanted, "which", lambda command: None if command in {"runc", "mount", "umount"} else "/x"
    )
    found = wanted.find([], wanted.NODE_COMMANDS, tmp_path)
    assert found.packages == ("mount", "runc")
    assert not found.builds


def test_go_is_wanted_only_for_a_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(toolchain, "system_go", lambda: None)
    assert wanted.find(CONTROL_PLANE, NO_COMMANDS, tmp_path).go_version == toolchain.wheel_version()
    for component in CONTROL_PLANE:
        _pretend_built(component, tmp_path)
    assert wanted.find(CONTROL_PLANE, NO_COMMANDS, tmp_path).nothing


def test_the_list_names_everything_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NO_INSTALL", "1")
    missing = wanted.Wanted(("runc",), "1.27.3", CONTROL_PLANE[:2])
    output = io.StringIO()
    with pytest.raises(ClusterError, match="nothing was installed"):
        wanted.provide(missing, tmp_path, Progress(output))
    for word in ("apt-get: runc", "Go 1.27.3", "etcd kube-apiserver", str(tmp_path)):
        assert word in output.getvalue()


def test_nothing_is_listed_when_nothing_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_INSTALL", "1")
    output = io.StringIO()
    wanted.provide(wanted.Wanted(), tmp_path, Progress(output))
    assert not output.getvalue()


def test_packages_without_root_are_left_to_the_person(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NO_INSTALL", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="apt-get install runc"):
        wanted.provide(wanted.Wanted(("runc",)), tmp_path, Progress(io.StringIO()))


def test_a_build_is_named_by_its_pins_and_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gobuild, "GO_ROOT", tmp_path / "go")
    pins = tmp_path / "go" / "group" / "go.mod"
    pins.parent.mkdir(parents=True)
    pins.write_text("one")
    component = Component("x", "group", ".", ("-X a=1",))
    paths = {gobuild.cached_path(component, tmp_path)}
    paths.add(gobuild.cached_path(Component("x", "group", ".", ("-X a=2",)), tmp_path))
    pins.write_text("two")
    paths.add(gobuild.cached_path(component, tmp_path))
    assert len(paths) == 3


def test_every_component_has_pins() -> None:
    groups = {component.group for component in (*CONTROL_PLANE, *NODE, *INGRESS)}
    assert all((gobuild.GO_ROOT / group / "go.mod").is_file() for group in groups)


def _pretend_built(component: Component, kept: Path) -> None:
    path = gobuild.cached_path(component, kept)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
