"""Sphinx extension: the terms of glossary.md show their meanings on every other page."""

from pathlib import Path
from typing import Any

from dplangevin.papers.report import glossary

STYLE = """<style>
.term { text-decoration: underline dotted; cursor: help; }
.term:focus::after { content: attr(title); position: fixed; left: 1rem; right: 1rem; bottom: 1rem; z-index: 99;
  max-width: 44rem; padding: .7rem 1rem; background: Canvas; color: CanvasText; border: 1px solid GrayText; }
</style>"""


def setup(app: Any) -> dict[str, bool]:
    """Connect the extension."""
    app.connect("html-page-context", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mark(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Mark the terms in the body of a page."""
    if context.get("body") and page != glossary.PATH.stem:
        meanings = glossary.read(Path(app.srcdir) / glossary.PATH.name)
        context["body"] = glossary.marked(context["body"], meanings)
        context["metatags"] = context.get("metatags", "") + STYLE
