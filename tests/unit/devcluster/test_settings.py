from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import cluster, settings
from devcluster.errors import ClusterError
from devcluster.progress import Progress
from devcluster.settings import MAX_SOCKET_PATH, PORTS, Settings


def test_settings_are_found_again(tmp_path: Path) -> None:
    written = Settings(tmp_path / "c", control_plane_only=True, port_base=20000, fake_nodes=3)
    written.save()
    assert settings.load(tmp_path / "c") == written


def test_a_folder_without_a_cluster(tmp_path: Path) -> None:
    assert settings.load(tmp_path) is None
    with pytest.raises(ClusterError, match="no cluster in"):
        settings.require(tmp_path)


def test_a_folder_with_something_of_its_owners_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ClusterError, match=r"holds thesis\.txt and no cluster"):
        cluster.up(Settings(tmp_path, control_plane_only=True), Progress())
    with pytest.raises(ClusterError, match=r"holds thesis\.txt and no cluster"):
        cluster.down(tmp_path, Progress())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_what_a_cluster_without_its_settings_has_left_is_not_foreign(tmp_path: Path) -> None:
    settings.refuse_foreign(tmp_path / "none")
    for name in ("etcd", "kubelet", "pki"):
        (tmp_path / name).mkdir()
    settings.refuse_foreign(tmp_path)


@pytest.mark.parametrize("content", ["{", "{}", "[]"])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / "settings.json").write_text(content)
    with pytest.raises(ClusterError, match="remove"):
        settings.load(tmp_path)


def test_the_usual_folder_is_short_enough_for_sockets() -> None:
    Settings(Path("/var/lib/devcluster")).check_socket_paths()


@pytest.mark.parametrize("over", [0, 1, 30])
def test_the_longest_folder_for_sockets(over: int) -> None:
    room = MAX_SOCKET_PATH - settings.LONGEST_SOCKET_NAME
    cluster = Settings(Path("/" + "d" * (room - 1 + over)))
    if over:
        with pytest.raises(ClusterError, match=f"{over} characters too long"):
            cluster.check_socket_paths()
    else:
        cluster.check_socket_paths()


def test_ports_are_distinct_and_in_the_block() -> None:
    cluster = Settings(Path("/c"), port_base=20000)
    ports = [port for owned in cluster.ports_by_process.values() for port in owned]
    assert len(set(ports)) == len(ports)
    assert set(ports) <= set(range(20000, 20000 + PORTS))


def test_pods_reach_the_api_server_of_a_cluster_with_a_node() -> None:
    assert Settings(Path("/c")).apiserver_ip == "10.200.0.1"
    assert Settings(Path("/c"), control_plane_only=True).apiserver_ip == "127.0.0.1"
