"""Who gets a grant: tables of identities against a transfer, and how often the API server is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aimodels.dmcr.grants import Grants, Keys
from aimodels.dmcr.metering import Metering
from aimodels.dmcr.problems import Denied, TryAgain, Unauthorized
from aimodels.dmcr.repositories import Repositories
from aimodels.dmcr.swaps import Swaps
from aimodels.dmcr.tokens import Reviews, TokenDesk
from aimodels.dmcr.transfers import Transfers
from kubekit.errors import Unreachable
from kubekit.reviews import Identity
from modelio.wire import TransferSpec
from objectstore.memory import MemoryStore
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubekit.client import Client

JOB = "d8-ai-models/ai-models-publication"
CATALOGUE = "d8-ai-models/ai-models-controller"
SPEC = TransferSpec(
    service_account=JOB,
    pod_prefix="ai-model-publish-u1-g1-a1",
    repository="models/team/x",
    purpose="publication",
    actions=("pull", "push"),
    token_hash="ab" * 32,
)


def identity(account: str, pod: str | None) -> Identity:
    extra = {"authentication.kubernetes.io/pod-name": [pod]} if pod else {}
    return Identity(username="system:serviceaccount:" + account.replace("/", ":"), extra=extra)


class Cluster:
    """An API server that knows some tokens by their number."""

    def __init__(self) -> None:
        self.known: dict[str, Identity] = {}
        self.asked = 0
        self.down = False
        self.gate = asyncio.Event()
        self.gate.set()

    def token(self, account: str, pod: str | None = None, **claims: Any) -> str:
        whole = {"aud": ["dmcr"], "exp": 1 << 40, "n": len(self.known)} | claims
        token = jwt.encode(whole, "k" * 32, algorithm="HS256")
        self.known[token] = identity(account, pod)
        return token

    async def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self.asked += 1
        await self.gate.wait()
        if self.down:
            raise Unreachable("no answer")
        known = self.known.get(manifest["spec"]["token"])
        if known is None:
            return {"status": {"user": {}}}
        return {"status": {"authenticated": True, "user": msgspec.to_builtins(known), "audiences": ["dmcr"]}}


class Desk:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = Cluster()
        swaps = Swaps(MemoryStore(), self.clock)
        self.transfers = Transfers(swaps, Repositories(swaps, "owner"), Metering(swaps).moved)
        self.grants = Grants(Keys([Ed25519PrivateKey.generate()]), self.clock)
        self.reviews = Reviews(cast("Client", self.cluster), self.clock)
        self.desk = TokenDesk(self.reviews, self.transfers, self.grants, catalogue_account=CATALOGUE)


@pytest.fixture
async def at() -> Desk:
    desk = Desk()
    await desk.transfers.put("publish-u1", SPEC)
    return desk


async def test_the_right_pod_gets_a_grant_for_just_its_repository(at: Desk) -> None:
    token = at.cluster.token(JOB, "ai-model-publish-u1-g1-a1-x7k2p")
    answer = await at.desk.exchange(token, "publish-u1")
    claims = at.grants.verify(answer.token)
    assert [(each.repository, each.actions) for each in claims.access] == [
        ("models/team/x", ("pull", "push"))
    ]
    assert claims.access[0].life is not None
    assert not claims.catalogue
    assert claims.sub.endswith("ai-model-publish-u1-g1-a1-x7k2p")
    assert answer.transfer == SPEC
    assert answer.expires_in == 600


@pytest.mark.parametrize(
    ("account", "pod"),
    [
        ("d8-ai-models/ai-models-copy", "ai-model-publish-u1-g1-a1-x7k2p"),
        ("other/ai-models-publication", "ai-model-publish-u1-g1-a1-x7k2p"),
        (JOB, "ai-model-publish-u1-g1-a10-x7k2p"),
        (JOB, "ai-model-publish-u1-g1-a2-x7k2p"),
        (JOB, "xai-model-publish-u1-g1-a1-x7k2p"),
        (JOB, None),
        (CATALOGUE, "ai-models-controller-1"),
    ],
)
async def test_other_accounts_and_pods_are_refused(at: Desk, account: str, pod: str | None) -> None:
    with pytest.raises(Denied):
        await at.desk.exchange(at.cluster.token(account, pod), "publish-u1")


async def test_only_the_catalogue_gets_a_grant_without_a_transfer(at: Desk) -> None:
    answer = await at.desk.exchange(at.cluster.token(CATALOGUE, "ai-models-controller-1"), None)
    assert at.grants.verify(answer.token).catalogue
    assert answer.transfer is None
    with pytest.raises(Denied):
        await at.desk.exchange(at.cluster.token(JOB, "ai-model-publish-u1-g1-a1-x7k2p"), None)


@pytest.mark.parametrize("transfer", ["publish-u2", "", "../repos/x", "A", "a" * 200])
async def test_unknown_transfer_is_refused(at: Desk, transfer: str) -> None:
    with pytest.raises(Denied):
        await at.desk.exchange(at.cluster.token(JOB, "ai-model-publish-u1-g1-a1-x"), transfer)


async def test_revoked_and_lapsed_transfers_are_refused(at: Desk) -> None:
    token = at.cluster.token(JOB, "ai-model-publish-u1-g1-a1-x")
    lapsing = TransferSpec(
        service_account=JOB,
        repository="models/team/x",
        purpose="copy",
        idle_seconds=30,
    )
    await at.transfers.put("lapsing", lapsing)
    await at.desk.exchange(token, "lapsing")
    await at.clock.advance(31)
    with pytest.raises(Denied, match="lapsed") as caught:
        await at.desk.exchange(token, "lapsing")
    assert caught.value.detail == {"tokenHash": None, "revoked": False}
    await at.transfers.revoke("publish-u1")
    with pytest.raises(Denied, match="revoked") as caught:
        await at.desk.exchange(token, "publish-u1")
    assert caught.value.code == "TRANSFER_ENDED"
    assert caught.value.detail == {"tokenHash": SPEC.token_hash, "revoked": True}


async def test_what_became_of_a_transfer_is_told_to_its_own_account_only(at: Desk) -> None:
    await at.transfers.revoke("publish-u1")
    with pytest.raises(Denied) as caught:
        await at.desk.exchange(at.cluster.token("ns/stranger", "ai-model-publish-u1-g1-a1-x"), "publish-u1")
    assert (caught.value.code, caught.value.detail) == ("DENIED", None)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["kubernetes"]},
        {"aud": "other"},
        {"aud": None},
        {"exp": 1},
        {"exp": "never"},
        {"exp": 10**400},
    ],
)
async def test_obviously_wrong_tokens_never_reach_the_api_server(at: Desk, claims: dict[str, Any]) -> None:
    with pytest.raises(Unauthorized):
        await at.reviews.identify(at.cluster.token(JOB, "x", **claims))
    assert at.cluster.asked == 0


@pytest.mark.parametrize("token", ["", "abc", "a.b.c", "x" * 20_000, "ü.ü.ü"])
async def test_what_is_no_token_never_reaches_the_api_server(at: Desk, token: str) -> None:
    with pytest.raises(Unauthorized):
        await at.reviews.identify(token)
    assert at.cluster.asked == 0


async def test_api_server_that_does_not_answer_is_not_a_refusal(at: Desk) -> None:
    token = at.cluster.token(JOB, "x")
    at.cluster.down = True
    with pytest.raises(TryAgain):
        await at.reviews.identify(token)
    at.cluster.down = False
    await at.reviews.identify(token)


async def test_waiting_questions_are_bounded(at: Desk) -> None:
    at.cluster.gate.clear()
    asking = [asyncio.create_task(at.reviews.identify(at.cluster.token(JOB, "x"))) for _ in range(300)]
    await asyncio.sleep(0.05)
    refused = [task for task in asking if task.done()]
    assert len(refused) == 300 - 256
    assert all(isinstance(task.exception(), TryAgain) for task in refused)
    assert at.cluster.asked <= 8
    at.cluster.gate.set()
    await asyncio.gather(*asking, return_exceptions=True)
