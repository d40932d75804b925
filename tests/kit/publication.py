"""The publication worker as a process against a running DMCR, and uploads as the gateway leaves them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

from modelkit.modelpack import FILEPATH
from tests.kit.dmcr import OCI_MANIFEST, Dmcr, digest_of

if TYPE_CHECKING:
    from pathlib import Path

UPLOAD_TYPE = "application/vnd.deckhouse.ai-models.upload.v1+json"


async def upload(dmcr: Dmcr, repository: str, data: bytes, filename: str | None) -> str:
    """Leave an upload as the gateway does: one raw blob, a manifest with the tag ``upload``."""
    digest = await dmcr.push_blob(repository, data)
    empty = await dmcr.push_blob(repository, b"{}")
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": UPLOAD_TYPE,
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2},
        "layers": [
            {
                "mediaType": "application/octet-stream",
                "digest": digest,
                "size": len(data),
                "annotations": {FILEPATH: filename} if filename else {},
            }
        ],
    }
    body = json.dumps(manifest).encode()
    headers = {"Content-Type": OCI_MANIFEST}
    async with dmcr.client.put(f"/v2/{repository}/manifests/upload", data=body, headers=headers) as answer:
        assert answer.status == 201, await answer.text()
    return digest


def transfer_of(repository: str, attempt: int) -> str:
    """Return the transfer of an attempt at the repository's model."""
    return f"publish-{repository.rpartition('/')[2]}-g1-a{attempt}"


class Worker:
    """One attempt: ``await worker.start()``, then ``wait`` or ``kill``."""

    def __init__(self, url: str, repository: str, folder: Path, attempt: int = 1, **environ: str) -> None:
        self.log = folder / f"worker-{attempt}.log"
        self.termination = folder / f"termination-{attempt}"
        self.termination.touch()
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PUBLICATION_")},
            "PUBLICATION_DMCR_URL": url,
            "PUBLICATION_REPOSITORY": repository,
            "PUBLICATION_MODEL_NAME": repository.rpartition("/")[2],
            "PUBLICATION_TRANSFER": transfer_of(repository, attempt),
            "PUBLICATION_TERMINATION_FILE": str(self.termination),
            **environ,
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "aimodels.publication", env=self._environ, stderr=log, stdout=log
            )

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def run(self) -> int:
        await self.start()
        return await self.wait()

    def verdict(self) -> dict[str, str]:
        """Return the termination message."""
        found: dict[str, str] = json.loads(self.termination.read_bytes() or b"{}")
        return found


async def manifest_of(dmcr: Dmcr, repository: str, tag: str = "published") -> tuple[str, bytes]:
    """Return digest and bytes of a tagged manifest."""
    async with dmcr.client.get(f"/v2/{repository}/manifests/{tag}") as answer:
        body = await answer.read()
        assert answer.status == 200, body
    return digest_of(body), body


async def blob_of(dmcr: Dmcr, repository: str, digest: str) -> bytes:
    async with dmcr.client.get(f"/v2/{repository}/blobs/{digest}") as answer:
        body = await answer.read()
        assert answer.status == 200, body
    assert digest_of(body) == digest
    return body
