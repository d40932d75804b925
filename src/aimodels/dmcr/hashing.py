"""Running digests whose state can be saved and restored, so that an upload resumes without reading again.

What belongs here: SHA-256 and SHA-512 over libcrypto by ctypes. What does not: when to save.

OpenSSL's low-level contexts are plain words: at a whole number of blocks the eight chaining words and the
byte count are the whole state. A self-test proves that on this machine; where it fails (another layout, a
build without these functions) digests run by hashlib and ``state()`` is None: whoever resumes without a
state has to read the bytes again.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
from typing import Any, NamedTuple, Protocol

from aimodels.dmcr.layout import HashState

_TEST_BYTES = (1 << 20) + 17
_TEST_SPLIT = 1 << 16


class RunningHash(Protocol):
    """A digest that bytes are added to, in order."""

    def update(self, data: memoryview) -> None:
        """Add bytes; the interpreter lock is released meanwhile."""
        ...

    def digest(self) -> str:
        """Return ``<algorithm>:<hex>`` of the bytes so far; more may follow."""
        ...

    def state(self) -> HashState | None:
        """Return what ``resume`` needs, or None when it cannot be told at this point or on this machine."""
        ...


class _Context256(ctypes.Structure):
    _fields_ = (
        ("h", ctypes.c_uint32 * 8),
        ("low", ctypes.c_uint32),
        ("high", ctypes.c_uint32),
        ("data", ctypes.c_uint32 * 16),
        ("num", ctypes.c_uint),
        ("md_len", ctypes.c_uint),
    )


class _Context512(ctypes.Structure):
    _fields_ = (
        ("h", ctypes.c_uint64 * 8),
        ("low", ctypes.c_uint64),
        ("high", ctypes.c_uint64),
        ("data", ctypes.c_uint64 * 16),
        ("num", ctypes.c_uint),
        ("md_len", ctypes.c_uint),
    )


class _Kind(NamedTuple):
    """What differs between the two members of the family."""

    context: type[_Context256 | _Context512]
    prefix: str
    word_bits: int
    size: int


_KINDS = {
    "sha256": _Kind(_Context256, "SHA256", 32, 32),
    "sha512": _Kind(_Context512, "SHA512", 64, 64),
}
ALGORITHMS = frozenset(_KINDS)


class _Library(NamedTuple):
    init: Any
    update: Any
    final: Any


class SavedHash:
    """A digest over libcrypto whose state can be saved at whole blocks."""

    def __init__(self, algorithm: str, state: HashState | None = None) -> None:
        library = _library(algorithm)
        if library is None:
            raise LookupError(f"this libcrypto has no low-level {algorithm}")
        self._algorithm = algorithm
        self._library = library
        self._kind = _KINDS[algorithm]
        self._context = self._kind.context()
        library.init(ctypes.byref(self._context))
        if state is not None:
            self._context.h[:] = state.words
            bits = state.bytes * 8
            self._context.low = bits & ((1 << self._kind.word_bits) - 1)
            self._context.high = bits >> self._kind.word_bits

    def update(self, data: memoryview) -> None:
        """Add bytes."""
        if not data.nbytes:
            return
        start = bytes(data) if data.readonly else (ctypes.c_char * data.nbytes).from_buffer(data)
        self._library.update(ctypes.byref(self._context), start, ctypes.c_size_t(data.nbytes))

    def digest(self) -> str:
        """Return the digest of the bytes so far; the context itself goes on."""
        copy = self._kind.context.from_buffer_copy(self._context)
        out = ctypes.create_string_buffer(self._kind.size)
        self._library.final(out, ctypes.byref(copy))
        return f"{self._algorithm}:{out.raw.hex()}"

    def state(self) -> HashState | None:
        """Return the chaining words, when no half block is held back."""
        if self._context.num:
            return None
        bits = (self._context.high << self._kind.word_bits) | self._context.low
        return HashState(words=tuple(self._context.h), bytes=bits // 8)


class PlainHash:
    """A digest over hashlib, whose state stays inside."""

    def __init__(self, algorithm: str) -> None:
        self._algorithm = algorithm
        self._hash = hashlib.new(algorithm)

    def update(self, data: memoryview) -> None:
        """Add bytes."""
        self._hash.update(data)

    def digest(self) -> str:
        """Return the digest of the bytes so far."""
        return f"{self._algorithm}:{self._hash.hexdigest()}"

    def state(self) -> HashState | None:
        """Return None: hashlib does not give its state away."""
        return None


def start(algorithm: str) -> RunningHash:
    """Return a digest of no bytes yet, with savable state where this machine allows it."""
    return SavedHash(algorithm) if savable(algorithm) else PlainHash(algorithm)


def resume(algorithm: str, state: HashState) -> RunningHash | None:
    """Return the digest that continues a saved one, or None when this machine cannot."""
    return SavedHash(algorithm, state) if savable(algorithm) else None


@functools.cache
def savable(algorithm: str) -> bool:
    """Tell whether saved state reproduces hashlib's digest here: hashed in two halves, across a restore."""
    if _library(algorithm) is None:
        return False
    data = memoryview((bytes(range(251)) * (_TEST_BYTES // 251 + 1))[:_TEST_BYTES])
    first = SavedHash(algorithm)
    first.update(data[:_TEST_SPLIT])
    state = first.state()
    if state is None or state.bytes != _TEST_SPLIT:
        return False
    second = SavedHash(algorithm, state)
    second.update(data[_TEST_SPLIT:])
    return second.digest() == f"{algorithm}:{hashlib.new(algorithm, data).hexdigest()}"


@functools.cache
def _library(algorithm: str) -> _Library | None:
    """Find the functions in the libcrypto that hashlib itself has loaded, or in the system's."""
    prefix = _KINDS[algorithm].prefix
    for path in _candidates():
        try:
            loaded = ctypes.CDLL(path)
            found = _Library(*(getattr(loaded, f"{prefix}_{name}") for name in ("Init", "Update", "Final")))
        except (OSError, AttributeError):
            continue
        for function in found:
            function.restype = ctypes.c_int
        return found
    return None


def _candidates() -> list[str | None]:
    import _hashlib  # noqa: PLC0415 - absent from builds without OpenSSL

    paths = [getattr(_hashlib, "__file__", None), ctypes.util.find_library("crypto")]
    return [None, *(path for path in paths if path)]
