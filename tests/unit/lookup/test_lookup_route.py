"""The lookup as HTTP: who is answered, and what a refusal tells."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import looptime  # noqa: F401 - virtual time for the deadline
import msgspec
import pytest

from aimodels.api.model import ModelGeometry, ModelStatus, ResolvedStatus
from aimodels.lookup import desk
from kubekit.errors import Unreachable
from kubekit.wire import Undecodable
from tests.kit.lookups import DIGEST, Lookup, condition, model, ready_status
from webkit import audit

if TYPE_CHECKING:
    from tests.kit.asgi import Answer

RESOLVED = ResolvedStatus(
    format="GGUF",
    family="qwen2",
    architecture="qwen2",
    parameter_count=494_032_768,
    quantization="Q4_K_M",
    context_window_tokens=32768,
    supported_endpoint_types=("Chat", "TextGeneration"),
    facts=ModelGeometry(layers=24, hidden_size=896, tied_embeddings=True, dtype_bytes={"Q4_K": 7}),
)
SHARED = "kind=ClusterModel&name=qwen"
OWN = "kind=Model&namespace=support&name=qwen"


@pytest.fixture
def lookup() -> Lookup:
    made = Lookup()
    made.server.allow("clustermodels", "", "qwen")
    made.server.allow("models", "support", "qwen")
    return made


def refusal(answer: Answer) -> tuple[int, str]:
    body = msgspec.json.decode(answer.body)
    assert body["message"]
    assert body["nextStep"]
    return answer.status, body["reason"]


async def test_the_answer_has_what_is_known_and_nothing_else(lookup: Lookup) -> None:
    lookup.know(model("qwen", status=ready_status(RESOLVED)))
    answer = await lookup.ask(SHARED + "&namespace=")
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    assert msgspec.json.decode(answer.body) == {
        "ready": True,
        "reason": "Ready",
        "scope": "Cluster",
        "name": "qwen",
        "digest": DIGEST,
        "sizeBytes": 253_000_000,
        "format": "GGUF",
        "family": "qwen2",
        "architecture": "qwen2",
        "parameterCount": 494_032_768,
        "quantization": "Q4_K_M",
        "contextWindowTokens": 32768,
        "supportedEndpointTypes": ["Chat", "TextGeneration"],
        "facts": {"layers": 24, "hiddenSize": 896, "tiedEmbeddings": True, "dtypeBytes": {"Q4_K": 7}},
    }


async def test_a_model_of_a_namespace_is_another_one(lookup: Lookup) -> None:
    lookup.know(model("qwen", "support", ready_status(ResolvedStatus(facts=ModelGeometry()))))
    body = msgspec.json.decode((await lookup.ask(OWN)).body)
    assert (body["scope"], body["namespace"]) == ("Namespaced", "support")
    assert "facts" not in body
    assert refusal(await lookup.ask(SHARED)) == (404, "ModelNotFound")


async def test_a_model_that_waits_says_for_what(lookup: Lookup) -> None:
    waits = condition("False", "WaitingForUserUpload", "Upload the file.")
    lookup.know(model("qwen", "support", ModelStatus(phase="WaitForUpload", conditions=(waits,))))
    answer = await lookup.ask(OWN)
    assert refusal(answer) == (409, "ModelNotReady")
    body = msgspec.json.decode(answer.body)
    assert body["message"] == "Model support/qwen is not ready: WaitingForUserUpload: Upload the file."
    assert (body["phase"], body["modelReason"]) == ("WaitForUpload", "WaitingForUserUpload")
    assert body["nextStep"] == "ask again later"


async def test_a_model_that_failed_does_not_ask_for_patience(lookup: Lookup) -> None:
    failed = condition("False", "ManifestInvalid", "No weights.")
    lookup.know(model("qwen", status=ModelStatus(phase="Failed", conditions=(failed,))))
    assert b"does not become ready by waiting" in (await lookup.ask(SHARED)).body


async def test_a_model_that_nobody_has_looked_at_is_not_ready(lookup: Lookup) -> None:
    lookup.know(model("qwen"))
    assert refusal(await lookup.ask(SHARED)) == (409, "ModelNotReady")


async def test_a_model_on_its_way_out_is_not_ready_whatever_its_status_still_says(lookup: Lookup) -> None:
    leaving = datetime(2026, 1, 1, tzinfo=UTC)
    lookup.know(model("qwen", status=ready_status(RESOLVED), deletion_timestamp=leaving))
    answer = await lookup.ask(SHARED)
    assert refusal(answer) == (409, "ModelNotReady")
    assert b"being deleted" in answer.body


async def test_who_may_not_get_it_cannot_tell_whether_it_exists(lookup: Lookup) -> None:
    lookup.know(model("secret", "support", ready_status(RESOLVED)))
    there = await lookup.ask("kind=Model&namespace=support&name=secret")
    missing = await lookup.ask("kind=Model&namespace=support&name=absent")
    assert refusal(there) == refusal(missing) == (403, "Forbidden")
    assert there.body.replace(b"secret", b"absent") == missing.body
    assert there.headers.keys() == missing.headers.keys()
    assert b"because" not in there.body


@pytest.mark.parametrize(
    "query",
    [
        "",
        "kind=Model&name=a",
        "kind=ClusterModel&namespace=x&name=a",
        "kind=Secret&namespace=x&name=a",
        "kind=model&namespace=x&name=a",
        "kind=ClusterModel",
        "kind=ClusterModel&name=",
        "kind=ClusterModel&name=A",
        "kind=ClusterModel&name=a%2F..%2Fb",
        "kind=Model&namespace=a.b&name=a",
        "kind=Model&namespace=..&name=a",
        f"kind=ClusterModel&name={'a' * 254}",
        "kind=ClusterModel&name=a&name=b",
        "kind=ClusterModel&name=a&watch=1",
    ],
)
async def test_wrong_parameters(lookup: Lookup, query: str) -> None:
    assert refusal(await lookup.ask(query)) == (400, "InvalidParameters")
    assert lookup.server.count("SubjectAccessReview") == 0


@pytest.mark.parametrize("token", ["", "mallory", "a" * 20_000])
async def test_whom_the_cluster_does_not_know_learns_nothing_of_parameters(
    lookup: Lookup, token: str
) -> None:
    answer = await lookup.ask("kind=nonsense", token)
    assert refusal(answer) == (401, "Unauthorized")
    assert answer.headers["www-authenticate"] == 'Bearer realm="ai-models"'


async def test_the_token_has_to_be_for_the_catalogue(lookup: Lookup) -> None:
    await lookup.ask(SHARED)
    (review,) = [one for one in lookup.server.asked if one["kind"] == "TokenReview"]
    assert review["spec"]["audiences"] == ["ai-models"]


async def test_rights_are_asked_for_every_time_and_tokens_once(lookup: Lookup) -> None:
    lookup.know(model("qwen", status=ready_status(RESOLVED)))
    assert (await lookup.ask(SHARED)).status == 200
    lookup.server.rights.clear()
    assert refusal(await lookup.ask(SHARED)) == (403, "Forbidden")
    assert lookup.server.count("TokenReview") == 1


async def test_an_api_server_that_is_down_is_nobodys_refusal(lookup: Lookup) -> None:
    lookup.server.error = Unreachable("no answer")
    answer = await lookup.ask(SHARED)
    assert refusal(answer) == (503, "APIServerUnavailable")
    assert answer.headers["retry-after"] == "1"


async def test_an_api_server_that_goes_down_between_the_questions(lookup: Lookup) -> None:
    await lookup.ask(SHARED)
    lookup.server.error = Unreachable("no answer")
    assert refusal(await lookup.ask(SHARED)) == (503, "APIServerUnavailable")


async def test_before_the_models_are_listed_none_is_missing(lookup: Lookup) -> None:
    for informer in lookup.manager._informers.values():
        informer.synced.clear()
    assert refusal(await lookup.ask(SHARED)) == (503, "Starting")


async def test_an_object_that_this_version_cannot_read_is_not_missing(lookup: Lookup) -> None:
    one = model("qwen")
    bad = Undecodable(kind=one.KIND, metadata=one.metadata, error="no spec")
    lookup.manager.informer(type(one)).store.apply(bad)
    assert refusal(await lookup.ask(SHARED)) == (503, "ModelUnreadable")


async def test_more_at_once_than_are_taken(lookup: Lookup) -> None:
    lookup.know(model("qwen", status=ready_status(RESOLVED)))
    lookup.server.answers.clear()
    waiting = [asyncio.create_task(lookup.ask(SHARED)) for _ in range(desk.AT_ONCE)]
    await lookup.server.seen.wait()
    assert refusal(await lookup.ask(SHARED)) == (503, "Busy")
    lookup.server.answers.set()
    assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}
    assert (await lookup.ask(SHARED)).status == 200


@pytest.mark.looptime
async def test_an_api_server_that_is_silent_is_not_waited_for_longer_than_callers_wait(
    lookup: Lookup,
) -> None:
    lookup.server.answers.clear()
    began = asyncio.get_running_loop().time()
    assert refusal(await lookup.ask(SHARED)) == (503, "APIServerUnavailable")
    assert asyncio.get_running_loop().time() - began == desk.SECONDS
    lookup.server.answers.set()


async def test_every_question_leaves_a_line_without_the_token(
    lookup: Lookup, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(audit._LOG, "info", lambda event, **fields: lines.append({"event": event, **fields}))
    lookup.know(model("qwen", status=ready_status(RESOLVED)))
    token = "very-secret|alice"
    for query in (SHARED, "kind=ClusterModel&name=other", "kind=x"):
        await lookup.ask(query, token)
    await lookup.ask(SHARED, "very-secret|mallory")
    assert [(one["event"], one["user"], one["object"], one["result"]) for one in lines] == [
        ("model_lookup", "alice", "ClusterModel qwen", "allowed"),
        ("model_lookup", "alice", "ClusterModel other", "Forbidden"),
        ("model_lookup", "alice", "", "InvalidParameters"),
        ("model_lookup", "", "", "Unauthorized"),
    ]
    assert lines[0]["groups"] == ["people"]
    assert "very-secret" not in str(lines)
