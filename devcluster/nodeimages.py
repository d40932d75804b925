"""The node's images: made from the built binaries, or loaded from archives."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import cache, deltas
from devcluster.commands import run
from devcluster.errors import ClusterError
from images import busyboximage
from images.archive import Image, LayerWriter, write_archive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.settings import Settings

PAUSE_IMAGE = "docker.io/local/pause:1"
COREDNS_IMAGE = "docker.io/local/coredns:1"
PROVISIONER_IMAGE = "docker.io/local/local-path-provisioner:1"
#: What runs in the images of the cluster's own Pods.
PROGRAMS = {
    PAUSE_IMAGE: "pause",
    COREDNS_IMAGE: "coredns",
    PROVISIONER_IMAGE: "local-path-provisioner",
}


class NodeImages:
    """The images that containerd holds for the kubelet."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def load(self, archive: Path) -> None:
        """Import every image of a docker-archive, compressed or not."""
        if not archive.is_file():
            raise ClusterError(f"{archive} is no file; `python -m images build` writes one")
        with tempfile.TemporaryDirectory(dir=self._settings.directory) as work:
            smaller = Path(work) / "delta.tar"
            is_ours = deltas.write(archive, self._digests(), smaller)
            self._ctr("images", "import", smaller if is_ours else archive.resolve())

    def references(self) -> set[str]:
        """Return the names of all images."""
        return set(self._ctr("images", "list", "--quiet").split())

    def _digests(self) -> set[str]:
        return set(self._ctr("content", "list", "--quiet").split())

    def problem(self) -> str | None:
        """Return why containerd does not answer, or None if it does."""
        try:
            self._ctr("version")
        except ClusterError as error:
            return str(error)
        return None

    def load_system_images(self, binaries: dict[str, Path]) -> None:
        """Import what the cluster's own Pods run, unless it is there from an earlier start."""
        wanted = {*PROGRAMS, busyboximage.REFERENCE}
        if not wanted <= self.references():
            self.load(_system_archive(binaries))

    def load_program(self, reference: str, program: Path) -> None:
        """Import an image that holds one program, unless it is there."""
        if reference in self.references():
            return
        with tempfile.TemporaryDirectory(dir=self._settings.directory) as work:
            archive = Path(work) / "image.tar"
            write_archive(_images([(reference, program)], Path(work)), archive)
            self.load(archive)

    def _ctr(self, *arguments: str | Path) -> str:
        address = ("--address", self._settings.containerd_socket, "--connect-timeout", "2s")
        return run(self._settings.binaries / "ctr", *address, "--namespace", "k8s.io", *arguments)


def _system_archive(binaries: dict[str, Path]) -> Path:
    """Return the archive of all system images, kept under a name that says what is in it."""
    programs = {reference: binaries[program] for reference, program in PROGRAMS.items()}
    kept = cache.folder("devcluster")
    shell = busyboximage.binary()
    words = (str(path.relative_to(kept)) for path in programs.values())
    archive = kept / f"system-images-{cache.key(words, [shell])}.tar"
    with cache.locked(archive):
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=kept) as work:
                made = [*_images(programs.items(), Path(work)), busyboximage.image(shell, Path(work))]
                write_archive(made, archive)
    return archive


def _images(programs: Iterable[tuple[str, Path]], work: Path) -> list[Image]:
    images = []
    for reference, program in programs:
        layer = LayerWriter()
        layer.add(program, f"bin/{program.name}")
        layer.add_directory("tmp", 0o1777)
        written = layer.write(work / f"{program.name}.tar")
        images.append(
            Image(reference, [written], {"Entrypoint": [f"/bin/{program.name}"], "Env": ["PATH=/bin"]})
        )
    return images
