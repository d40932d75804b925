"""Random schedules over two replicas, a collector, an unreliable network and processes that die.

After every executed request the invariants are read from the bucket (``World.check``); at the end, whatever
a client was promised must come back whole from any replica.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from aimodels.dmcr import parts
from aimodels.dmcr.swaps import Swaps
from objectstore.port import StoreUnavailable
from opskit.clock import ManualClock
from tests.kit.dmcr import digest_of
from tests.kit.dmcrworld import MANIFEST, NAME, TINY_PARTS, Replica, World, manifest_of
from tests.kit.sweeper import Sweeper

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.kit.scheduledstore import Sent

OTHER = "models/team/other"
BLOBS = (b'{"descriptor":{}}', bytes(range(150)), b"\x01" * 64)
STEPS = 150


class Promises:
    """What clients were told, and therefore what must hold."""

    def __init__(self) -> None:
        self.manifests: dict[tuple[str, str], bytes] = {}
        self.removing: set[str] = set()


class Run:
    """One schedule."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.world = World()
        self.network = self.world.network
        self.promises = Promises()
        self.replicas = {name: self.world.replica(name) for name in ("one", "two")}
        self.tasks: dict[asyncio.Task[Any], str] = {}
        self.repeated: list[Sent] = []
        self.cycles = 0
        self.clocks: list[ManualClock] = []

    async def go(self) -> None:
        actions: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "push": self.push,
            "commit": self.commit,
            "head": self.head,
            "mount": self.mount,
            "remove": self.remove,
            "sweep": self.sweep,
            "kill": self.kill,
            "again": self.again,
        }
        for _ in range(STEPS):
            choices = ["run"] * 40 * bool(self.network.waiting) + ["lose"] * bool(self.network.waiting)
            choice = self.data.draw(st.sampled_from([*choices, *actions]))
            if choice in ("run", "lose"):
                sent = self.data.draw(st.sampled_from(self.network.waiting))
                if sent.writes and self.data.draw(st.integers(0, 9)) == 0:
                    self.repeated.append(sent)
                await (self.network.execute(sent) if choice == "run" else self.network.lose_answer(sent))
            else:
                await actions[choice]()
            await self.settle()
        await self.end()

    def begin(self, actor: str, work: Coroutine[Any, Any, Any]) -> None:
        self.tasks[asyncio.create_task(work)] = actor

    async def settle(self) -> None:
        """Let tasks run, wake those that wait before they try again, and look at answers."""
        await self.network.rest()
        for clock in (*self.clocks, *(replica.clock for replica in self.replicas.values())):
            await clock.advance(3)
        await self.network.rest()
        for task in [task for task in self.tasks if task.done()]:
            del self.tasks[task]
            task.result()

    def replica(self) -> Replica:
        return self.replicas[self.data.draw(st.sampled_from(["one", "two"]))]

    def name(self) -> str:
        return self.data.draw(st.sampled_from([NAME, OTHER]))

    async def push(self) -> None:
        blob = self.data.draw(st.sampled_from(BLOBS))
        replica, name = self.replica(), self.name()
        keyed = {"dmcr-resume-key": "key"} if self.data.draw(st.booleans()) else {}
        first = self.data.draw(st.sampled_from([0, 10, 64, 100]))

        async def work() -> None:
            uploads = f"/v2/{name}/blobs/uploads/"
            opened = await replica.send("POST", uploads, b"", keyed)
            if opened.status != 202:
                return
            location, offset = opened.headers["location"], int(opened.headers["dmcr-offset"])
            if first:
                piece = blob[offset : offset + first]
                sent = await replica.send("PATCH", location, piece, {})
                assert sent.status in (202, 400, 404, 409, 416, 503), sent
                if sent.status != 202:
                    return
                assert int(sent.headers["dmcr-offset"]) == offset + len(piece)
                offset += len(piece)
            target = f"{location}?digest={digest_of(blob)}"
            answer = await replica.send("PUT", target, blob[offset:], {})
            assert answer.status in (201, 400, 404, 409, 416, 503), answer

        self.begin(replica.name, work())

    async def commit(self) -> None:
        replica, name = self.replica(), self.name()
        config, layer = self.data.draw(st.sampled_from([(BLOBS[0], BLOBS[1]), (BLOBS[0], BLOBS[2])]))
        tag = self.data.draw(st.sampled_from(["a", "b"]))
        body = manifest_of(config, layer)

        async def work() -> None:
            target = f"/v2/{name}/manifests/{tag}"
            answer = await replica.send("PUT", target, body, {"Content-Type": MANIFEST})
            assert answer.status in (201, 404, 503), answer
            if answer.status == 201 and name not in self.promises.removing:
                self.promises.manifests[name, digest_of(body)] = body

        self.begin(replica.name, work())

    async def head(self) -> None:
        replica, name, blob = self.replica(), self.name(), self.data.draw(st.sampled_from(BLOBS))

        async def work() -> None:
            answer = await replica.send("HEAD", f"/v2/{name}/blobs/{digest_of(blob)}", b"", {})
            assert answer.status in (200, 404, 503), answer

        self.begin(replica.name, work())

    async def mount(self) -> None:
        replica, blob = self.replica(), self.data.draw(st.sampled_from(BLOBS))

        async def work() -> None:
            target = f"/v2/{OTHER}/blobs/uploads/?mount={digest_of(blob)}&from={NAME}"
            assert (await replica.send("POST", target, b"", {})).status in (201, 202, 503)

        self.begin(replica.name, work())

    async def remove(self) -> None:
        """Delete a blob or a manifest; from then on nothing is promised of that repository's manifests."""
        replica, name = self.replica(), self.name()
        digest = digest_of(self.data.draw(st.sampled_from([*BLOBS, manifest_of(BLOBS[0], BLOBS[1])])))
        kind = "manifests" if digest == digest_of(manifest_of(BLOBS[0], BLOBS[1])) else "blobs"
        if kind == "manifests":
            self.promises.removing.add(name)
            for promised in [key for key in self.promises.manifests if key[0] == name]:
                del self.promises.manifests[promised]

        async def work() -> None:
            answer = await replica.send("DELETE", f"/v2/{name}/{kind}/{digest}", b"", {})
            assert answer.status in (202, 404, 405, 409, 503), answer

        self.begin(replica.name, work())

    async def sweep(self) -> None:
        self.cycles += 1
        actor = f"sweeper{self.cycles}"
        clock = ManualClock()
        self.clocks.append(clock)
        sweeper = Sweeper(Swaps(self.network.store(actor), clock, self.world.fresh))

        async def work() -> None:
            with contextlib.suppress(StoreUnavailable):  # the next cycle goes on
                await sweeper.cycle()

        self.begin(actor, work())

    async def kill(self) -> None:
        """A replica's process ends, with whatever it had sent; a new one takes its place."""
        name = self.data.draw(st.sampled_from(["one", "two"]))
        cut = self.replicas[name].store.end()
        self.repeated += [sent for sent in cut if sent.writes and self.data.draw(st.booleans())]
        dying = [task for task, actor in self.tasks.items() if actor == name]
        for task in dying:
            task.cancel()
            del self.tasks[task]
        await asyncio.gather(*dying, return_exceptions=True)
        self.replicas[name] = self.world.replica(name)

    async def again(self) -> None:
        """A request of long ago is executed once more."""
        if self.repeated:
            sent = self.data.draw(st.sampled_from(self.repeated))
            self.network.schedule.append(f"again {sent}")
            sent.again()
            self.world.check()

    async def end(self) -> None:
        for _ in range(2000):
            await self.settle()
            if not self.tasks:
                break
            if self.network.waiting:
                await self.network.execute(self.network.waiting[0])
        assert not self.tasks, f"these never end: {self.network.schedule[-20:]}"
        self.network.waiting.clear()
        for (name, digest), body in self.promises.manifests.items():
            for replica in self.replicas.values():
                answer = await self.world.do(replica, "GET", f"/v2/{name}/manifests/{digest}")
                assert answer.body == body, f"{name}@{digest} was promised"


@pytest.fixture(autouse=True)
def _tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "plan_for", lambda _length, **_: TINY_PARTS)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_no_schedule_loses_what_was_promised(data: st.DataObject) -> None:
    async def run() -> None:
        schedule = Run(data)
        try:
            await schedule.go()
        except BaseException:
            note("\n".join(schedule.network.schedule))
            raise

    asyncio.run(run())
