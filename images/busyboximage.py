"""A tiny image with a shell, for tests and for the helpers of the cluster's volumes."""

from __future__ import annotations

import shutil
from pathlib import Path

from images.archive import Image, LayerWriter
from images.errors import ImageError

REFERENCE = "docker.io/local/busybox:1"
COMMANDS = (
    *("sh", "ash", "cat", "chmod", "cp", "date", "dd", "echo", "env", "find", "grep", "head", "hostname"),
    *("httpd", "id", "ip", "ls", "md5sum", "mkdir", "mount", "mv", "nc", "nslookup", "ping", "printf", "ps"),
    *("rm", "rmdir", "sed", "sha256sum", "sleep", "stat", "sync", "tail", "tar", "test", "touch", "umount"),
    *("wc", "wget"),
)


def binary() -> Path:
    """Return the machine's static busybox."""
    found = shutil.which("busybox")
    if not found:
        raise ImageError("busybox is missing; on Debian: apt-get install busybox-static")
    return Path(found)


def image(program: Path, work: Path) -> Image:
    """Make the image; its layer is written into the work folder."""
    layer = LayerWriter()
    layer.add(program, "bin/busybox")
    layer.add_directory("tmp", 0o1777)
    layer.add_text("etc/passwd", "root:x:0:0:root:/:/bin/sh\n")
    for command in COMMANDS:
        layer.add_link(f"bin/{command}", "busybox")
    written = layer.write(work / "busybox.tar")
    return Image(REFERENCE, [written], {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]})
