"""The node's address and bridges, and the packet filter's tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from devcluster.commands import run, succeeds

if TYPE_CHECKING:
    from devcluster.settings import Settings

INTERFACES = Path("/sys/class/net")
#: kube-proxy's rules, and those that CNI's portmap leaves for host ports.
TABLES = tuple((family, table) for family in ("ip", "ip6") for table in ("kube-proxy", "cni_hostport"))


def prepare(settings: Settings) -> None:
    """Make the bridge that carries the node's own address."""
    bridge = settings.node_bridge
    if not (INTERFACES / bridge).exists():
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "address", "add", f"{settings.node_ip}/24", "dev", bridge)
    run("ip", "link", "set", bridge, "up")


def present(settings: Settings) -> list[str]:
    """Return the bridges and tables that are there, in words."""
    bridges = [f"bridge {name}" for name in _bridges(settings) if (INTERFACES / name).exists()]
    tables = [f"nft table {family} {name}" for family, name in TABLES if _has_table(family, name)]
    return bridges + tables


def remove(settings: Settings) -> None:
    """Remove the bridges and tables, those of the node's components included."""
    for bridge in _bridges(settings):
        if (INTERFACES / bridge).exists():
            _remove_ports(bridge)
            run("ip", "link", "delete", bridge)
    for family, table in TABLES:
        if _has_table(family, table):
            run("nft", "delete", "table", family, table)


def has_foreign_proxy() -> bool:
    """Tell whether some kube-proxy has rules here."""
    return _has_table("ip", "kube-proxy") or _has_table("ip6", "kube-proxy")


def _bridges(settings: Settings) -> tuple[str, str]:
    return (settings.pod_bridge, settings.node_bridge)


def _remove_ports(bridge: str) -> None:
    """Remove the host's ends of the Pods' links, which outlive the bridge."""
    for port in (INTERFACES / bridge / "brif").iterdir():
        succeeds("ip", "link", "delete", port.name)


def _has_table(family: str, table: str) -> bool:
    return succeeds("nft", "list", "table", family, table)
