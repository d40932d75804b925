"""A kubelet may meet a containerd whose CRI is not there yet; it ends then, and is started again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from devcluster import waiting
from devcluster.errors import ClusterError
from devcluster.node import KUBELET_RESTARTS, Node
from devcluster.settings import Settings

if TYPE_CHECKING:
    from devcluster.processes import Processes


class Short:
    """Processes of which the kubelet ends between two looks at the node, so many times."""

    def __init__(self, ends: int) -> None:
        self.starts = 0
        self._ends = ends
        self._runs = False

    def start(self, *_: Any) -> bool:
        self.starts += 1
        self._runs = True
        return True

    def is_running(self, name: str) -> bool:
        assert name == "kubelet"
        return self._runs

    def require(self, *names: str) -> None:
        if not self.is_running(names[0]):
            raise ClusterError(f"{names[0]} ended early")

    def problem(self, _: int) -> str | None:
        self._runs = self.starts > self._ends
        return None if self._runs else "the kubelet has not reported yet"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PAUSE", 0)


def started(folder: Path, processes: Short, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr("devcluster.node.Api", lambda _: None)
    node = Node(Settings(folder), {"kubelet": Path("kubelet")}, cast("Processes", processes))
    monkeypatch.setattr(node, "_not_ready_reason", processes.problem)
    processes.start("kubelet")
    return node


def test_an_early_end_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Short(ends=2)
    started(tmp_path, processes, monkeypatch)._wait_until_ready(0)
    assert processes.starts == 3


def test_one_that_never_stays_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Short(ends=100)
    with pytest.raises(ClusterError, match="kubelet ended early"):
        started(tmp_path, processes, monkeypatch)._wait_until_ready(0)
    assert processes.starts == 1 + KUBELET_RESTARTS
