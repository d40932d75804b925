"""``aictl chat``: one question to an order's model, its answer as it is written.

What belongs here: finding key and Pod with the user's own rights, asking, and showing. What does not: the
order's state (``orders``), the way to the Pod (``tunnel``).
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import click
import msgspec

from aictl import orders, running
from aictl.cluster import refusal, session
from aictl.exits import Exit, Failure
from aictl.kubeconfig import cluster_options
from aictl.tunnel import Service, open_tunnel
from aiinference.api.reasons import EndpointType
from aiinference.workload import names
from aiinference.workload.auth import TOKEN
from aiinference.workload.paths import CHAT
from kubekit.errors import Forbidden, KubeError
from kubekit.resources import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from aictl.cluster import Session
    from aictl.kubeconfig import Target
    from aictl.show import Show
    from aictl.tunnel import Door
    from aiinference.api.orders import InferenceService

#: where the gate listens in every Pod of an order
PORT = 8000
PROMPT_BYTES = 1 << 20
_LINE_BYTES = 1 << 20
_DONE = "[DONE]"


class Answer(msgspec.Struct, kw_only=True, rename="camel"):
    """What came back."""

    model: str
    text: str = ""
    finish_reason: str | None = None
    seconds: float = 0.0


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: tuple[_Choice, ...] = ()


@click.command()
@click.argument("name")
@click.argument("prompt", required=False)
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="The longest answer, in tokens.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the whole answer may take (exit 5).",
)
@running.json_option
@cluster_options
def chat(
    name: str, prompt: str | None, *, target: Target, max_tokens: int | None, timeout: float, as_json: bool
) -> None:
    """Ask the order NAME and print its answer as it comes; without PROMPT it is read from standard input."""
    target, name = running.named(target, name, cluster=False, what="InferenceService")
    show, text = running.voice(as_json=as_json), _prompt(prompt)
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": text}], "stream": True}
    if max_tokens:
        asked["max_tokens"] = max_tokens

    async def work() -> None:
        async with session(target, show.note) as at:
            order = await orders.get_order(at, name)
            check(order, at.namespace)
            key = await _key(at, order)
            service = Service(at.namespace, name, PORT, names.ORDER_LABEL)
            async with open_tunnel(at, service, show.note) as door:
                answer = await ask(
                    door, asked | {"model": order.spec.model.ref.name}, key, _printer(show), within=timeout
                )
        _end(show, answer)

    running.run(work())


def check(order: InferenceService, namespace: str) -> None:
    """Fail when the order cannot be talked to now."""
    title = orders.shown(order.metadata.name, namespace)
    served = order.status.model.endpoint_type if order.status and order.status.model else None
    if served not in (None, EndpointType.CHAT):
        raise Failure(f"{title} serves {served}, no chat", "", code=Exit.IMPOSSIBLE)
    if orders.is_ready(order):
        return
    wrong = orders.in_the_way(order)
    why = f"{wrong.reason}: {wrong.message}" if wrong else "no controller has looked at it yet"
    step = f"`aictl why {order.metadata.name} -n {namespace}` tells what is waited for"
    known = orders.meaning(wrong.reason) if wrong else None
    stays = known is not None and known.recovers is False
    raise Failure(f"{title} is not Ready", why, step, code=Exit.IMPOSSIBLE if stays else Exit.FAILED)


async def _key(at: Session, order: InferenceService) -> str | None:
    name = order.status.auth_secret_name if order.status else None
    if name is None:
        return None
    what = f"The key in Secret {name} cannot be read"
    try:
        secret = await at.answer(lambda: at.client.get(Secret, name, at.namespace))
    except Forbidden as error:
        role = names.auth_reader(order.metadata.name)
        step = f"Have the namespace's administrator bind the Role {role} to you"
        raise Failure(what, "Your rights do not allow it", step, code=Exit.DENIED) from error
    except KubeError as error:
        raise refusal(error, what) from error
    key = secret.data.get(TOKEN)
    if not key:
        raise Failure(what, f"it has no {TOKEN}", "Delete it; the controller makes a new one")
    return key.decode()


async def ask(
    door: Door, body: dict[str, Any], key: str | None, said: Callable[[str], None], *, within: float
) -> Answer:
    """Ask behind the door and return the answer; ``said`` gets every piece as it comes."""
    answer, began = Answer(model=body["model"]), time.monotonic()
    headers = {"authorization": f"Bearer {key}"} if key else {}
    url = f"http://{door.host}:{door.port}{CHAT.path}"
    limits = aiohttp.ClientTimeout(total=within)
    try:
        async with (
            aiohttp.ClientSession(timeout=limits, read_bufsize=_LINE_BYTES) as web,
            web.post(url, json=body, headers=headers, allow_redirects=False) as response,
        ):
            if not response.ok:
                raise _refused(response.status, await response.content.read(2048))
            async for line in response.content:
                if _take(line.decode(errors="replace").strip(), answer, said):
                    break
    except TimeoutError as error:
        raise Failure(
            f"The answer did not end within {within:.0f} s", "", "Give it more --timeout", code=Exit.TIMED_OUT
        ) from error
    except (aiohttp.ClientError, ValueError) as error:
        raise Failure("The connection to the model ended", str(error), "Try again") from error
    if answer.finish_reason is None:
        raise Failure("The answer was cut off", "the model's server ended it half-way", "Try again")
    answer.seconds = round(time.monotonic() - began, 2)
    return answer


def _take(line: str, answer: Answer, said: Callable[[str], None]) -> bool:
    """Take one line of the stream; True at its end."""
    name, _, data = line.partition(":")
    if name != "data":
        return False
    if data.strip() == _DONE:
        return True
    try:
        chunk = msgspec.json.decode(data, type=_Chunk)
    except msgspec.DecodeError as error:
        raise Failure(
            "The model's server does not speak as expected", str(error), code=Exit.FAILED
        ) from error
    for choice in chunk.choices:
        if choice.delta.content:
            answer.text += choice.delta.content
            said(choice.delta.content)
        answer.finish_reason = choice.finish_reason or answer.finish_reason
    return False


def _refused(status: int, body: bytes) -> Failure:
    said = " ".join(body.decode(errors="replace").split())[:300]
    if status in (401, 403):
        step = "Was the key replaced a moment ago? Try again in a minute"
        return Failure("The model's gate does not accept the key", said, step, code=Exit.DENIED)
    return Failure(f"The model's server answers {status}", said, "Try again, or a shorter prompt")


def _prompt(given: str | None) -> str:
    """Return the prompt that was given, or that standard input has; a longer one is never asked by half."""
    try:
        text = sys.stdin.read(PROMPT_BYTES + 1) if given is None else given
        size = len(text.encode())
    except UnicodeError as error:
        raise Failure("The prompt is no text in UTF-8", str(error), code=Exit.USAGE) from error
    if not text.strip():
        raise Failure(
            "There is no prompt", "", "Give one as an argument or on standard input", code=Exit.USAGE
        )
    if size > PROMPT_BYTES:
        raise Failure(f"The prompt is longer than {PROMPT_BYTES} bytes", "", "Shorten it", code=Exit.USAGE)
    return text


def _printer(show: Show) -> Callable[[str], None]:
    """Return a call that prints a piece at once; a document is printed as a whole, at the end."""
    if show.as_json:
        return lambda _piece: None

    def piece(text: str) -> None:
        click.echo(text, nl=False)
        sys.stdout.flush()

    return piece


def _end(show: Show, answer: Answer) -> None:
    if show.as_json:
        show.result("", msgspec.to_builtins(answer))
        return
    click.echo()
    if answer.finish_reason == "length":
        show.note("The answer was cut at the limit of tokens.")
