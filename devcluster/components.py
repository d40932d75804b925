"""The pinned components: which Go module each binary comes from and how it is linked."""

from __future__ import annotations

from dataclasses import dataclass

KUBERNETES_VERSION = "v1.36.3"
CONTAINERD_VERSION = "v2.2.9"
PROVISIONER_VERSION = "v0.0.30"
HELM_VERSION = "v3.22.0"
TRAEFIK_VERSION = "v3.7.13"


@dataclass(frozen=True)
class Thinned:
    """A module that is built from a copy with less in it; `replace` in the group's go.mod leads there.

    In the copy the group's folder `overlay` takes the place of what was left out.
    """

    module: str
    version: str
    #: as go.sum would have it, which has none for a module that is replaced
    checksum: str
    overlay: str
    #: folders of the module, and modules that it requires, which stay out of the copy
    without: tuple[str, ...]
    requirements: tuple[str, ...]


@dataclass(frozen=True)
class Definitions:
    """Manifests of a module that a component needs, kept beside its binary as one file."""

    module: str
    folders: tuple[str, ...]


@dataclass(frozen=True)
class Component:
    """One binary. `group` is the folder under go/ whose go.mod pins its dependencies."""

    name: str
    group: str
    package: str
    link_flags: tuple[str, ...] = ()
    thinned: Thinned | None = None
    definitions: Definitions | None = None


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

#: What plays nodes without a kubelet; only where somebody asks for such nodes. Its stages say how it plays.
FAKE_NODES = (
    Component(
        "kwok",
        "addons",
        "sigs.k8s.io/kwok/cmd/kwok",
        definitions=Definitions(
            "sigs.k8s.io/kwok",
            (
                "kustomize/stage/node/fast",
                "kustomize/stage/node/heartbeat-with-lease",
                "kustomize/stage/pod/fast",
            ),
        ),
    ),
)

#: Never part of a cluster by itself: its build alone takes as long as half of the others.
INGRESS = (
    Component(
        "traefik",
        "traefik",
        "github.com/traefik/traefik/v3/cmd/traefik",
        (f"-X github.com/traefik/traefik/v3/pkg/version.Version={TRAEFIK_VERSION.removeprefix('v')}",),
        thinned=Thinned(
            module="github.com/go-acme/lego/v5",
            version="v5.4.1",
            checksum="h1:Jt6xAP9xQrJ3SLLGgxejfDDd3pzdrmuLCWe4oTqHHQc=",
            overlay="lego",
            # The providers of DNS for ACME: two hundred SDKs, one of which no proxy serves.
            without=("providers/dns", "cmd", "e2e"),
            requirements=(
                "github.com/nrdcg/oci-go-sdk/common/v1065",
                "github.com/nrdcg/oci-go-sdk/dns/v1065",
            ),
        ),
        definitions=Definitions("sigs.k8s.io/gateway-api", ("config/crd/standard",)),
    ),
)
