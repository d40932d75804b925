"""Both ways to the catalogue, the real ones, and everything that can go wrong on the first."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import trustme
from aiohttp import ClientSession, DummyCookieJar

from aiinference.api.reasons import EndpointType, ModelKind, ModelScope, OrderReason
from aiinference.models import opening
from aiinference.models.cluster import Kubernetes
from aiinference.models.facts import ModelFacts
from aiinference.models.opening import CatalogueSettings, Mode, TransportName
from aiinference.models.outcomes import Refusal, Unavailable
from aiinference.models.reference import Reference
from aiinference.models.resolving import ResolvedModel, model_of
from aiinference.models.rest import BODY_LIMIT, Rest, RestSettings
from aiinference.models.trust import Trust
from aimodels.api.model import ClusterModel, Model
from aimodels.lookup.routes import PATH
from kubekit.client import connect
from modelkit.facts import Geometry
from opskit.clock import ManualClock
from tests.kit import faultyfront
from tests.kit.faultyfront import Front
from tests.kit.lookupworld import DIGEST, Certificate
from tests.kit.modelsapi import user
from tests.kit.ordersmodels import order, policy

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kubekit.client import Client
    from tests.kit.faultyfront import Fault
    from tests.kit.lookupworld import World

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="session")]

SECONDS = 1.0


def put(file: Path, text: str) -> None:
    file.write_text(text + "\n")


def fresh(word: str = "m") -> str:
    return f"{word}-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def token_file(world: World, tmp_path: Path) -> Path:
    file = tmp_path / "token"
    put(file, world.token("inference"))
    return file


def settings_for(world: World, url: str, token_file: Path) -> CatalogueSettings:
    rest = RestSettings(base_url=url, path=PATH, token_file=token_file, timeout_seconds=SECONDS)
    return CatalogueSettings(rest=rest, trust_namespace=world.module_namespace)


@asynccontextmanager
async def by_rest(
    world: World, controller: Client, url: str, token_file: Path, clock: ManualClock | None = None
) -> AsyncIterator[Rest]:
    """Give the first way alone."""
    settings = settings_for(world, url, token_file)
    trust = Trust(controller, settings.trust_namespace, settings.trust_config_map, clock or ManualClock())
    async with ClientSession(cookie_jar=DummyCookieJar(), auto_decompress=False) as session:
        yield Rest(session, trust, settings.rest)


async def ready(world: World) -> Reference:
    """Make a model that is ready and that the api has heard of."""
    name = fresh()
    await world.model(Model, name)
    assert (await world.known(kind="Model", namespace=world.namespace, name=name))[0] == 200
    return Reference(ModelKind.MODEL, world.namespace, name)


async def test_both_ways_tell_the_same(world: World, controller: Client, token_file: Path) -> None:
    there = await ready(world)
    waits = fresh("waits")
    await world.model(Model, waits, ready=False)
    await world.known(kind="Model", namespace=world.namespace, name=waits)
    asked = [there, replace(there, name=waits), replace(there, name="absent")]
    async with by_rest(world, controller, world.api.url, token_file) as rest:
        told = [await rest.facts(one) for one in asked]
    assert told == [await Kubernetes(controller).facts(one) for one in asked]
    facts, waiting, missing = told
    assert isinstance(facts, ModelFacts)
    assert (facts.scope, facts.digest) == (ModelScope.NAMESPACED, DIGEST)
    assert facts.facts == Geometry(layers=24, hidden_size=896, tied_embeddings=True, dtype_bytes={"Q4_K": 7})
    assert isinstance(waiting, Refusal)
    assert waiting.reason is OrderReason.MODEL_NOT_READY
    assert "WaitingForUserUpload: Upload the file." in waiting.message
    assert isinstance(missing, Refusal)
    assert missing.reason is OrderReason.MODEL_NOT_FOUND


async def test_an_order_is_resolved_through_the_real_lookup(
    world: World, controller: Client, token_file: Path
) -> None:
    name = fresh("shared")
    await world.model(ClusterModel, name)
    try:
        await world.known(kind="ClusterModel", name=name)
        async with opening.opened(settings_for(world, world.api.url, token_file), controller) as catalogue:
            found = await model_of(order(name), policy(max_parameter_count=10**9), catalogue)
        assert isinstance(found, ResolvedModel)
        assert found.resolution.endpoint_type is EndpointType.CHAT
        assert found.resolution.scope is ModelScope.CLUSTER
        assert found.resolution.parameter_count == 494032768
    finally:
        await world.client.delete(ClusterModel, name)


PROBLEM = '{"reason": "%s", "message": "m", "nextStep": "n"}'
ANOTHER = b'{"ready":true,"reason":"Ready","scope":"Cluster","name":"x","digest":"d","sizeBytes":1}'
FAULTS: dict[str, tuple[Fault, str]] = {
    "cut": (faultyfront.cut, "Client"),
    "silent": (faultyfront.silent, "within 1 s"),
    "slow": (faultyfront.slow, "within 1 s"),
    "huge": (faultyfront.huge, f"larger than {BODY_LIMIT} bytes"),
    "500": (faultyfront.says(500, PROBLEM % "InternalError"), "500 InternalError"),
    "503": (faultyfront.says(503, PROBLEM % "APIServerUnavailable"), "503 APIServerUnavailable"),
    "500 of a proxy": (faultyfront.says(502, "<html>Bad Gateway</html>"), "502"),
    "garbage": (faultyfront.says(200, "<html>Welcome</html>"), "cannot be read"),
    "empty": (faultyfront.says(200, ""), "cannot be read"),
    "not utf-8": (faultyfront.says(200, b'{"reason": "\xe4"}'), "cannot be read"),
    "wrong types": (faultyfront.says(200, '{"ready": 1, "name": []}'), "cannot be read"),
    "about another": (faultyfront.says(200, ANOTHER), "another model"),
    "no such path": (faultyfront.says(404, PROBLEM % "NotFound"), "404 NotFound"),
    "401": (faultyfront.says(401, PROBLEM % "Unauthorized"), "401 Unauthorized"),
    "403": (faultyfront.says(403, PROBLEM % "Forbidden"), "403 Forbidden"),
    "400": (faultyfront.says(400, PROBLEM % "InvalidParameters"), "400"),
    "conflict of its own": (faultyfront.says(409, PROBLEM % "Other"), "409 Other"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_what_goes_wrong_on_the_first_way_is_made_up_for_by_the_second(
    world: World, controller: Client, token_file: Path, name: str
) -> None:
    there = await ready(world)
    fault, text = FAULTS[name]
    certificate = world.certificate
    async with Front(world.api.url, certificate.client(), certificate.server()) as front:
        async with by_rest(world, controller, front.url, token_file) as rest:
            whole = await rest.facts(there)
            assert isinstance(whole, ModelFacts)
            front.fault = fault
            began = time.monotonic()
            with pytest.raises(Unavailable, match=text):
                await rest.facts(there)
            assert time.monotonic() - began < 3 * SECONDS
        async with opening.opened(settings_for(world, front.url, token_file), controller) as catalogue:
            assert await catalogue.facts(there) == whole
            front.fault = faultyfront.passed_on
            assert await catalogue.facts(there) == whole


async def test_nobody_listens(world: World, controller: Client, token_file: Path) -> None:
    there = await ready(world)
    async with by_rest(world, controller, "https://localhost:1", token_file) as rest:
        with pytest.raises(Unavailable, match="Client"):
            await rest.facts(there)
    async with opening.opened(
        settings_for(world, "https://localhost:1", token_file), controller
    ) as catalogue:
        assert isinstance(await catalogue.facts(there), ModelFacts)


async def test_a_process_that_is_killed_and_comes_back(
    world: World, controller: Client, token_file: Path
) -> None:
    there = await ready(world)
    async with by_rest(world, controller, world.api.url, token_file) as rest:
        assert isinstance(await rest.facts(there), ModelFacts)
        await world.api.end(signal.SIGKILL)
        with pytest.raises(Unavailable):
            await rest.facts(there)
        await world.api.start()
        assert isinstance(await rest.facts(there), ModelFacts)


def _other_authority(_world: World, folder: Path) -> ssl.SSLContext | None:
    return Certificate.made(folder, "other").server()


def _other_name(world: World, folder: Path) -> ssl.SSLContext | None:
    authority = world.certificate.authority
    return Certificate.made(folder, "name", "other.example.com", authority=authority).server()


def _expired(world: World, folder: Path) -> ssl.SSLContext | None:
    past = datetime.now(UTC) - timedelta(hours=1)
    return Certificate.made(folder, "past", authority=world.certificate.authority, not_after=past).server()


def _no_tls(_world: World, _folder: Path) -> ssl.SSLContext | None:
    return None


WRONG = {"authority": _other_authority, "name": _other_name, "expired": _expired, "no tls": _no_tls}


@pytest.mark.parametrize("wrong", WRONG)
async def test_whoever_cannot_prove_to_be_the_catalogue_never_sees_the_token(
    world: World, controller: Client, token_file: Path, tmp_path: Path, wrong: str
) -> None:
    there = await ready(world)
    shown = WRONG[wrong](world, tmp_path)
    async with Front(world.api.url, world.certificate.client(), shown) as front:
        url = front.url.replace("http://", "https://")
        async with by_rest(world, controller, url, token_file) as rest:
            with pytest.raises(Unavailable):
                await rest.facts(there)
        assert front.tokens == []
        async with opening.opened(settings_for(world, url, token_file), controller) as catalogue:
            assert isinstance(await catalogue.facts(there), ModelFacts)


async def test_a_redirect_is_not_followed(world: World, controller: Client, token_file: Path) -> None:
    there = await ready(world)
    certificate = world.certificate
    async with (
        Front(world.api.url, certificate.client(), certificate.server()) as thief,
        Front(world.api.url, certificate.client(), certificate.server()) as front,
        by_rest(world, controller, front.url, token_file) as rest,
    ):
        front.fault = faultyfront.elsewhere(thief.url)
        with pytest.raises(Unavailable, match="307"):
            await rest.facts(there)
        assert thief.tokens == []


async def test_a_new_authority_is_trusted_after_one_doubt(
    world: World, controller: Client, token_file: Path, tmp_path: Path
) -> None:
    there = await ready(world)
    renewed = Certificate.made(tmp_path, "renewed", authority=trustme.CA())
    clock = ManualClock()
    old = world.certificate
    async with (
        Front(world.api.url, old.client(), old.server()) as before,
        Front(world.api.url, old.client(), renewed.server()) as after,
        by_rest(world, controller, before.url, token_file, clock) as rest,
    ):
        assert isinstance(await rest.facts(there), ModelFacts)
        await world.trust(old.bundle + renewed.bundle)
        try:
            rest._url = after.url + PATH
            with pytest.raises(Unavailable, match="not trusted"):
                await rest.facts(there)
            assert isinstance(await rest.facts(there), ModelFacts)
        finally:
            await world.trust(old.bundle)


@pytest.mark.parametrize(
    ("bundle", "text"), [("", "has nothing"), ("no certificate", "holds no certificate")]
)
async def test_a_bundle_that_is_none(
    world: World, controller: Client, token_file: Path, bundle: str, text: str
) -> None:
    there = await ready(world)
    await world.trust(bundle)
    try:
        async with by_rest(world, controller, world.api.url, token_file) as rest:
            with pytest.raises(Unavailable, match=text):
                await rest.facts(there)
    finally:
        await world.trust(world.certificate.bundle)


async def test_a_module_that_is_not_installed(world: World, controller: Client, token_file: Path) -> None:
    there = await ready(world)
    settings = replace(settings_for(world, world.api.url, token_file), trust_config_map="none")
    async with opening.opened(settings, controller) as catalogue:
        assert isinstance(await catalogue.facts(there), ModelFacts)


async def test_a_token_that_cannot_be_read(world: World, controller: Client, tmp_path: Path) -> None:
    there = await ready(world)
    async with by_rest(world, controller, world.api.url, tmp_path / "none") as rest:
        with pytest.raises(Unavailable, match="token file"):
            await rest.facts(there)


async def test_a_token_is_read_anew_each_time(world: World, controller: Client, token_file: Path) -> None:
    there = await ready(world)
    async with by_rest(world, controller, world.api.url, token_file) as rest:
        put(token_file, world.token("inference", audience="dmcr"))
        with pytest.raises(Unavailable, match="401"):
            await rest.facts(there)
        put(token_file, world.token("inference"))
        assert isinstance(await rest.facts(there), ModelFacts)


async def test_a_controller_without_rights_says_what_both_ways_answer(
    world: World, token_file: Path, tmp_path: Path
) -> None:
    there = await ready(world)
    put(token_file, world.token("stranger"))
    config = await user(world.kubeconfig, world.module_namespace, fresh("nobody"), [], tmp_path)
    async with (
        connect(config) as client,
        opening.opened(settings_for(world, world.api.url, token_file), client) as catalogue,
    ):
        found = await catalogue.facts(there)
    assert isinstance(found, Refusal)
    assert found.reason is OrderReason.CATALOG_UNAVAILABLE
    assert "Rest: it answers 403 Forbidden" in found.message
    assert "Kubernetes: Forbidden" in found.message


async def test_the_second_way_may_be_chosen_as_the_only_one(
    world: World, controller: Client, token_file: Path
) -> None:
    there = await ready(world)
    certificate = world.certificate
    async with Front(world.api.url, certificate.client(), certificate.server()) as front:
        settings = replace(settings_for(world, front.url, token_file), transport=TransportName.KUBERNETES)
        async with opening.opened(settings, controller) as catalogue:
            assert isinstance(await catalogue.facts(there), ModelFacts)
        assert not front.met.is_set()


async def test_a_catalogue_that_is_turned_off_is_not_asked(
    world: World, controller: Client, token_file: Path
) -> None:
    settings = replace(settings_for(world, world.api.url, token_file), mode=Mode.NONE)
    async with opening.opened(settings, controller) as catalogue:
        found = await catalogue.facts(Reference(ModelKind.CLUSTER_MODEL, None, "any"))
    assert isinstance(found, Refusal)
    assert found.reason is OrderReason.CATALOG_DISABLED


async def test_fifty_orders_at_once(world: World, controller: Client, token_file: Path) -> None:
    there = await ready(world)
    settings = settings_for(world, world.api.url, token_file)
    patient = replace(settings.rest, timeout_seconds=10)
    trust = Trust(controller, settings.trust_namespace, settings.trust_config_map, ManualClock())
    async with ClientSession() as session:
        rest = Rest(session, trust, patient)
        found = await asyncio.gather(*(rest.facts(there) for _ in range(50)))
    assert all(isinstance(one, ModelFacts) for one in found)
