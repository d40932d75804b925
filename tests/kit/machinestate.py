"""What a cluster could leave behind on a machine, as sets of words that a test compares."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

#: Settings that change by themselves, or that the kernel counts in.
VOLATILE = (
    "fs/",
    "kernel/ns_last_pid",
    "kernel/pty/",
    "kernel/random/",
    "net/netfilter/nf_conntrack_count",
    "vm/stat",
)
FOLDERS = ("/run", "/opt", "/etc", "/var/lib", "/var/log", "/usr/libexec", "/usr/local", "/mnt")
DEPTH = 2
NODE_PROCESSES = ("containerd", "kubelet", "kube-proxy", "coredns", "local-path", "pause", "runc")


def state() -> dict[str, set[str]]:
    """Return everything that can be compared before and after."""
    return {
        "sysctls": _sysctls(),
        "mounts": set(Path("/proc/self/mountinfo").read_text().splitlines()),
        "links": {link["ifname"] for link in json.loads(_run("ip", "-json", "link"))},
        "addresses": {line for line in _run("ip", "-brief", "address").splitlines() if line.strip()},
        "routes": set(_run("ip", "route", "show", "table", "all").splitlines()),
        "tables": set(_run("nft", "list", "tables").splitlines()),
        "namespaces": _network_namespaces(),
        "cgroups": {str(path) for path in Path("/sys/fs/cgroup").glob("*/*/")},
        "processes": _processes(),
        "folders": _folders(),
    }


def differences(before: dict[str, set[str]], after: dict[str, set[str]]) -> list[str]:
    """Return what is there now and was not, and what is missing now."""
    return [
        f"{kind}: {sign} {word}"
        for kind in before
        for sign, words in (("+", after[kind] - before[kind]), ("-", before[kind] - after[kind]))
        for word in sorted(words)
    ]


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _sysctls() -> set[str]:
    root = Path("/proc/sys")
    found = set()
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if name.startswith(VOLATILE) or path.is_dir():
            continue
        try:
            found.add(f"{name} = {path.read_text().strip()}")
        except (OSError, UnicodeDecodeError):
            continue
    return found


def _network_namespaces() -> set[str]:
    answer = json.loads(_run("lsns", "--json", "--type", "net", "--output", "NS"))
    return {str(namespace["ns"]) for namespace in answer["namespaces"]}


def _processes() -> set[str]:
    """Only those of a node: others come and go on a machine that people work on."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            status = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        name = Path(command[0].decode(errors="replace")).name
        if status not in "ZX" and name.startswith(NODE_PROCESSES):
            found.add(f"{name} {b' '.join(command[1:6]).decode(errors='replace')}")
    return found


def _folders() -> set[str]:
    found = set()
    for top in FOLDERS:
        pattern = "*"
        for _ in range(DEPTH):
            found |= {str(path) for path in Path(top).glob(pattern) if path.is_dir()}
            pattern += "/*"
    return found
