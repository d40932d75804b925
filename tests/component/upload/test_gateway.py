"""The gateway as users meet it: the guide's curl lines, resuming, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import shlex
import signal
import ssl
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.kit.gatewayworld import RECEIVED, Ticket, World, gguf

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1 << 20
SAFE = {"cache-control": "no-store", "pragma": "no-cache", "referrer-policy": "no-referrer"}


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


async def test_the_line_of_the_guide_uploads_a_model(world: World) -> None:
    content = gguf(3 * MIB + 5)
    path, ticket = world.file("model.gguf", content), await world.allow()
    script = f"""
        UPLOAD_URL={shlex.quote(ticket.url)}
        UPLOAD_TOKEN={shlex.quote(ticket.token)}
        cd {path.parent}
        curl -fS --progress-bar \
          -H "Authorization: Bearer ${{UPLOAD_TOKEN}}" \
          -T ./model.gguf \
          "$UPLOAD_URL" | cat
    """
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", script),
        env={"PATH": "/usr/bin:/bin", "CURL_CA_BUNDLE": str(world.gateway.ca_file)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()

    answer = msgspec.json.decode(out)
    assert (answer["digest"], answer["sizeBytes"]) == (digest_of(content), len(content))
    assert answer["nextStep"]
    manifest = msgspec.json.decode((await world.received(ticket)).body)
    assert manifest["artifactType"] == "application/vnd.deckhouse.ai-models.upload.v1+json"
    assert [(layer["digest"], layer["size"]) for layer in manifest["layers"]] == [
        (digest_of(content), len(content))
    ]
    assert await world.stored(ticket, answer["digest"]) == content


async def test_the_name_given_travels_with_the_file(world: World) -> None:
    path, ticket = world.file("x.gguf", gguf(1000)), await world.allow()

    answer = await world.curl(ticket, "-T", str(path), query="?filename=gemma%203.gguf")

    assert answer.status == 201
    assert {name: answer.headers[name] for name in SAFE} == SAFE
    layer = msgspec.json.decode((await world.received(ticket)).body)["layers"][0]
    assert layer["annotations"] == {"org.cncf.model.filepath": "gemma 3.gguf"}


@pytest.mark.parametrize("expect", ["Expect: 100-continue", "Expect:"])
async def test_a_wrong_token_is_refused_before_the_body(world: World, tmp_path: Path, expect: str) -> None:
    big = tmp_path / "big.gguf"
    with big.open("wb") as file:
        file.write(b"GGUF")
        file.truncate(300_000_000)
    ticket = await world.allow()
    wrong = Ticket(ticket.session, ticket.url, "wrong", ticket.repository)
    unknown = Ticket("", ticket.url.replace("-g1-", "-g2-"), ticket.token, ticket.repository)

    answers = [await world.curl(one, "-H", expect, "-T", str(big)) for one in (wrong, unknown)]

    assert [answer.status for answer in answers] == [401, 401]
    assert answers[0].body == answers[1].body
    assert answers[0].json()["reason"] == "Unauthorized"
    assert answers[0].headers.keys() == answers[1].headers.keys()


async def test_a_wrong_token_takes_at_most_a_mebibyte_of_a_client_that_does_not_stop(world: World) -> None:
    ticket = await world.allow()
    reader, writer = await open_tls(world)
    writer.write(
        f"PUT /v1/upload/{ticket.session} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer no\r\n"
        "Content-Length: 300000000\r\n\r\n".encode()
    )
    answering = asyncio.create_task(reader.read(4096))
    sent, piece = 0, bytes(64 << 10)
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(20):
            while sent < 300_000_000:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
    answer = await answering
    writer.transport.abort()

    assert answer.startswith(b"HTTP/1.1 401 ")
    # what the kernels' buffers took on both sides is not taken by the gateway
    assert sent < 12 * MIB


async def open_tls(world: World) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cafile=world.gateway.ca_file)
    return await asyncio.open_connection("localhost", world.gateway.port, ssl=context)


async def test_what_is_no_model_is_refused_early_and_the_session_stays(world: World, tmp_path: Path) -> None:
    junk = tmp_path / "junk.bin"
    with junk.open("wb") as file:
        file.truncate(300_000_000)
    ticket = await world.allow()

    refused = await world.curl(ticket, "-T", str(junk))
    named = await world.curl(ticket, "-T", str(world.file("a", gguf(900))), query="?filename=model.rar")
    zipped = await world.curl(ticket, "-T", str(world.file("a.zip", b"PK\3\4" + bytes(600))))
    good = await world.curl(ticket, "-T", str(world.file("good.gguf", gguf(2000))))

    assert (refused.status, refused.json()["reason"]) == (400, "NotAModel")
    assert refused.sent < 8 * MIB
    assert (named.status, named.json()["reason"]) == (400, "NotAModel")
    assert (zipped.status, zipped.json()["reason"]) == (400, "NotServed")
    assert good.status == 201


async def test_a_body_without_length_is_taken(world: World) -> None:
    content = gguf(2 * MIB)
    path, ticket = world.file("model.gguf", content), await world.allow()
    answer = await world.curl(ticket, "-H", "Transfer-Encoding: chunked", "-T", str(path))
    assert (answer.status, answer.json()["digest"]) == (201, digest_of(content))


@pytest.mark.parametrize("length", [900, 1100])
async def test_a_body_of_another_length_than_its_range_is_refused(world: World, length: int) -> None:
    path, ticket = world.file("piece", gguf(length)), await world.allow()
    spoken = ("-H", "Content-Range: bytes 0-999/5000", "-H", "Transfer-Encoding: chunked")
    answer = await world.curl(ticket, *spoken, "-T", str(path))
    assert (answer.status, answer.json()["reason"]) == (400, "InvalidRequest")


async def test_a_percent_sign_in_a_name_stays(world: World) -> None:
    path, ticket = world.file("x.gguf", gguf(1000)), await world.allow()
    assert (await world.curl(ticket, "-T", str(path), query="?filename=a%2520b.gguf")).status == 201
    layer = msgspec.json.decode((await world.received(ticket)).body)["layers"][0]
    assert layer["annotations"] == {"org.cncf.model.filepath": "a%20b.gguf"}


async def test_once_received_nothing_more_is_taken(world: World) -> None:
    path, ticket = world.file("model.gguf", gguf(1000)), await world.allow()
    assert (await world.curl(ticket, "-T", str(path))).status == 201

    again, head = await world.curl(ticket, "-T", str(path)), await world.head(ticket)

    assert (again.status, again.json()["reason"], head.status) == (409, "UploadReceived", 409)


async def test_methods_and_paths_that_are_not_there(world: World) -> None:
    ticket = await world.allow()
    patch = await world.curl(ticket, "-X", "PATCH", "-d", "x")
    other = await world.curl(ticket, path="/elsewhere")
    assert (patch.status, patch.headers["allow"].upper()) == (405, "GET, HEAD, PUT")
    assert other.status == 404


async def test_parts_of_a_file_in_several_requests(world: World) -> None:
    content = gguf(5 * MIB)
    ticket = await world.allow()
    cuts = [0, 512, 700, 3 * MIB, 5 * MIB]
    for first, end in itertools.pairwise(cuts):
        path = world.file("piece", content[first:end])
        spoken = f"Content-Range: bytes {first}-{end - 1}/{len(content)}"
        answer = await world.curl(ticket, "-H", spoken, "-T", str(path))
        if end < len(content):
            assert (answer.status, answer.headers["upload-offset"]) == (202, str(end))
            head = await world.head(ticket)
            assert head.headers["upload-offset"] == str(end)
            assert head.headers["upload-digest"] == digest_of(content[:end])
    assert (answer.status, answer.json()["digest"]) == (201, digest_of(content))


async def test_a_piece_that_does_not_follow_is_refused_with_the_offset(world: World) -> None:
    ticket = await world.allow()
    first = world.file("first", gguf(MIB))
    await world.curl(ticket, "-H", f"Content-Range: bytes 0-{MIB - 1}/{2 * MIB}", "-T", str(first))

    answer = await world.curl(ticket, "-H", f"Content-Range: bytes 5-{MIB + 4}/{2 * MIB}", "-T", str(first))

    assert (answer.status, answer.headers["upload-offset"]) == (416, str(MIB))
    assert (await world.head(ticket)).headers["upload-offset"] == str(MIB)


async def test_a_put_without_range_starts_over(world: World) -> None:
    ticket = await world.allow()
    first = world.file("first", gguf(MIB))
    await world.curl(ticket, "-H", f"Content-Range: bytes 0-{MIB - 1}/{2 * MIB}", "-T", str(first))
    content = gguf(MIB + 7)

    answer = await world.curl(ticket, "-T", str(world.file("other.gguf", content)))

    assert (answer.status, answer.json()["digest"]) == (201, digest_of(content))


async def test_uploads_at_the_same_time_are_independent(world: World) -> None:
    contents = [gguf(8 * MIB + n) for n in range(4)]
    tickets = [await world.allow() for _ in range(4)]

    answers = await asyncio.gather(
        *(
            world.curl(ticket, "-T", str(world.file(f"m{n}.gguf", content)))
            for n, (ticket, content) in enumerate(zip(tickets, contents, strict=True))
        )
    )

    assert [answer.json()["digest"] for answer in answers] == [digest_of(one) for one in contents]


async def test_the_newest_request_takes_a_half_open_one_over(world: World) -> None:
    content = gguf(6 * MIB)
    ticket = await world.allow()
    reader, writer = await half_sent(world, ticket, content, 4 * MIB)

    answer = await asyncio.wait_for(
        world.curl(ticket, "-T", str(world.file("model.gguf", content))), timeout=20
    )

    assert (answer.status, answer.json()["digest"]) == (201, digest_of(content))
    assert (await asyncio.wait_for(reader.read(4096), 10)).startswith(b"HTTP/1.1 409 ")
    writer.close()


async def half_sent(
    world: World, ticket: Ticket, content: bytes, upto: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Begin a PUT of all and send so much of it; the connection stays open."""
    reader, writer = await open_tls(world)
    writer.write(
        f"PUT /v1/upload/{ticket.session} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {ticket.token}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    )
    writer.write(content[:upto])
    await writer.drain()
    return reader, writer


async def test_a_kill_of_the_registry_costs_what_fills_no_part(world: World) -> None:
    """Also when the client has asked first how much is there, as it does who goes on after interruptions."""
    content, ticket = gguf(24 * MIB), await world.allow()
    assert (await world.head(ticket)).headers["upload-offset"] == "0"
    _, writer = await half_sent(world, ticket, content, 12 * MIB)
    assert await world.until_journaled(ticket, 1) == 8 * MIB
    await world.dmcr.kill()
    await world.dmcr.start()
    writer.close()

    assert (await world.head(ticket)).headers["upload-offset"] == str(8 * MIB)
    rest = world.file("rest", content[8 * MIB :])
    spoken = f"Content-Range: bytes {8 * MIB}-{len(content) - 1}/{len(content)}"
    answer = await world.curl(ticket, "-H", spoken, "-T", str(rest))

    assert (answer.status, answer.json()["digest"]) == (201, digest_of(content))
    assert 0 <= await world.dmcr.counter(RECEIVED) - 16 * MIB < 1024, "beside it only what commits the file"


@pytest.mark.parametrize("victim", ["client", "gateway"])
async def test_a_kill_in_the_middle_costs_little(world: World, victim: str) -> None:
    content = gguf(48 * MIB)
    ticket, path = await world.allow(), world.file("model.gguf", content)
    sending = await world.start_curl(ticket, "--limit-rate", "16M", "-T", str(path))
    kept = await world.until_journaled(ticket, 16 * MIB)
    if victim == "client":
        sending.kill()
    else:
        await world.gateway.end(signal.SIGKILL)
        await world.gateway.start()
    await sending.communicate()

    head = await world.head(ticket)
    offset = int(head.headers["upload-offset"])
    assert head.headers["upload-digest"] == digest_of(content[:offset])
    assert offset >= kept
    rest = world.file("rest", content[offset:])
    spoken = f"Content-Range: bytes {offset}-{len(content) - 1}/{len(content)}"
    answer = await world.curl(ticket, "-H", spoken, "-T", str(rest))

    assert (answer.status, answer.json()["digest"]) == (201, digest_of(content))


async def test_a_client_that_falls_silent_is_told_and_what_it_sent_stays(world: World) -> None:
    content = gguf(2 * MIB)
    ticket = await world.allow()
    reader, writer = await open_tls(world)
    writer.write(
        f"PUT /v1/upload/{ticket.session} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {ticket.token}\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    )
    writer.write(content[:MIB])
    await writer.drain()

    assert (await asyncio.wait_for(reader.read(4096), 30)).startswith(b"HTTP/1.1 408 ")
    writer.close()
    head = await world.head(ticket)
    assert (head.headers["upload-offset"], head.headers["upload-digest"]) == (
        str(MIB),
        digest_of(content[:MIB]),
    )


async def test_sigterm_ends_an_upload_with_an_answer_that_tells_how_to_go_on(world: World) -> None:
    ticket, path = await world.allow(), world.file("model.gguf", gguf(48 * MIB))
    sending = await world.start_curl(ticket, "--limit-rate", "16M", "-T", str(path))
    await world.until_received(10 * MIB)

    await asyncio.wait_for(world.gateway.end(signal.SIGTERM), timeout=60)
    answer = await world.answer(sending)

    assert (answer.status, answer.json()["reason"]) == (503, "Restarting")
    await world.gateway.start()
    assert int((await world.head(ticket)).headers["upload-offset"]) >= 8 * MIB


async def test_memory_stays_flat(world: World, tmp_path: Path) -> None:
    big = tmp_path / "big.gguf"
    with big.open("wb") as file:
        file.write(gguf(MIB))
        file.truncate(300_000_000)

    answer = await world.curl(await world.allow(), "-T", str(big))

    assert answer.status == 201
    assert world.gateway.peak_resident() < 100 * MIB
