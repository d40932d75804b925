from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import yaml

from devcluster import addons, nodeconfig
from devcluster.nodeimages import COREDNS_IMAGE, PAUSE_IMAGE
from devcluster.settings import Settings

CLUSTER = Settings(Path("/c"))


def test_everything_of_containerd_lies_in_the_cluster() -> None:
    config = tomllib.loads(nodeconfig.containerd(CLUSTER))
    runtime = config["plugins"]["io.containerd.cri.v1.runtime"]
    paths = [config["root"], config["state"], config["grpc"]["address"], runtime["cni"]["conf_dir"]]
    assert all(path.startswith("/c/") for path in [*paths, *runtime["cni"]["bin_dirs"]])
    assert config["plugins"]["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == PAUSE_IMAGE


def test_kube_proxy_leaves_the_machines_limits_alone() -> None:
    conntrack = nodeconfig.kube_proxy(CLUSTER)["conntrack"]
    assert conntrack["maxPerCore"] == conntrack["min"] == 0
    assert {conntrack["tcpEstablishedTimeout"], conntrack["tcpCloseWaitTimeout"]} == {"0s"}


def test_pods_ask_the_clusters_own_name_server() -> None:
    assert nodeconfig.kubelet(CLUSTER)["clusterDNS"] == [CLUSTER.dns_service_ip]


def test_all_files_are_written(tmp_path: Path) -> None:
    cluster = Settings(tmp_path)
    nodeconfig.write_all(cluster)
    assert json.loads((cluster.configs / "kubelet.json").read_text())["port"] == cluster.kubelet_port
    assert json.loads((cluster.configs / "cni" / "10-pods.conflist").read_text())["cniVersion"]


def test_files_of_running_processes_are_not_written_again(tmp_path: Path) -> None:
    cluster = Settings(tmp_path)
    nodeconfig.write_all(cluster)
    files = [path for path in cluster.configs.rglob("*") if path.is_file()]
    for path in files:
        os.utime(path, (1, 1))
    nodeconfig.write_all(cluster)
    assert files
    assert {path.stat().st_mtime for path in files} == {1.0}


def test_manifests_are_whole_once_rendered() -> None:
    rendered = "".join(addons.render(CLUSTER, path) for path in sorted(addons.MANIFESTS.glob("*.yaml")))
    documents = [document for document in yaml.safe_load_all(rendered) if document]
    kinds = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    assert kinds["Service", "kube-dns"]["spec"]["clusterIP"] == CLUSTER.dns_service_ip
    pod = kinds["Deployment", "coredns"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == COREDNS_IMAGE
    default = kinds["StorageClass", "shared"]["metadata"]["annotations"]
    assert default == {"storageclass.kubernetes.io/is-default-class": "true"}
    setup = kinds["ConfigMap", "local-path-config"]["data"]["setup"]
    assert 'mkdir -m 0777 -p "$VOL_DIR"' in setup
