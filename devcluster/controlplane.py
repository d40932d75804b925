"""etcd, the API server, the controller manager and the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devcluster.api import Api
from devcluster.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.processes import Processes
    from devcluster.progress import Progress
    from devcluster.settings import Settings

#: In the order in which they are stopped.
NAMES = ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")
#: By default a component asks at most 20 times a second, which alone costs five seconds at start.
CLIENT_RATE = ("--kube-api-qps=500", "--kube-api-burst=1000")
DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


class ControlPlane:
    """Starts the control plane and waits until it serves."""

    def __init__(self, settings: Settings, binaries: dict[str, Path], processes: Processes) -> None:
        self._settings = settings
        self._binaries = binaries
        self._processes = processes
        self._api = Api(settings)

    def start(self, progress: Progress) -> None:
        """Return when Pods can be created: the default ServiceAccount is there."""
        with progress.step("etcd and API server ready"):
            self._start("etcd", self._etcd())
            self._start("kube-apiserver", self._apiserver())
            self._wait("a ready API server", ("etcd", "kube-apiserver"), "/readyz")
        with progress.step("controller manager and scheduler started"):
            self._start("kube-controller-manager", self._controller_manager())
            self._start("kube-scheduler", self._scheduler())
            self._wait("the default ServiceAccount", NAMES, DEFAULT_ACCOUNT)

    def _start(self, name: str, arguments: list[str]) -> None:
        self._processes.start(name, [self._binaries[name], *arguments])

    def _wait(self, what: str, names: tuple[str, ...], path: str) -> None:
        def check() -> str | None:
            self._processes.require(*names)
            return self._api.problem(path)

        wait_until(what, check)

    def _etcd(self) -> list[str]:
        client = f"http://127.0.0.1:{self._settings.etcd_port}"
        peer = f"http://127.0.0.1:{self._settings.etcd_peer_port}"
        return [
            f"--data-dir={self._settings.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        settings, pki = self._settings, self._settings.pki
        return [
            f"--etcd-servers=http://127.0.0.1:{settings.etcd_port}",
            f"--bind-address={settings.apiserver_ip}",
            f"--advertise-address={settings.node_ip}",
            f"--secure-port={settings.apiserver_port}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={pki / 'service-account.pub'}",
            f"--service-account-signing-key-file={pki / 'service-account.key'}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={settings.service_cidr}",
            f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
        ]

    def _controller_manager(self) -> list[str]:
        settings, pki = self._settings, self._settings.pki
        return [
            *self._client_flags("controller-manager"),
            f"--secure-port={settings.controller_manager_port}",
            f"--root-ca-file={pki / 'ca.crt'}",
            f"--service-account-private-key-file={pki / 'service-account.key'}",
            f"--cluster-signing-cert-file={pki / 'ca.crt'}",
            f"--cluster-signing-key-file={pki / 'ca.key'}",
            "--use-service-account-credentials",
        ]

    def _scheduler(self) -> list[str]:
        return [*self._client_flags("scheduler"), f"--secure-port={self._settings.scheduler_port}"]

    def _client_flags(self, component: str) -> list[str]:
        kubeconfig = self._settings.component_kubeconfig(component)
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            *CLIENT_RATE,
        ]
