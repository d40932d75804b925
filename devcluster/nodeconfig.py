"""The configuration files of containerd, CNI, the kubelet and kube-proxy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from devcluster.nodeimages import PAUSE_IMAGE

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.settings import Settings


def write_all(settings: Settings) -> None:
    """Write every file into the cluster's configuration folder."""
    directory = settings.configs
    (directory / "cni").mkdir(parents=True, exist_ok=True)
    _write(directory / "containerd.toml", containerd(settings))
    _write_json(directory / "cni" / "10-pods.conflist", cni(settings))
    _write_json(directory / "kubelet.json", kubelet(settings))
    _write_json(directory / "kube-proxy.json", kube_proxy(settings))


def containerd(settings: Settings) -> str:
    """Without CAP_SYS_RESOURCE, runc cannot lower a process's OOM score: it must not try."""
    return f"""version = 3
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
root = "{settings.containerd_dir}/root"
state = "{settings.containerd_dir}/state"
[grpc]
  address = "{settings.containerd_socket}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = ["{settings.cdi_dir}"]
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{settings.binaries}"]
    conf_dir = "{settings.configs}/cni"
"""


def cni(settings: Settings) -> dict[str, Any]:
    """Pods hang on one bridge; their addresses are the first /24 of the Pods' range."""
    ipam = {
        "type": "host-local",
        "dataDir": str(settings.directory / "cni-addresses"),
        "ranges": [[{"subnet": settings.pod_cidr.split("/")[0] + "/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": settings.pod_bridge,
        "isGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": ipam,
    }
    portmap = {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "devcluster", "plugins": [bridge, portmap]}


def kubelet(settings: Settings) -> dict[str, Any]:
    """A node on a machine that is used for other things too.

    Nothing is evicted for a full disk, and no chains of iptables are made, which nothing here uses. What has
    ended is started again after a second, however often it ends: here that is somebody trying something.
    """
    pki = settings.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": settings.node_ip,
        "port": settings.kubelet_port,
        "healthzPort": settings.kubelet_health_port,
        "tlsCertFile": str(pki / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-server.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{settings.cgroup}",
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{settings.containerd_socket}",
        "podLogsDir": str(settings.logs / "pods"),
        "clusterDNS": [settings.dns_service_ip],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
        "syncFrequency": "10s",
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "volumePluginDir": str(settings.kubelet_dir / "volume-plugins"),
    }


def kube_proxy(settings: Settings) -> dict[str, Any]:
    """It sets none of the machine's connection-tracking limits: zero leaves them as they are."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(settings.component_kubeconfig("proxy"))},
        "mode": "nftables",
        "clusterCIDR": settings.pod_cidr,
        "hostnameOverride": settings.node_name,
        "healthzBindAddress": f"127.0.0.1:{settings.proxy_health_port}",
        "metricsBindAddress": f"127.0.0.1:{settings.proxy_metrics_port}",
        "oomScoreAdj": 0,
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    _write(path, json.dumps(value, indent=2))


def _write(path: Path, text: str) -> None:
    """Leave a file alone that says the same already: a kube-proxy whose file is written ends."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
