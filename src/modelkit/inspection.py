"""From files to facts: the one way in which the command line and the publication look at a model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from modelkit import archives, policy
from modelkit.errors import Damaged, NotAModel, NotServed
from modelkit.facts import FactSheet, ModelFacts
from modelkit.formats import gguf, gguf_facts
from modelkit.policy import Action, Format
from modelkit.reading import Slice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from modelkit.archives import Member
    from modelkit.formats.gguf import GgufHeader
    from modelkit.reading import Files, RangeReader


#: what is asked of the files beside the one that carries the metadata of a GGUF model
_KEPT = frozenset(
    {"general.architecture", "general.type", "clip.has_vision_encoder", "clip.has_audio_encoder"}
)


class Inspection(NamedTuple):
    """What a set of files is."""

    format: Format
    facts: ModelFacts
    #: path of the file that holds the chat template
    template_path: str | None


def archive_files(reader: RangeReader, found: Sequence[Member]) -> dict[str, Callable[[], RangeReader]]:
    """Return the members of an archive as files."""
    return {member.path: partial(Slice, reader, member.start, member.size) for member in found}


def inspect_archive(reader: RangeReader, where: str) -> Inspection:
    """Look at the model inside a tar.

    Raises:
        NotAModel: the archive or the model in it is damaged, or none is in it.
    """
    files = archive_files(reader, archives.members(reader, where))
    try:
        return inspect_files(files)
    except NotAModel as error:
        raise type(error)(f"{where}: {error.where}" if error.where else where, error.why) from error


def inspect_files(files: Files) -> Inspection:
    """Look at a model of several files.

    Raises:
        NotAModel: the files are of no format, of more than one model, or damaged.
    """
    found = policy.detect_format(files.keys())
    kept = {path: files[path] for path in files if policy.action(found, path) is Action.KEEP}
    if found is Format.GGUF:
        return inspect_gguf(kept)
    sheet = FactSheet()
    template_path = None
    if found is Format.SAFETENSORS:
        from modelkit.formats import checkpoint  # noqa: PLC0415 - GGUF files start up without it

        template_path = checkpoint.learn(sheet, kept)
    else:
        from modelkit.formats import diffusers  # noqa: PLC0415 - as above

        diffusers.learn(sheet, kept)
    return Inspection(found, sheet.publish(found), template_path if sheet.value("chat_template") else None)


def inspect_gguf(files: Files) -> Inspection:
    """Look at one GGUF model, whatever its files are called.

    Raises:
        NotAModel: as for ``inspect_files``.
    """
    sheet = FactSheet()
    template_path = _learn_gguf(sheet, files)
    return Inspection(
        Format.GGUF, sheet.publish(Format.GGUF), template_path if sheet.value("chat_template") else None
    )


def inspect_tensors(files: Files) -> Inspection:
    """Look at Safetensors files on their own, without the configuration that makes them a model."""
    from modelkit.formats import checkpoint  # noqa: PLC0415 - GGUF files start up without it

    sheet = FactSheet()
    checkpoint.learn_lone(sheet, files)
    return Inspection(Format.SAFETENSORS, sheet.publish(Format.SAFETENSORS), None)


def _learn_gguf(sheet: FactSheet, files: Files) -> str:
    """Learn from GGUF files: one model, whole or in numbered shards, and perhaps its projector."""
    headers = _headers(files)
    projectors = [path for path, header in headers.items() if _is_projector(header)]
    models = [path for path in headers if path not in projectors]
    if not models:
        raise NotServed(
            projectors[0], "is a projector for pictures or sound; send the language model with it"
        )
    _check_one_model(models)
    chosen = [headers[path] for path in models]
    kind = chosen[0].text("general.type")
    if kind in {"adapter", "imatrix"}:
        raise NotServed(models[0], f"is of type {kind}, no model; send the model that it belongs to")
    if not any(header.tensors for header in chosen):
        raise NotAModel(models[0], "holds no tensors")
    gguf_facts.learn(sheet, chosen)
    for path in projectors:
        gguf_facts.learn_projector(sheet, headers[path])
    return models[0]


def _headers(files: Files) -> dict[str, GgufHeader]:
    """Return the headers by path; all metadata of one model file only, since there may be thousands."""
    headers: dict[str, GgufHeader] = {}
    left, whole = gguf.TENSOR_LIMIT, False
    for path, opener in sorted(files.items()):
        header = gguf.read_header(opener(), path)
        left -= len(header.tensors)
        if left < 0:
            raise NotServed(path, f"more than {gguf.TENSOR_LIMIT} tensors in all files are not read")
        if whole or _is_projector(header):
            header = header._replace(
                metadata={key: header.metadata[key] for key in _KEPT & header.metadata.keys()}
            )
        else:
            whole = True
        headers[path] = header
    return headers


def _is_projector(header: GgufHeader) -> bool:
    return (
        header.text("general.architecture") == gguf_facts.PROJECTOR or header.text("general.type") == "mmproj"
    )


def _check_one_model(models: list[str]) -> None:
    """Refuse two models at once, and a split model with a part missing."""
    first = gguf.shard_of(models[0])
    if first is None:
        if len(models) > 1:
            raise NotServed(
                "", f"holds {len(models)} models ({models[0]}, {models[1]}, ...); send one of them"
            )
        return
    shards = [gguf.shard_of(path) for path in models]
    numbers = {shard.number for shard in shards if shard and (shard.stem, shard.of) == (first.stem, first.of)}
    if len(numbers) != len(models):
        raise NotServed("", f"holds several models ({models[0]}, {models[-1]}, ...); send one of them")
    missing = next((number for number in range(1, first.of + 1) if number not in numbers), None)
    if missing is not None:
        raise Damaged(f"{first.stem}-{missing:05d}-of-{first.of:05d}.gguf", "is missing from the set")
