from __future__ import annotations

import io
import json
import socket
from pathlib import Path

import pytest

from devcluster import dns, host, machine, mounts, network, record, strays, sysctls
from devcluster.errors import ClusterError
from devcluster.progress import Progress
from devcluster.record import Record
from devcluster.settings import Settings

CLUSTER = Settings(Path("/var/lib/devcluster"))


@pytest.fixture(autouse=True)
def _own_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(record, "FILE", tmp_path / "record.json")


def test_mount_points_with_spaces_are_read() -> None:
    info = "36 35 98:0 / / rw - ext4 /dev/root rw\n40 36 0:5 / /a\\040b\\134c rw shared:1 - tmpfs tmpfs rw\n"
    assert mounts.points_of(info) == [Path("/"), Path("/a b\\c")]


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        (["/c/etcd", "--data-dir=/var/lib/devcluster/etcd"], True),
        (["/x/containerd", "--config", "/var/lib/devcluster/config/containerd.toml"], True),
        (["/x/containerd-shim-runc-v2", "-address", "/var/lib/devcluster/containerd/containerd.sock"], True),
        (["/c/etcd", "--data-dir=/var/lib/devcluster-2/etcd"], False),
        (["/usr/bin/etcd", "--data-dir=/var/lib/etcd"], False),
        (["tail", "-f", "/var/lib/devcluster/logs/etcd.log"], False),
        ([""], False),
    ],
)
def test_only_components_of_this_cluster_are_strays(command: list[str], ours: bool) -> None:  # noqa: FBT001
    assert strays.belongs(command, CLUSTER.directory) is ours


def test_only_what_differs_is_changed() -> None:
    present = {"net.ipv4.ip_forward": "0", "vm.overcommit_memory": "1", "net/ipv4/conf/eth0/forwarding": "0"}
    assert sysctls.changes(present) == {"net.ipv4.ip_forward": ("0", "1")}


def test_the_machine_as_it_was_is_written_down_and_read() -> None:
    written = Record("/c", {"kernel.panic": "3"}, ["/run/containerd"])
    record.write(written)
    assert record.read() == written
    record.remove()
    assert record.read() is None


@pytest.mark.parametrize("content", ["", "{}", "[]"])
def test_a_damaged_record_says_what_to_do(content: str) -> None:
    record.FILE.write_text(content)
    with pytest.raises(ClusterError, match="remove it"):
        record.read()


def test_a_second_node_on_one_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    record.write(Record("/other", {}, []))
    monkeypatch.setattr(strays, "find", lambda directory: {7: "etcd"} if directory == Path("/other") else {})
    with pytest.raises(ClusterError, match="devcluster --dir /other down"):
        host.check_owner(CLUSTER, Progress(io.StringIO()))


def test_a_node_of_somebody_else_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "has_foreign_proxy", lambda: True)
    with pytest.raises(ClusterError, match="seems to be a Kubernetes node"):
        host.check_owner(CLUSTER, Progress(io.StringIO()))


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        cluster = Settings(Path("/c"), port_base=port)
        with pytest.raises(ClusterError, match=f"port {port}, for etcd, is in use"):
            machine.check_ports(cluster)
        machine.check_ports(cluster, running=cluster.ports_by_process)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="GB free, a cluster needs"):
        machine.check_disk(tmp_path / "not" / "there", 10**18, "a cluster")


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(ClusterError, match="Linux only, this is Darwin"):
        machine.check(CLUSTER)


def test_a_node_needs_root_and_a_control_plane_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    machine.check(Settings(Path("/c"), control_plane_only=True))
    with pytest.raises(ClusterError, match="--control-plane-only"):
        machine.check(CLUSTER)


def test_a_question_for_an_address() -> None:
    expected = "1234 0100 0001 0000 0000 0000 01 61 03 737663 00 0001 0001"
    assert dns.question(0x1234, "a.svc.") == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("reply", "known"),
    [
        ("1234 8580 0001 0001 0000 0000", True),
        ("1234 8583 0001 0000 0000 0000", False),
        ("1234 8580 0001 0000 0000 0000", False),
        ("4321 8580 0001 0001 0000 0000", False),
        ("1234 0100 0001 0001 0000 0000", False),
        ("1234", False),
    ],
)
def test_an_answer_counts_only_when_it_holds_an_address(reply: str, known: bool) -> None:  # noqa: FBT001
    assert dns.has_address(bytes.fromhex(reply), 0x1234) is known


def test_the_record_is_plain_json() -> None:
    record.write(Record("/c", {}, []))
    assert json.loads(record.FILE.read_text()) == {"directory": "/c", "sysctls": {}, "absent": []}
