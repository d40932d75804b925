"""Modules stay under 300 lines and functions under 40; exceptions stand here with their reason."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MODULE_LINES = 300
FUNCTION_LINES = 40
ROOTS = ("src", "devcluster", "images", "tools")
#: path or path:function -> why it is longer
ALLOWED: dict[str, str] = {}


def main() -> int:
    """Print every module or function over its limit; return 1 when there is one."""
    problems = [
        problem
        for root in ROOTS
        for path in sorted(Path(root).rglob("*.py"))
        if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
        for problem in _problems(path)
    ]
    for problem in problems:
        print(problem)
    return bool(problems)


def _problems(path: Path) -> list[str]:
    text = path.read_text()
    lines = text.count("\n")
    found = []
    if lines > MODULE_LINES and str(path) not in ALLOWED:
        found.append(f"{path}: {lines} lines, at most {MODULE_LINES}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - _body_start(node)
            name = f"{path}:{node.name}"
            if length > FUNCTION_LINES and name not in ALLOWED:
                found.append(f"{name}: {length} lines, at most {FUNCTION_LINES}")
    return found


def _body_start(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line before the code: a docstring does not count as length."""
    first = node.body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return first.end_lineno or first.lineno
    return first.lineno - 1


if __name__ == "__main__":
    sys.exit(main())
