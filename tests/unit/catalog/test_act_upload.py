"""In which order an upload is given out."""

from __future__ import annotations

import base64
import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from aimodels.catalog.act import Actor
from aimodels.catalog.handout import Handout, UploadSettings
from aimodels.catalog.names import Key
from aimodels.catalog.state import IssueUpload
from modelio.registry import RegistryUnavailable
from tests.kit.observations import UPLOAD_TRANSFER, model

if TYPE_CHECKING:
    from modelio.registry import TransferSpec


class Everything:
    """Cluster and registry, as far as an upload needs them; keeps what was written, in its order."""

    def __init__(self) -> None:
        self.written: list[tuple[str, Any]] = []
        self.is_down = False

    async def find(self, *_: object) -> None:
        return None

    async def apply(self, manifest: dict[str, Any]) -> None:
        self.written.append((manifest["kind"], manifest))

    async def client(self) -> Everything:
        return self

    async def put_transfer(self, transfer: str, spec: TransferSpec) -> None:
        if self.is_down:
            raise RegistryUnavailable("away")
        self.written.append((transfer, spec))

    def answered(self) -> None:
        """Take note that the registry is there."""

    def put(self, transfer: str, *_: object) -> None:
        self.written.append(("board", transfer))


@pytest.fixture
def everything() -> Everything:
    return Everything()


@pytest.fixture
def actor(everything: Everything) -> Actor:
    one = cast("Any", everything)
    jobs = cast("Any", SimpleNamespace(namespace="d8-ai-models"))
    handout = Handout(UploadSettings("", lambda: b""), "d8-ai-models")
    return Actor(one, one, one, one, one, jobs=jobs, handout=handout)


@pytest.mark.parametrize("standing", [None, UPLOAD_TRANSFER])
async def test_whoever_can_read_the_token_can_use_it(
    actor: Actor, everything: Everything, standing: str | None
) -> None:
    about = model()
    await actor.act(Key.of(about), about, IssueUpload(standing))
    kinds = [kind for kind, _ in everything.written]
    transfer, spec = everything.written[1]
    assert kinds == ["Role", transfer, "board", "Secret"]
    assert standing in {None, transfer}
    secret = everything.written[-1][1]
    token = base64.b64decode(secret["data"]["token"])
    assert spec.token_hash == hashlib.sha256(token).hexdigest()


async def test_without_the_registry_no_token_is_given_out(actor: Actor, everything: Everything) -> None:
    about, everything.is_down = model(), True
    with pytest.raises(RegistryUnavailable):
        await actor.act(Key.of(about), about, IssueUpload())
    assert [kind for kind, _ in everything.written] == ["Role"]
