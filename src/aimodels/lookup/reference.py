"""Which model is asked about, from the parameters of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aimodels.api.model import ClusterModel, Model
from aimodels.lookup.refusals import invalid
from modelkit.names import BadName, model_name, namespace_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aimodels.api.model import AnyModel

PARAMETERS = ("kind", "namespace", "name")


@dataclass(frozen=True)
class Reference:
    """One model; a ClusterModel's namespace is empty."""

    struct: type[AnyModel]
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.struct.KIND.name} {place}{self.name}"


def read(parameters: Sequence[tuple[str, str]]) -> Reference:
    """Return the model that the parameters name; ``Problem`` 400 when they name none."""
    given = dict(parameters)
    if len(given) < len(parameters):
        raise invalid("a parameter is given twice")
    if not given.keys() <= set(PARAMETERS):
        raise invalid(f"only {', '.join(PARAMETERS)} are parameters here")
    structs: dict[str, type[AnyModel]] = {one.KIND.name: one for one in (Model, ClusterModel)}
    struct = structs.get(given.get("kind", ""))
    if struct is None:
        raise invalid("kind is neither Model nor ClusterModel")
    namespace = given.get("namespace", "")
    if bool(namespace) is not struct.KIND.namespaced:
        raise invalid("a Model needs a namespace" if not namespace else "a ClusterModel has no namespace")
    try:
        return Reference(struct, namespace and namespace_name(namespace), model_name(given.get("name", "")))
    except BadName as error:
        raise invalid(str(error)) from error
