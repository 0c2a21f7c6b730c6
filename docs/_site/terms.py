"""Sphinx extension: the terms of docs/glossary.md show their meanings on every other page of words."""

from pathlib import Path
from typing import Any

from dplangevin.papers.report import glossary


def setup(app: Any) -> dict[str, bool]:
    """Connect the extension."""
    app.connect("html-page-context", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mark(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Mark the terms in the body of a page; the reference of the API and the glossary stay as they are."""
    if not context.get("body") or page == str(glossary.PATH.with_suffix("")) or page.startswith("docs/api/"):
        return
    context["body"] = glossary.marked(context["body"], glossary.read(Path(app.srcdir) / glossary.PATH))
