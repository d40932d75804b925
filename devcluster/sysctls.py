"""Kernel settings that a node needs: set by `up`, and set back by `down`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/proc/sys")
#: What Pods' traffic and the kubelet need. The kubelet would set its own later, without a word.
WANTED = {
    "net.ipv4.ip_forward": "1",
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.keys.root_maxbytes": "25000000",
}
#: What the kernel changes along with net.ipv4.ip_forward.
FOLLOWING = ("net/ipv4/conf/*/forwarding", "net/ipv4/conf/all/accept_redirects")


def read() -> dict[str, str]:
    """Return the present value of everything that `apply` changes, directly or not."""
    following = [path.relative_to(ROOT) for pattern in FOLLOWING for path in ROOT.glob(pattern)]
    names = [*WANTED, *("/".join(path.parts) for path in following)]
    return {name: _path(name).read_text().strip() for name in names if _path(name).exists()}


def changes(present: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return what `apply` would change, and from what to what."""
    return {
        name: (present[name], value)
        for name, value in WANTED.items()
        if name in present and present[name] != value
    }


def apply(present: dict[str, str]) -> None:
    """Set what differs from what a node needs."""
    for name, (_, value) in changes(present).items():
        _path(name).write_text(value)


def restore(before: dict[str, str]) -> None:
    """Set back what differs from before; an interface may have gone in the meantime."""
    for name, value in before.items():
        path = _path(name)
        if path.exists() and path.read_text().strip() != value:
            path.write_text(value)


def _path(name: str) -> Path:
    """A name with slashes is a path already: an interface's name may have dots in it."""
    return ROOT / (name if "/" in name else name.replace(".", "/"))
