"""The pinned components: which Go module each binary comes from and how it is linked."""

from __future__ import annotations

from dataclasses import dataclass

KUBERNETES_VERSION = "v1.36.3"
CONTAINERD_VERSION = "v2.2.9"
PROVISIONER_VERSION = "v0.0.30"
HELM_VERSION = "v3.22.0"


@dataclass(frozen=True)
class Component:
    """One binary. `group` is the folder under go/ whose go.mod pins its dependencies."""

    name: str
    group: str
    package: str
    link_flags: tuple[str, ...] = ()


def _kubernetes(name: str) -> Component:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    flags = tuple(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())
    return Component(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", flags)


def _containerd(name: str) -> Component:
    flag = f"-X github.com/containerd/containerd/v2/version.Version={CONTAINERD_VERSION}"
    return Component(name, "containerd", f"github.com/containerd/containerd/v2/cmd/{name}", (flag,))


def _cni(name: str, kind: str) -> Component:
    return Component(name, "cni", f"github.com/containernetworking/plugins/plugins/{kind}/{name}")


CONTROL_PLANE = (
    Component("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kubectl"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
)

CNI_PLUGINS = (
    _cni("bridge", "main"),
    _cni("loopback", "main"),
    _cni("host-local", "ipam"),
    _cni("portmap", "meta"),
)

NODE = (
    _kubernetes("kubelet"),
    _kubernetes("kube-proxy"),
    _containerd("containerd"),
    _containerd("containerd-shim-runc-v2"),
    _containerd("ctr"),
    *CNI_PLUGINS,
    Component("pause", "pause", "."),
    Component("coredns", "addons", "./coredns"),
    Component(
        "local-path-provisioner",
        "addons",
        "github.com/rancher/local-path-provisioner",
        (f"-X main.VERSION={PROVISIONER_VERSION}",),
    ),
    Component(
        "helm",
        "addons",
        "helm.sh/helm/v3/cmd/helm",
        (f"-X helm.sh/helm/v3/internal/version.version={HELM_VERSION}",),
    ),
)
