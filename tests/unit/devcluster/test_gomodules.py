from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from devcluster.components import Definitions, Thinned
from devcluster.errors import ClusterError
from devcluster.gomodules import THINNED, GoModules

if TYPE_CHECKING:
    from pathlib import Path

MODULE = Thinned(
    module="example.com/large",
    version="v1.2.3",
    checksum="h1:right=",
    overlay="large",
    without=("providers/dns", "cmd"),
    requirements=("example.com/sdk",),
)


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Return a group's folder with what takes the place of the providers."""
    made = tmp_path / "go" / "traefik"
    _write(made / "go.mod", "module group")
    _write(made / "large" / "providers" / "dns" / "providers.go", "package dns // none")
    return made


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _toolchain(tmp_path: Path, checksum: str) -> GoModules:
    """Return a Go that knows where the module lies, and writes down what it is asked to edit."""
    source = tmp_path / "cache" / "large@v1.2.3"
    _write(source / "go.mod", "module example.com/large")
    _write(source / "log" / "log.go", "package log")
    _write(source / "providers" / "dns" / "aws" / "aws.go", "package aws")
    _write(source / "providers" / "http" / "http.go", "package http")
    _write(source / "cmd" / "main.go", "package main")
    _write(source / "config" / "crd" / "b.yaml", "kind: B")
    _write(source / "config" / "crd" / "a.yaml", "kind: A")
    for path in source.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    told = json.dumps({"Dir": str(source), "Sum": checksum})
    go = tmp_path / "go-tool"
    _write(
        go,
        f"""#!/bin/sh
case "$2" in
download) echo '{told}' ;;
edit) echo "$@" > edited ;;
-mod=readonly) echo '{source}' ;;
esac
""",
    )
    go.chmod(stat.S_IRWXU)
    return GoModules(go)


def test_a_module_is_thinned_in_a_copy_of_the_group(tmp_path: Path, group: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    folder = _toolchain(tmp_path, MODULE.checksum).thin(MODULE, group, work)
    copy = folder / THINNED
    made = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert made >= {"go.mod", "log/log.go", "providers/http/http.go", "providers/dns/providers.go"}
    assert not [name for name in made if name.startswith(("cmd/", "providers/dns/aws"))]
    assert "-droprequire=example.com/sdk" in (copy / "edited").read_text()
    assert not (group / THINNED).exists()
    assert all(path.stat().st_mode & stat.S_IWUSR for path in copy.rglob("*"))


def test_another_content_than_the_pinned_one_is_refused(tmp_path: Path, group: Path) -> None:
    with pytest.raises(ClusterError, match="is h1:wrong=, which is not the pinned h1:right="):
        _toolchain(tmp_path, "h1:wrong=").thin(MODULE, group, tmp_path)


def test_manifests_of_a_module_become_one_file(tmp_path: Path, group: Path) -> None:
    modules = _toolchain(tmp_path, MODULE.checksum)
    text = modules.definitions(Definitions(MODULE.module, ("config/crd",)), group)
    assert text == "---\nkind: A\n---\nkind: B\n"
    with pytest.raises(ClusterError, match="has no manifests in elsewhere"):
        modules.definitions(Definitions(MODULE.module, ("config/crd", "elsewhere")), group)
