"""Names: of repositories, of models, of files inside a model.

Every name that comes from outside passes here before it is used as a path or a key. A refused name raises
``BadName``, whose text says what is wrong and what to do.
"""

from __future__ import annotations

import re
import unicodedata

#: longest repository name that is used as it is
REPOSITORY_LIMIT = 100
#: longest component and longest whole path of a file inside a model, in bytes of UTF-8
COMPONENT_LIMIT = 255
PATH_LIMIT = 1024
DEPTH_LIMIT = 32
#: a path that fits when composed has at most three characters for two bytes before
_UNCOMPOSED_LIMIT = 2 * PATH_LIMIT

#: DNS subdomain, the form of Kubernetes object names
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_OBJECT_LIMIT = 253
_LABEL_LIMIT = 63
_HASH_LENGTH = 32
#: the directory that delivery keeps for itself inside every model
RESERVED = ".ai-models"


class BadName(ValueError):
    """A name from outside that cannot be used; the text says why."""


def model_name(name: str) -> str:
    """Return the name when it can be the name of a Model object."""
    if len(name) > _OBJECT_LIMIT or _OBJECT_NAME.match(name) is None:
        raise BadName(
            f"{_shown(name)} is not the name of a model; use lower-case letters, digits, '-' and '.', "
            f"at most {_OBJECT_LIMIT} characters"
        )
    return name


def namespace_name(name: str) -> str:
    """Return the name when it can be the name of a namespace."""
    if len(name) > _LABEL_LIMIT or "." in name or _OBJECT_NAME.match(name) is None:
        raise BadName(f"{_shown(name)} is not the name of a namespace")
    return name


def repository(namespace: str | None, name: str) -> str:
    """Return the repository of a Model, or of a ClusterModel when there is no namespace.

    A result over 100 characters is cut and ends in ``_`` and a hash; object names have no underscore,
    so a cut name never meets another model's name.
    """
    model_name(name)
    whole = f"clustermodels/{name}" if namespace is None else f"models/{namespace_name(namespace)}/{name}"
    if len(whole) <= REPOSITORY_LIMIT:
        return whole
    from hashlib import sha256  # noqa: PLC0415 - loads OpenSSL, which few callers need

    digest = sha256(whole.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{whole[: REPOSITORY_LIMIT - _HASH_LENGTH - 1].rstrip('-./')}_{digest}"


def file_path(path: str) -> str:
    """Return the path of a file inside a model, made relative with forward slashes and composed (NFC).

    Refused: nothing left, ``..``, control characters, a component over 255 bytes, a path over 1,024 bytes
    or 32 levels, and the directory that delivery keeps for itself.
    """
    if len(path) > _UNCOMPOSED_LIMIT:  # composing long runs of marks takes time by the square of their length
        raise BadName(f"{_shown(path)} is longer than {PATH_LIMIT} bytes; shorten it")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in path):
        raise BadName(f"{_shown(path)} has control characters or is no UTF-8; rename the file")
    composed = unicodedata.normalize("NFC", path).replace("\\", "/")
    components = [part for part in composed.split("/") if part not in {"", "."}]
    if not components:
        raise BadName(f"{_shown(path)} names no file")
    if ".." in components:
        raise BadName(f"{_shown(path)} leads out of the model's directory; remove '..'")
    if any(len(part.encode()) > COMPONENT_LIMIT for part in components):
        raise BadName(f"{_shown(path)} has a part over {COMPONENT_LIMIT} bytes; shorten it")
    if len(components) > DEPTH_LIMIT:
        raise BadName(f"{_shown(path)} is deeper than {DEPTH_LIMIT} directories")
    if components[0] == RESERVED:
        raise BadName(f"{_shown(path)} lies in {RESERVED}, which is kept for delivery; rename the directory")
    joined = "/".join(components)
    if len(joined.encode()) > PATH_LIMIT:
        raise BadName(f"{_shown(path)} is longer than {PATH_LIMIT} bytes; shorten it")
    return joined


def file_name(name: str) -> str:
    """Return the name of a single file; a name with directories is refused."""
    path = file_path(name)
    if "/" in path:
        raise BadName(f"{_shown(name)} has directories; give the file's own name")
    return path


def distinct(paths: list[str]) -> None:
    """Refuse paths that are the same on some file system, or a file and a directory at once."""
    seen: dict[str, str] = {}
    for path in paths:
        folded = _folded(path)
        if folded in seen:
            raise BadName(
                f"{_shown(seen[folded])} and {_shown(path)} differ in case or form only; rename one of them"
            )
        seen[folded] = path
    for path in paths:
        folded = _folded(path)
        while "/" in folded:
            folded = folded.rpartition("/")[0]
            if folded in seen:
                raise BadName(f"{_shown(seen[folded])} is a file and a directory at once; rename one of them")


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path.casefold())


def _shown(name: str) -> str:
    """Return the name for an error text: escaped and cut."""
    limit = 120
    return ascii(name if len(name) <= limit else name[:limit] + "...")
