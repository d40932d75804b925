"""A process that works on a file-system store, for tests that need two of them or kill one.

Arguments: the root, then what to do: ``count KEY TIMES`` (add to a counter by compare-and-swap),
``put KEY SIZE`` (replace an object for ever, each time all bytes the same), ``hold KEY`` (begin a multipart
upload, store one part, tell, and wait to be stopped).
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from objectstore.filesystem import FileSystemStore
from objectstore.port import PreconditionFailed


async def main(root: str, verb: str, key: str, number: str = "0") -> None:
    """Do what the arguments say."""
    store = FileSystemStore(Path(root))
    print("ready", flush=True)  # noqa: T201 - what the parent waits for
    if verb == "count":
        await count(store, key, int(number))
    elif verb == "put":
        await put(store, key, int(number))
    else:
        await hold(store, key)
    await store.close()


async def count(store: FileSystemStore, key: str, times: int) -> None:
    """Add to the counter so many times."""
    while times:
        found = await store.get(key)
        try:
            await store.put(key, b"%d" % (int(found.body) + 1), if_match=found.etag)
        except PreconditionFailed:
            continue
        times -= 1


async def put(store: FileSystemStore, key: str, size: int) -> None:
    """Replace the object until killed."""
    for fill in range(1, sys.maxsize):
        await store.put(key, bytes([fill % 256]) * size)


async def hold(store: FileSystemStore, key: str) -> None:
    """Keep the right to write into an upload."""
    upload = await store.create_multipart(key)
    etag = await store.upload_part(key, upload, 1, b"1" * 1000)
    print(upload, etag, flush=True)  # noqa: T201 - what the parent reads
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
