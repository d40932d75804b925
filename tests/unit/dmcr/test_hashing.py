"""Digests go on from their saved words, on this machine and on one without libcrypto's low level."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimodels.dmcr import hashing
from aimodels.dmcr.layout import HashState

BLOCK = {"sha256": 64, "sha512": 128}


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@given(st.data())
def test_any_split_at_a_block_gives_the_digest_of_the_whole(algorithm: str, data: st.DataObject) -> None:
    body = data.draw(st.binary(max_size=2000))
    cut = data.draw(st.integers(0, len(body) // BLOCK[algorithm])) * BLOCK[algorithm]
    first = hashing.start(algorithm)
    first.update(memoryview(bytearray(body))[:cut])
    state = first.state()
    assert state is not None
    assert state.bytes == cut
    second = hashing.resume(algorithm, state)
    assert second is not None
    second.update(memoryview(body)[cut:])
    assert second.digest() == f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"


def test_the_digest_so_far_does_not_end_it() -> None:
    running = hashing.start("sha256")
    running.update(memoryview(b"abc"))
    assert running.digest() == "sha256:" + hashlib.sha256(b"abc").hexdigest()
    assert running.state() is None, "half a block is not a state"
    running.update(memoryview(b"def"))
    assert running.digest() == "sha256:" + hashlib.sha256(b"abcdef").hexdigest()


def test_counts_above_four_gigabytes_survive() -> None:
    """The bit count of SHA-256 is two 32-bit words."""
    state = hashing.start("sha256").state()
    assert state is not None
    far = hashing.resume("sha256", HashState(words=state.words, bytes=5 << 30))
    assert far is not None
    far.update(memoryview(bytes(64)))
    after = far.state()
    assert after is not None
    assert after.bytes == (5 << 30) + 64


def test_without_the_low_level_a_digest_runs_and_has_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "savable", lambda _: False)
    running = hashing.start("sha512")
    running.update(memoryview(b"abc"))
    assert running.digest() == "sha512:" + hashlib.sha512(b"abc").hexdigest()
    assert running.state() is None
    assert hashing.resume("sha512", HashState(words=(0,) * 8, bytes=0)) is None
