"""A thousand damaged files: each is read or refused with its place, quickly and in little memory."""

from __future__ import annotations

import json
import random
import struct
import time
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelkit import inspection
from modelkit.errors import NotAModel
from modelkit.formats import gguf, safetensors
from modelkit.reading import MemoryReader
from tests.kit import models

if TYPE_CHECKING:
    from collections.abc import Callable

    from modelkit.inspection import Inspection

#: more than a small file may take, in bytes
MEMORY = 64 << 20
#: far above what any of them takes: this finds loops, not slowness
SECONDS = 20.0
FILES = 1000
INTERESTING = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


def gguf_file(data: bytes) -> Inspection:
    return inspection.inspect_gguf({"m.gguf": partial(MemoryReader, data)})


def tensors_file(data: bytes) -> Inspection:
    return inspection.inspect_tensors({"m.safetensors": partial(MemoryReader, data)})


def tar_file(data: bytes) -> Inspection:
    return inspection.inspect_archive(MemoryReader(data), "m.tar")


def config_file(data: bytes) -> Inspection:
    return inspection.inspect_files(models.readers({**models.checkpoint(), "config.json": data}))


LOOKS: dict[str, tuple[Callable[[bytes], Inspection], Callable[[], bytes], int]] = {
    "gguf": (gguf_file, models.gguf_bytes, 4096),
    "safetensors": (tensors_file, lambda: models.checkpoint()["model.safetensors"], 600),
    "tar": (tar_file, lambda: models.tar(models.checkpoint(), "top"), 8192),
    "config": (config_file, lambda: models.checkpoint()["config.json"], 1000),
}


def refusal(look: Callable[[bytes], Inspection], data: bytes) -> str | None:
    try:
        look(data)
    except NotAModel as error:
        return str(error)
    return None


def mutated(data: bytes, rng: random.Random, header: int) -> bytes:
    """Damage the header as disks, networks and authors do: bytes, numbers, cuts, repetitions."""
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(header, len(damaged)))
        kind = rng.randrange(5)
        if kind == 0:
            damaged[at] = rng.randrange(256)
        elif kind == 1:
            value = struct.pack("<Q", rng.choice(INTERESTING))[: rng.choice((1, 2, 4, 8))]
            damaged[at : at + len(value)] = value
        elif kind == 2:
            del damaged[at : at + rng.randint(1, 64)]
        elif kind == 3:
            damaged[at:at] = damaged[at : at + rng.randint(1, 64)]
        else:
            del damaged[rng.randrange(len(damaged)) :]
        if not damaged:
            return b""
    return bytes(damaged)


@pytest.mark.parametrize("form", LOOKS)
def test_a_damaged_file_is_refused_with_its_place(form: str) -> None:
    look, make, header = LOOKS[form]
    whole = make()
    rng = random.Random(form)
    refused = 0
    tracemalloc.start()
    started = time.monotonic()
    try:
        for _ in range(FILES // len(LOOKS)):
            said = refusal(look, mutated(whole, rng, header))
            refused += said is not None
            assert said is None or (len(said) > 10 and "\n" not in said)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused > FILES // len(LOOKS) // 4
    assert peak < MEMORY
    assert time.monotonic() - started < SECONDS


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def gguf_of(*pairs: bytes, tensors: int = 0, keys: int | None = None) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", 3, tensors, len(pairs) if keys is None else keys) + b"".join(pairs)


def hostile_gguf() -> dict[str, bytes]:
    """Headers that ask for much: counts without bytes, and bytes that are many small things."""
    array, string, u8 = struct.pack("<I", 9), struct.pack("<I", 8), struct.pack("<I", 0)
    huge = struct.pack("<Q", 1 << 62)
    nested = text(b"k") + array + (array + struct.pack("<Q", 1)) * 2000
    return {
        "tensor count": struct.pack("<4sIQQ", b"GGUF", 3, 1 << 63, 0),
        "key count": struct.pack("<4sIQQ", b"GGUF", 3, 0, 1 << 63),
        "string length": gguf_of(text(b"k") + string + huge),
        "array length": gguf_of(text(b"k") + array + u8 + huge),
        "string array length": gguf_of(text(b"k") + array + string + huge),
        "nesting": gguf_of(nested),
        "many strings": gguf_of(text(b"k") + array + string + struct.pack("<Q", 1 << 18) + bytes(2 << 20)),
        "wide text": gguf_of(
            *(text(b"k%d" % n) + string + text("\U0001f600".encode() * (200 << 10)) for n in range(40))
        ),
        "long names": gguf_of(*(text(b"%05d" % n + bytes(60_000)) + u8 + b"\0" for n in range(400))),
        "many arrays": gguf_of(
            *(text(b"k%d" % n) + array + u8 + struct.pack("<Q", 1024) + bytes(1024) for n in range(2000))
        ),
        "many nested arrays": gguf_of(
            text(b"k") + array + array + struct.pack("<Q", 1 << 20) + (u8 + struct.pack("<Q", 0)) * (1 << 20)
        ),
        "many tensors": gguf_of(
            *(text(b"%d" % n) + struct.pack("<IIQ", 0, 0, 32 * n) for n in range(30_000)),
            tensors=30_000,
            keys=0,
        ),
    }


def hostile_safetensors() -> dict[str, bytes]:
    def with_header(header: bytes, size: int = 0) -> bytes:
        return struct.pack("<Q", len(header)) + header + bytes(size)

    entry = b'"%d":{"dtype":"U8","shape":[],"data_offsets":[%d,%d]}'
    many = b",".join(entry % (n, n, n + 1) for n in range(60_000))
    backwards = b",".join(entry % (n, n, n + 1) for n in reversed(range(30_000)))
    return {
        "length": struct.pack("<Q", (1 << 64) - 1) + b"{" + bytes(100),
        "nesting": with_header(b'{"a":' + b"[" * 500_000 + b"}"),
        "no boundary": with_header(b'{"a":"' + b"x" * (6 << 20) + b'"}'),
        "false boundaries": with_header(b'{"' + b"}, " * (2 << 20) + b'":1}'),
        "empty entries": with_header(b"{" + b",".join(b'"%d":{}' % n for n in range(300_000)) + b"}"),
        "sides": with_header(
            b'{"a":{"dtype":"U8","shape":[' + b"1," * 400_000 + b'1],"data_offsets":[0,1]}}', 1
        ),
        "large sides": with_header(
            b'{"a":{"dtype":"U8","shape":[' + b"9" * 4000 + b'],"data_offsets":[0,1]}}', 1
        ),
        "many tensors": with_header(b"{" + many + b"}", 60_000),
        "many tensors backwards": with_header(b"{" + backwards + b"}", 30_000),
        "metadata": with_header(
            b'{"__metadata__":{' + b",".join(b'"%d":"x"' % n for n in range(80_000)) + b"}}"
        ),
    }


HOSTILE = [
    *((f"gguf: {name}", gguf_file, data) for name, data in hostile_gguf().items()),
    *((f"safetensors: {name}", tensors_file, data) for name, data in hostile_safetensors().items()),
]


@pytest.mark.parametrize(("look", "data"), [pytest.param(*one[1:], id=one[0]) for one in HOSTILE])
def test_a_hostile_header_costs_little(look: Callable[[bytes], Inspection], data: bytes) -> None:
    tracemalloc.start()
    started = time.monotonic()
    try:
        said = refusal(look, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said is None or "\n" not in said
    assert peak < MEMORY
    assert time.monotonic() - started < SECONDS


class LongHeader:
    """A header of a given length, made as it is read: all descriptions are equally long."""

    def __init__(self, tensors: int) -> None:
        self._tensors = tensors
        self._width = len(self._entry(0))
        self.length = tensors * self._width + 1
        self.size = 8 + self.length + 2 * tensors

    def _entry(self, number: int) -> bytes:
        opening = b"," if number else b"{"
        name = b"model.layers.%09d." % number + b"x" * 5900
        described = b'{"dtype":"BF16","shape":[1],"data_offsets":[%12d,%12d]}' % (2 * number, 2 * number + 2)
        return opening + b'"' + name + b'":' + described

    def read_at(self, offset: int, length: int) -> bytes:
        first, skipped = divmod(max(offset - 8, 0), self._width)
        last = min(first + length // self._width + 2, self._tensors)
        text = b"".join(map(self._entry, range(first, last))) + (b"}" if last == self._tensors else b"")
        if offset < 8:
            text = struct.pack("<Q", self.length)[offset:] + text
        return text[skipped : skipped + length]


def test_a_header_of_more_than_a_hundred_megabytes_is_read_in_pieces() -> None:
    reader = LongHeader(22_000)
    assert reader.length > 126_000_000
    tracemalloc.start()
    try:
        found = sum(
            len(names) * (safetensors.byte_size(*form) or 0)
            for batch in safetensors.tensors(reader, "big.safetensors")
            for form, names in batch.items()
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == 44_000
    assert peak < MEMORY


def test_limits_are_those_that_the_text_names() -> None:
    assert gguf.HEADER_LIMIT == 64 << 20
    assert safetensors.HEADER_LIMIT > 126 << 20


KEYS = sorted(
    {
        *(
            "architectures",
            "model_type",
            "text_config",
            "vision_config",
            "quantization_config",
            "quantization",
        ),
        *("quant_method", "bits", "config_groups", "weights", "num_bits", "type", "format", "quant_algo"),
        *(
            "id2label",
            "num_labels",
            "tie_word_embeddings",
            "transformers_version",
            "attn_config",
            "kv_n_heads",
        ),
        *("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "num_experts", "n_embd"),
        *("sliding_window", "use_sliding_window", "max_position_embeddings", "vision_config"),
    }
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["llama", "gemma3", "falcon", "dbrx", "mamba", "awq", "gptq", "compressed-tensors", "", "x"]
    ),
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
        max_leaves=8,
    ),
    max_size=10,
)


CHECKPOINT = models.checkpoint()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(config=DOCUMENTS, tokenizer=DOCUMENTS)
def test_any_configuration_is_read(config: dict[str, Any], tokenizer: dict[str, Any]) -> None:
    files = dict(CHECKPOINT)
    files["config.json"] = json.dumps(config).encode()
    files["tokenizer_config.json"] = json.dumps(tokenizer).encode()
    files["quantize_config.json"] = json.dumps(tokenizer).encode()
    facts = inspection.inspect_files(models.readers(files)).facts
    numbers = [value for value in msgspec.to_builtins(facts.facts).values() if isinstance(value, int)]
    assert all(number > 0 for number in numbers if not isinstance(number, bool))
