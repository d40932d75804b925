from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from kubekit.errors import AlreadyExists, Conflict, Unreachable
from kubekit.lease import Lease, LeaseLost, lease_of_pod
from kubekit.resources import LeaseSpec, ObjectMeta
from kubekit.resources.control import Lease as LeaseRecord

if TYPE_CHECKING:
    from kubekit.client import Client


class OneLease:
    """The API server as far as a Lease needs it: one record with a version; it can be cut off or frozen."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] | None = None
        self.version = 0

    def view(self) -> FakeClient:
        return FakeClient(self)


class FakeClient:
    def __init__(self, server: OneLease) -> None:
        self.server = server
        self.cut = False
        self.frozen = False

    async def reach(self) -> None:
        await asyncio.sleep(0.01)
        if self.frozen:
            await asyncio.Event().wait()
        if self.cut:
            raise Unreachable("cut")

    async def find(self, *_: object) -> LeaseRecord | None:
        await self.reach()
        spec = self.server.spec
        if spec is None:
            return None
        return LeaseRecord(
            metadata=ObjectMeta(resource_version=str(self.server.version)),
            spec=LeaseSpec(
                holder_identity=spec["holderIdentity"],
                lease_duration_seconds=spec["leaseDurationSeconds"],
                lease_transitions=spec.get("leaseTransitions"),
            ),
        )

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        await self.reach()
        if self.server.spec is not None:
            raise AlreadyExists(409, "AlreadyExists", "there")
        return self._store(manifest["spec"])

    async def patch(self, _kind: object, _name: str, body: dict[str, Any], **_: object) -> dict[str, Any]:
        await self.reach()
        if body["metadata"]["resourceVersion"] != str(self.server.version):
            raise Conflict(409, "Conflict", "changed")
        return self._store((self.server.spec or {}) | body["spec"])

    def _store(self, spec: dict[str, Any]) -> dict[str, Any]:
        self.server.spec = spec
        self.server.version += 1
        return {"metadata": {"resourceVersion": str(self.server.version)}}


def candidate(client: FakeClient, name: str) -> Lease:
    return Lease(cast("Client", client), "ns", "leader", name)


def of_pod(client: FakeClient, uid: str) -> Lease:
    return lease_of_pod(cast("Client", client), "ns", "leader", uid)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.looptime
async def test_the_second_candidate_waits_while_the_first_renews() -> None:
    server = OneLease()
    first, second = candidate(server.view(), "a"), candidate(server.view(), "b")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(120)
    assert first.held()
    assert not waiting.done()
    holding.cancel()
    waiting.cancel()


@pytest.mark.looptime
async def test_a_container_that_was_started_again_leads_again_at_once() -> None:
    server = OneLease()
    killed, next_one = of_pod(server.view(), "uid-1"), of_pod(server.view(), "uid-1")
    await killed.acquire()
    before = now()
    await next_one.acquire()
    assert now() < before + 1
    assert next_one.held()
    with pytest.raises(LeaseLost):
        await killed.hold()


@pytest.mark.looptime
@pytest.mark.parametrize(("first", "second"), [("uid-1", "uid-2"), ("uid-1", ""), ("", "uid-1"), ("", "")])
async def test_the_lease_of_another_pod_or_of_an_unknown_process_is_respected(
    first: str, second: str
) -> None:
    server = OneLease()
    killed, next_one = of_pod(server.view(), first), of_pod(server.view(), second)
    await killed.acquire()
    before = now()
    await next_one.acquire()
    assert now() >= before + 15


@pytest.mark.looptime
async def test_two_that_start_at_once_never_both_lead() -> None:
    server = OneLease()
    candidates = [candidate(server.view(), name) for name in "abcd"]
    tasks = [asyncio.create_task(one.acquire()) for one in candidates]
    await asyncio.sleep(5)
    assert sum(one.held() for one in candidates) == 1
    for task in tasks:
        task.cancel()


@pytest.mark.looptime
async def test_a_holder_cut_off_gives_up_before_another_takes_over() -> None:
    server = OneLease()
    view = server.view()
    first, second = candidate(view, "a"), candidate(server.view(), "b")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(30)
    view.cut = True
    with pytest.raises(LeaseLost):
        await holding
    given_up = now()
    assert not first.held()
    await waiting
    assert now() > given_up + 1
    assert second.held()


@pytest.mark.looptime
async def test_requests_that_hang_cost_the_lease_in_time_too() -> None:
    server = OneLease()
    view = server.view()
    first, second = candidate(view, "a"), candidate(server.view(), "b")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(30)
    view.frozen = True
    started = now()
    with pytest.raises(LeaseLost):
        await holding
    assert now() - started < 15
    assert not waiting.done()
    await waiting


@pytest.mark.looptime
async def test_a_frozen_holder_finds_out_at_its_first_step() -> None:
    server = OneLease()
    first, second = candidate(server.view(), "a"), candidate(server.view(), "b")
    await first.acquire()
    # Its process is frozen: nothing of it runs while time passes and somebody else takes over.
    await second.acquire()
    assert not first.held()
    started = now()
    with pytest.raises(LeaseLost):
        await first.hold()
    assert now() == started
    assert server.spec is not None
    assert server.spec["holderIdentity"] == second.identity


@pytest.mark.looptime
async def test_a_short_outage_costs_nothing() -> None:
    server = OneLease()
    view = server.view()
    lease = candidate(view, "a")
    await lease.acquire()
    holding = asyncio.create_task(lease.hold())
    view.cut = True
    await asyncio.sleep(6)
    view.cut = False
    await asyncio.sleep(60)
    assert lease.held()
    assert not holding.done()
    holding.cancel()


@pytest.mark.looptime
async def test_a_released_lease_is_taken_over_at_the_next_look() -> None:
    server = OneLease()
    first, second = candidate(server.view(), "a"), candidate(server.view(), "b")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(1)
    await first.release()
    released = now()
    await waiting
    assert now() - released < 3
    assert server.spec is not None
    assert server.spec["leaseTransitions"] == 1


@pytest.mark.looptime
async def test_a_lease_is_released_over_a_write_that_was_not_noticed() -> None:
    server = OneLease()
    lease = candidate(server.view(), "a")
    await lease.acquire()
    server.version += 1
    await lease.release()
    assert server.spec is not None
    assert server.spec["holderIdentity"] == ""


@pytest.mark.looptime
async def test_a_lease_taken_by_force_is_lost_at_once() -> None:
    server = OneLease()
    lease = candidate(server.view(), "a")
    await lease.acquire()
    assert server.spec is not None
    server.spec = server.spec | {"holderIdentity": "somebody-else"}
    server.version += 1
    with pytest.raises(LeaseLost, match="somebody-else"):
        await lease.hold()
    assert not lease.held()


@pytest.mark.looptime
async def test_a_foreign_label_on_the_record_is_no_loss() -> None:
    server = OneLease()
    lease = candidate(server.view(), "a")
    await lease.acquire()
    holding = asyncio.create_task(lease.hold())
    server.version += 1
    await asyncio.sleep(60)
    assert lease.held()
    holding.cancel()


class SlowAnswers(FakeClient):
    """The API server executes a write long before its answer arrives."""

    def _store(self, spec: dict[str, Any]) -> dict[str, Any]:
        made = super()._store(spec)
        self.stored.set()
        return made

    def __init__(self, server: OneLease) -> None:
        super().__init__(server)
        self.stored = asyncio.Event()

    async def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        made = await super().create(manifest)
        await asyncio.sleep(1)
        return made


@pytest.mark.looptime
async def test_a_claim_whose_answer_was_not_awaited_is_released() -> None:
    server = OneLease()
    view = SlowAnswers(server)
    lease = candidate(view, "a")
    claiming = asyncio.create_task(lease.acquire())
    await view.stored.wait()
    claiming.cancel()
    await asyncio.wait({claiming})
    await lease.release()
    assert server.spec is not None
    assert server.spec["holderIdentity"] == ""


@pytest.mark.looptime
async def test_who_only_waited_releases_nothing() -> None:
    server = OneLease()
    first, second = candidate(server.view(), "a"), candidate(server.view(), "b")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.wait({waiting})
    await second.release()
    assert server.spec is not None
    assert server.spec["holderIdentity"] == first.identity
