"""What users of uploads have to trust: told to every model when it changes, and never half of it."""

from __future__ import annotations

import io
import json
import logging as stdlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from aimodels.catalog.bootstrap import Bootstrap, BootstrapSettings
from aimodels.catalog.registry import Registry
from kubekit import certs
from kubekit.errors import ServerError
from kubekit.resources import MutatingWebhookConfiguration, Namespace, ObjectMeta, Secret
from opskit import logging
from opskit.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC = "models-example-com"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
THEIRS = certs.make_ca("theirs", NOW, timedelta(days=30)).certificate


class World:
    """Objects by name, and what stood in the trust whenever the listeners were called."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Any] = {}
        self.failing = False
        clock = ManualClock(NOW)
        self.registry = Registry("https://dmcr.invalid", None, clock)
        settings = BootstrapSettings("d8-ai-models", "https://models.example.com", certs.Policy(), PUBLIC)
        self.bootstrap = Bootstrap(cast("Any", self), self.registry, settings, clock)
        self.told: list[bytes] = []
        self.registry.tell(lambda: self.told.append(self.bootstrap.upload_trust()))

    async def get(self, struct: type[Namespace], _name: str) -> Namespace:
        return struct(metadata=ObjectMeta(uid="cluster"))

    async def find(self, struct: Any, name: str, _namespace: str = "") -> Any:
        if name == PUBLIC and self.failing:
            raise ServerError(500, "InternalError", "etcd is away")
        return None if struct is MutatingWebhookConfiguration else self.objects.get((struct.KIND.name, name))

    async def create(self, manifest: dict[str, Any]) -> None:
        kinds = {"Secret": Secret, "ConfigMap": msgspec.defstruct("Map", [("data", dict[str, str])])}
        struct = kinds[manifest["kind"]]
        self.objects[manifest["kind"], manifest["metadata"]["name"]] = msgspec.convert(manifest, struct)

    def public(self, authority: bytes) -> None:
        """Have an authority in the Secret of what stands before the gateway."""
        self.objects["Secret", PUBLIC] = Secret(metadata=ObjectMeta(name=PUBLIC), data={"ca.crt": authority})


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Log as the process does."""
    root = stdlib.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    logging.configure("test", stream=stream)
    yield stream
    stdlib.captureWarnings(capture=False)
    root.handlers[:], root.level = before


async def test_models_are_woken_when_the_public_authority_comes_and_when_it_goes(world: World) -> None:
    await world.bootstrap.once()
    ours = world.bootstrap.bundle()
    assert world.told == [ours]

    world.public(THEIRS)
    await world.bootstrap.once()
    assert world.told == [ours, ours + THEIRS]

    await world.bootstrap.once()
    assert len(world.told) == 2, "nothing is another"

    del world.objects["Secret", PUBLIC]
    await world.bootstrap.once()
    assert world.told == [ours, ours + THEIRS, ours]
    await world.registry.close()


async def test_no_model_is_told_half_of_what_to_trust(world: World) -> None:
    world.public(THEIRS)
    world.failing = True
    with pytest.raises(ServerError):
        await world.bootstrap.once()
    assert world.bootstrap.upload_trust() == b""
    assert world.told == [], "what one cannot trust completely yet is nobody's reason to look"

    world.failing = False
    await world.bootstrap.once()
    assert world.told == [world.bootstrap.bundle() + THEIRS]
    await world.registry.close()


async def test_what_is_known_of_the_public_authority_outlives_an_outage(world: World) -> None:
    world.public(THEIRS)
    await world.bootstrap.once()
    known = world.bootstrap.upload_trust()
    world.failing = True
    with pytest.raises(ServerError):
        await world.bootstrap.once()
    assert world.bootstrap.upload_trust() == known
    await world.registry.close()


async def test_the_warning_says_which_secret_holds_no_certificate(world: World, lines: io.StringIO) -> None:
    world.public(b"not yet")
    await world.bootstrap.once()
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [one["name"] for one in said if "holds no certificate" in one["msg"]] == [PUBLIC]
    await world.registry.close()
