"""Where everything of one cluster lies and how it is addressed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import ClusterError

#: A Unix socket's path has room for 107 bytes; the longest one below the kubelet's folder is
#: that of a plugin's registration: `plugins_registry/<driver>-reg.sock`.
MAX_SOCKET_PATH = 107
LONGEST_SOCKET_NAME = len("/kubelet/plugins_registry/node-cache.ai-models.deckhouse.io-0123456789-reg.sock")
#: What lies in a cluster's folder: with anything else in it, a folder is somebody's own.
CONTENTS = frozenset(
    {
        "settings.json",
        "etcd",
        "pki",
        "logs",
        "pids",
        "config",
        "bin",
        "kubeconfig",
        "kubelet",
        "containerd",
        "cdi",
        "volumes",
        "cni-addresses",
    }
)
PORTS = 10
DEFAULT_PORT_BASE = 16440


def default_directory() -> Path:
    """Return the cluster's usual folder: short for root, since sockets lie in it."""
    if os.geteuid() == 0:
        return Path("/var/lib/devcluster")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "devcluster"


@dataclass(frozen=True)
class Settings:
    """One cluster: its folder, its ports and its address ranges."""

    directory: Path
    control_plane_only: bool = False
    port_base: int = DEFAULT_PORT_BASE
    #: nodes without a kubelet, whose Pods are played
    fake_nodes: int = 0
    node_name: str = "node-1"
    node_ip: str = "10.200.0.1"
    node_bridge: str = "devnode0"
    pod_bridge: str = "devpod0"
    service_cidr: str = "10.96.0.0/16"
    kubernetes_service_ip: str = "10.96.0.1"
    dns_service_ip: str = "10.96.0.10"
    pod_cidr: str = "10.244.0.0/16"
    cgroup: str = "devcluster"

    @property
    def etcd_port(self) -> int:
        """Etcd's port for clients."""
        return self.port_base

    @property
    def etcd_peer_port(self) -> int:
        """Etcd's port for peers, which it opens also when it is alone."""
        return self.port_base + 1

    @property
    def apiserver_port(self) -> int:
        """The API server's port."""
        return self.port_base + 2

    @property
    def controller_manager_port(self) -> int:
        """The controller manager's port for health and metrics."""
        return self.port_base + 3

    @property
    def scheduler_port(self) -> int:
        """The scheduler's port for health and metrics."""
        return self.port_base + 4

    @property
    def kubelet_port(self) -> int:
        """The kubelet's port, which logs and exec go through."""
        return self.port_base + 5

    @property
    def kubelet_health_port(self) -> int:
        """The kubelet's port for health."""
        return self.port_base + 6

    @property
    def proxy_health_port(self) -> int:
        """kube-proxy's port for health."""
        return self.port_base + 7

    @property
    def proxy_metrics_port(self) -> int:
        """kube-proxy's port for metrics."""
        return self.port_base + 8

    @property
    def kwok_port(self) -> int:
        """The port on which what plays nodes tells how it is."""
        return self.port_base + 9

    @property
    def ports_by_process(self) -> dict[str, tuple[int, ...]]:
        """Which process opens which ports."""
        control_plane: dict[str, tuple[int, ...]] = {
            "etcd": (self.etcd_port, self.etcd_peer_port),
            "kube-apiserver": (self.apiserver_port,),
            "kube-controller-manager": (self.controller_manager_port,),
            "kube-scheduler": (self.scheduler_port,),
        }
        if self.fake_nodes:
            control_plane["kwok"] = (self.kwok_port,)
        if self.control_plane_only:
            return control_plane
        return control_plane | {
            "kubelet": (self.kubelet_port, self.kubelet_health_port),
            "kube-proxy": (self.proxy_health_port, self.proxy_metrics_port),
        }

    @property
    def apiserver_ip(self) -> str:
        """Pods must reach the API server, so with a node it listens on the node's address."""
        return "127.0.0.1" if self.control_plane_only else self.node_ip

    @property
    def apiserver_url(self) -> str:
        """The API server's address."""
        return f"https://{self.apiserver_ip}:{self.apiserver_port}"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.directory / "pki"

    @property
    def logs(self) -> Path:
        """One log file per process."""
        return self.directory / "logs"

    @property
    def pids(self) -> Path:
        """One file per process: its id and when it started."""
        return self.directory / "pids"

    @property
    def configs(self) -> Path:
        """Configuration files of the components."""
        return self.directory / "config"

    @property
    def binaries(self) -> Path:
        """Links to the built binaries."""
        return self.directory / "bin"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def kubelet_dir(self) -> Path:
        """The kubelet's folder, with the sockets of its plugins."""
        return self.directory / "kubelet"

    @property
    def containerd_dir(self) -> Path:
        """Containerd's folder: images, snapshots, state."""
        return self.directory / "containerd"

    @property
    def containerd_socket(self) -> Path:
        """Where containerd answers."""
        return self.containerd_dir / "containerd.sock"

    @property
    def cdi_dir(self) -> Path:
        """Device specifications for containers."""
        return self.directory / "cdi"

    @property
    def volumes(self) -> Path:
        """What the default StorageClass gives out."""
        return self.directory / "volumes"

    def component_kubeconfig(self, component: str) -> Path:
        """Return where a component's own kubeconfig lies."""
        return self.configs / f"{component}.kubeconfig"

    def check_socket_paths(self) -> None:
        """Fail early: a too long folder shows up much later as an obscure bind error."""
        over = len(str(self.directory)) + LONGEST_SOCKET_NAME - MAX_SOCKET_PATH
        if over > 0:
            raise ClusterError(
                f"the folder {self.directory} is {over} characters too long for the Unix sockets inside it; "
                f"choose a shorter --dir"
            )

    def save(self) -> None:
        """Write down what `down` and `status` have to know."""
        self.directory.mkdir(parents=True, exist_ok=True)
        values = {
            "control_plane_only": self.control_plane_only,
            "port_base": self.port_base,
            "fake_nodes": self.fake_nodes,
        }
        _file(self.directory).write_text(json.dumps(values))


def load(directory: Path) -> Settings | None:
    """Return the settings of the cluster in this folder, if there is one."""
    try:
        values = json.loads(_file(directory).read_text())
        return Settings(
            directory,
            bool(values["control_plane_only"]),
            int(values["port_base"]),
            int(values.get("fake_nodes", 0)),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClusterError(
            f"{_file(directory)} cannot be read as a cluster's ({error!r}); name another --dir, "
            f"or, when it is a cluster's, remove {directory} and run `up`"
        ) from None


def refuse_foreign(directory: Path) -> None:
    """Raise when a folder holds what no cluster has made: `down` removes a folder with all that is in it."""
    if _file(directory).exists() or not directory.is_dir():
        return
    foreign = sorted({entry.name for entry in directory.iterdir()} - CONTENTS)
    if foreign:
        raise ClusterError(
            f"{directory} holds {foreign[0]} and no cluster, so nothing is touched; name another --dir"
        )


def require(directory: Path) -> Settings:
    """Return the settings of the cluster in this folder; that there is none is an error."""
    settings = load(directory)
    if settings is None:
        raise ClusterError(
            f"there is no cluster in {directory}; run `devcluster up` first, or name its --dir"
        )
    return settings


def _file(directory: Path) -> Path:
    return directory / "settings.json"
