"""The terms of docs/glossary.md, and pages in which each term shows its meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from html.parser import HTMLParser
from pathlib import Path

PATH = Path("docs/glossary.md")
# Inside these elements no term shows its meaning: links, controls and headings; code and formulas; tables; quotations
LEFT_OUT = {
    "a", "abbr", "blockquote", "button", "code", "dfn", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head",
    "kbd", "label", "math", "nav", "noscript", "option", "pre", "q", "samp", "script", "select", "style", "summary",
    "svg", "table", "time",
}  # fmt: skip
CLASSES = {"sig", "math"}  # of Sphinx: signatures and formulas
SECTIONS = {"h1", "h2", "section"}  # where one begins, terms show their meanings again


def read(path: Path) -> dict[str, str]:
    """Return the meaning of each term; terms that share an entry have one meaning.

    Raises
    ------
    ValueError
        The page has no glossary, a term twice, or a term without a meaning.
    """
    found = re.search(r"^```\{glossary\}\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"{path} has no block ```{{glossary}}")
    meanings: dict[str, str] = {}
    for entry in re.split(r"\n\s*\n", found[1].strip("\n")):
        lines = entry.splitlines()
        terms = [line.strip() for line in lines if not line.startswith(" ")]
        meaning = " ".join(line.strip() for line in lines if line.startswith(" "))
        if not terms or not meaning or set(terms) & set(meanings):
            raise ValueError(f"{path}: a term is there twice, or has no meaning: {', '.join(terms)}")
        meanings |= dict.fromkeys(terms, meaning)
    return meanings


def marked(html: str, meanings: Mapping[str, str]) -> str:
    """Return a page in which the first occurrence of a term in each section shows the term's meaning.

    The meaning is the title of an `abbr` that the keyboard reaches. Every other byte of the page stays.

    Parameters
    ----------
    html : str
        A page or a part of one.
    meanings : mapping of str to str
        As from `read`.
    """
    marker = _Marker(meanings)
    marker.feed(html)
    marker.close()
    return "".join(marker.parts)


def _pattern(term: str) -> str:
    """Return the regular expression of a term; a plain word may begin with a capital and may have a plural."""
    if not re.fullmatch(r"[a-z][-a-z ]{3,}", term):
        return re.escape(term)
    return f"[{term[0].upper()}{term[0]}]{re.escape(term[1:])}s?"


class _Marker(HTMLParser):
    """Copies a page and marks its terms."""

    def __init__(self, meanings: Mapping[str, str]) -> None:
        super().__init__(convert_charrefs=False)
        self.meanings = {term.lower(): meaning for term, meaning in meanings.items()}
        patterns = "|".join(_pattern(term) for term in sorted(meanings, key=len, reverse=True))
        self.terms = re.compile(rf"(?<![\w-])(?:{patterns})(?![\w-])")
        self.parts: list[str] = []
        self.inside: list[str] = []  # open elements that are left out
        self.shown: set[str] = set()  # meanings that this section has

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(self.get_starttag_text() or "")
        if tag in SECTIONS:
            self.shown = set()
        classes = set((dict(attrs).get("class") or "").split())
        if tag in LEFT_OUT or classes & CLASSES or self.inside[-1:] == [tag]:
            self.inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(f"</{tag}>")
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        self.parts.append(data if self.inside else self.terms.sub(self._shown, data))

    def handle_entityref(self, name: str) -> None:
        self.parts.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.parts.append(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        self.parts.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.parts.append(f"<!{decl}>")

    def _shown(self, found: re.Match[str]) -> str:
        """Return a term with its meaning if the section does not have this meaning yet, else the term."""
        name = found[0].lower()
        meaning = self.meanings.get(name) or self.meanings[name.removesuffix("s")]
        if meaning in self.shown:
            return found[0]
        self.shown.add(meaning)
        return f'<abbr class="term" tabindex="0" title="{escape(meaning)}">{found[0]}</abbr>'
