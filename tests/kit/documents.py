"""The project's Markdown, taken apart: headings, links, code blocks, inline code, tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Document:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """Return the path as a person writes it."""
        return self.path.relative_to(ROOT).as_posix()

    def blocks(self, *languages: str) -> list[str]:
        """Return the code blocks of these languages."""
        return [body for language, body in _FENCE.findall(self.text) if language in languages]

    @property
    def prose(self) -> str:
        """Return the text without code blocks."""
        return _FENCE.sub("", self.text)

    @property
    def links(self) -> list[str]:
        """Return the targets of links."""
        return _LINK.findall(self.prose)

    @property
    def headings(self) -> list[tuple[int, str]]:
        """Return level and text of headings."""
        return [(len(marks), text) for marks, text in _HEADING.findall(self.prose)]

    @property
    def code(self) -> list[str]:
        """Return what stands between backticks."""
        return _CODE.findall(self.prose)

    def anchors(self) -> set[str]:
        """Return the anchors that the headings make."""
        return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for _, text in self.headings}

    def commands(self) -> list[str]:
        """Return the shell lines of code blocks, continued lines joined."""
        joined = [block.replace("\\\n", " ") for block in self.blocks("sh")]
        return [line.strip() for block in joined for line in block.splitlines() if line.strip()]


def documents() -> list[Document]:
    """Return every Markdown file that people read."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("modules/*/docs/*.md")]
    return [Document(path, path.read_text()) for path in sorted(files)]
