"""Compiles the planner's catalogues: YAML for people in, one JSON for the planner and the JSON schemas out.

Nothing is written unless everything holds: shapes, names that refer to each other, and every line that any
recipe can give, held to the argument list of its engine. ``--check`` writes nothing and fails when a file
differs from what would be written.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml

from aiinference.api.reasons import LaunchStrategy
from aiinference.recipes import command
from aiinference.recipes.catalogue import Catalogue, Families, Recipes, Taxonomy
from aiinference.recipes.merge import merged
from tools.engine_options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiinference.recipes.catalogue import Engine, Layer, Record

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("modules/ai-inference/images/catalogs")
COMPILED = Path("src/aiinference/recipes/data/catalogue.json")
FILES: dict[str, type[msgspec.Struct]] = {
    "platform-hardware-families": Families,
    "recipe-taxonomy": Taxonomy,
    "runtime-recipes.compiled": Recipes,
}

T = TypeVar("T", bound=msgspec.Struct)


class BadCatalogue(Exception):
    """The catalogues do not hold; the text lists why."""


def main() -> int:
    """Write or check the files; return 1 when a checked one differs or the catalogues do not hold."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print("usage: compile_recipes.py [--check]", file=sys.stderr)
        return 2
    try:
        if check:
            verify(ROOT)
            return 0
        texts = compiled(ROOT / FOLDER)
    except BadCatalogue as error:
        print(error)
        return 1
    for path in _stale(ROOT, texts):
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(texts[path])
        print(f"written {path}")
    return 0


def verify(root: Path) -> None:
    """Raise BadCatalogue when a checkout's catalogues do not hold, or are not what was compiled."""
    stale = _stale(root, compiled(root / FOLDER))
    if stale:
        raise BadCatalogue(
            "\n".join(f"{path} differs from {FOLDER}: run tools/compile_recipes.py" for path in stale)
        )


def _stale(root: Path, texts: dict[Path, str]) -> list[Path]:
    return [path for path, text in texts.items() if not _is(root / path, text)]


def compiled(folder: Path) -> dict[Path, str]:
    """Return the text of every compiled file by its path, or raise BadCatalogue."""
    families = _read(folder, "platform-hardware-families", Families)
    taxonomy = _read(folder, "recipe-taxonomy", Taxonomy)
    recipes = _read(folder, "runtime-recipes.compiled", Recipes)
    catalogue = Catalogue(families=families.families, engines=taxonomy.engines, recipes=recipes.recipes)
    problems = _references(catalogue) or list(_lines(catalogue))
    if problems:
        raise BadCatalogue("\n".join(problems))
    schemas = {
        FOLDER / "schemas" / f"{name}.json": _text(msgspec.json.schema(kind)) for name, kind in FILES.items()
    }
    return {COMPILED: _text(msgspec.to_builtins(catalogue)), **schemas}


def _read(folder: Path, name: str, kind: type[T]) -> T:
    try:
        return msgspec.convert(yaml.safe_load((folder / f"{name}.yaml").read_text()), kind)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise BadCatalogue(f"{name}.yaml: {error}") from None


def _references(catalogue: Catalogue) -> list[str]:
    problems = []
    families = {family.name for family in catalogue.families}
    engines = {engine.name: engine for engine in catalogue.engines}
    for names in (
        [family.name for family in catalogue.families],
        [engine.name for engine in catalogue.engines],
        [record.name for record in catalogue.recipes],
    ):
        problems += [f"{name} is there twice" for name in sorted({n for n in names if names.count(n) > 1})]
    for record in catalogue.recipes:
        if record.engine not in engines:
            problems.append(f"{record.name}: there is no engine {record.engine}")
            continue
        formats = set(record.match.formats) - set(engines[record.engine].formats)
        problems += [f"{record.name}: {record.engine} does not load {name}" for name in sorted(formats)]
        unknown = set(record.hardware) - families
        problems += [f"{record.name}: there is no hardware family {name}" for name in sorted(unknown)]
    return problems


def _lines(catalogue: Catalogue) -> Iterator[str]:
    """Tell what an engine would not take of any line that a recipe can give."""
    for record in catalogue.recipes:
        engine = catalogue.engine(record.engine)
        options = Options.read(engine.argument_list)
        if options.version != engine.version:
            yield f"{engine.name} is {engine.version}, its argument list is of {options.version}"
        combinations = itertools.product(record.variants, record.hardware, LaunchStrategy)
        for endpoint, hardware, strategy in combinations:
            layer = merged(record, endpoint, hardware, strategy)
            where = f"{record.name}, {endpoint}, {hardware}, {strategy}"
            for problem in _line(record, engine, layer, options):
                yield f"{where}: {problem}"


def _line(record: Record, engine: Engine, layer: Layer, options: Options) -> list[str]:
    texts = [str(value) for value in (*layer.arguments.values(), *layer.env.values())]
    named = {name for text in texts for name in command.PLACEHOLDER.findall(text)}
    unknown = sorted(named - command.NAMES)
    if unknown:
        return [f"{{{name}}} is nothing that the planner works out" for name in unknown]
    numbers = dict.fromkeys(command.NAMES, 1) | {"model": "/model", "name": record.name}
    pooling = layer.sizing.pooling
    problems = []
    for word in (pooling.encoder, pooling.decoder) if pooling else (None,):
        words = command.line(engine, layer, numbers | {"pooling": word})
        problems += options.problems(words[len(engine.entrypoint) :])
    return problems


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


def _text(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
