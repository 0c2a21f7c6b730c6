"""What Sphinx does not know: links to files of the repository, and one API page for each module.

The site has the folders of the repository. So a link of the repository leads to the same place in the site, except that
Markdown, source and folders are pages there.
"""

import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from importlib import import_module
from pathlib import Path
from shutil import copy2
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import dplangevin

SCHEME = "file-of-repository:"
ROOMS = [
    "library",
    "receipt",
    "estimator",
    "data.encoding",
    "methods",
    "problems",
    "samplers",
    "privacy",
    "attacks",
]
SHOWN = {".bib": "bibtex", ".cff": "yaml", ".json": "json", ".py": "python", ".yaml": "yaml"}  # pages, except
LONG = 100_000  # bytes
SECTIONS = {  # of the menu; the last has the pages that no other names
    "Results": ["findings.md", "networks.md", "verdicts.md"],
    "Report": [],  # the pages of results/report
    "Methods and privacy": ["methods.md", "privacy.md", "guarantees.md"],
    "Use": ["library.md", "audit.md", "data.md", "tutorials/*.md"],
    "Run": ["pipeline.md", "speed.md"],
    "Build": ["design.md"],
    "Reference": ["*.md", "api/index.rst"],
}
Page = tuple[str, dict[str, Any], str]


def write_api(app: Sphinx) -> None:
    """Write docs/api/: a page for each public module of a room, and a table of the names of the package."""
    folder = Path(app.srcdir) / "docs/api"
    folder.mkdir(exist_ok=True)
    modules = []
    for room in ROOMS:
        module = import_module(f"dplangevin.{room}")
        inside = pkgutil.walk_packages(getattr(module, "__path__", []), f"{module.__name__}.")
        modules += [module.__name__, *(each.name for each in inside)]
    pages = {name: f"{name}\n{'=' * len(name)}\n\n.. automodule:: {name}\n" for name in modules}
    names = [
        f"   * - `dplangevin.{name} <{home(name)}>`\n     - {summary(name)}" for name in dplangevin.__all__
    ]
    head = "API reference\n=============\n\nEach name can be imported from ``dplangevin``.\n\n.. list-table::\n\n"
    tree = "\n\nModules\n-------\n\n.. toctree::\n   :maxdepth: 1\n\n   "
    pages["index"] = head + "\n".join(names) + tree + "\n   ".join(modules) + "\n"
    for path in folder.iterdir():
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def home(name: str) -> str:
    """Return the full name of a public name of the package."""
    thing = getattr(dplangevin, name)
    return (
        f"{thing.__module__}.{thing.__name__}"
        if hasattr(thing, "__name__")
        else f"{dplangevin._HOMES[name]}.{name}"
    )


def summary(name: str) -> str:
    """Return the first line of a docstring; of a constant, nothing."""
    thing = getattr(dplangevin, name)
    return (thing.__doc__ or "").partition("\n")[0] if hasattr(thing, "__name__") else ""


def prepare(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give the start page its tables of contents, and mark links that do not lead to Markdown."""
    if docname == app.config.root_doc:
        source[0] += "".join(
            f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(names) + "\n```\n"
            for caption, names in listed(Path(app.srcdir) / "docs").items()
        )
    if app.env.doc2path(docname).suffix == ".md":
        unmarked = r"(?<!!)(\[(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*\]\()(?!#|[a-z]+:|[^)#]*\.md[)#])"
        source[0] = re.sub(unmarked, rf"\1{SCHEME}", source[0])


def listed(docs: Path) -> dict[str, list[str]]:
    """Return the pages of each section; those of the last are all that no other section has."""
    sections: dict[str, list[str]] = {}
    for caption, patterns in SECTIONS.items():
        paths = [path for pattern in patterns for path in sorted(docs.glob(pattern))]
        names = [path.relative_to(docs.parent).with_suffix("").as_posix() for path in paths]
        sections[caption] = [name for name in names if not any(name in each for each in sections.values())]
    report = sorted((docs.parent / "results/report").glob("*.md"))
    sections["Report"] = [path.relative_to(docs.parent).with_suffix("").as_posix() for path in report]
    return sections


def name_types(app: Sphinx, doctree: nodes.document) -> None:
    """Give each type in a signature or docstring its full name; a word that is no type there is text.

    Sphinx would link a word such as "d" to any attribute of this name.
    """
    for name in doctree.findall(nodes.field_name):
        if name.astext() == "Variables":  # napoleon's word
            name.children = [nodes.Text("Attributes")]
    for node in list(doctree.findall(addnodes.pending_xref)):
        if (node.get("refdomain"), node.get("reftype")) == ("py", "class"):
            thing: Any = sys.modules.get(node.get("py:module") or "")
            for part in node["reftarget"].split("."):
                thing = getattr(thing, part, None)
            if isinstance(thing, type):
                node["reftarget"] = f"{thing.__module__}.{thing.__qualname__}"
                node["refspecific"] = False
            elif not node["reftarget"].startswith("dplangevin."):
                node.replace_self(node.children)


class Files:
    """The files and folders that pages link to, and their places in the site."""

    def __init__(self, app: Sphinx) -> None:
        self.app, self.root = app, Path(app.srcdir)
        self.linked: set[Path] = set()

    def place(self, path: Path) -> str:
        """Return the page of a file or folder of the repository."""
        documented = path.with_suffix("") if path.name != "__init__.py" else path.parent
        if path.suffix == ".md":
            return f"{path.with_suffix('')}.html"
        if path.suffix == ".py" and path.parts[:1] == ("src",) and path.parts[2] in {*ROOMS}:
            return f"_modules/{'/'.join(documented.parts[1:])}.html"
        if (self.root / path).is_dir():
            self.linked.add(path)
            return f"{path}/index.html"
        self.linked.add(path)
        return f"{path}.html" if self.shown(path) else str(path)

    def shown(self, path: Path) -> bool:
        """Return whether a file is short text that gets a page of its own."""
        return path.suffix in SHOWN and (self.root / path).stat().st_size < LONG

    def link(self, href: str, page: Path) -> str:
        """Return a link that stands in a page of a folder, as the site has it."""
        target, mark, anchor = href.partition("#")
        path = Path(os.path.normpath(page.parent / target))
        if not target or ":" in target or not (self.root / path).exists():
            return href
        return os.path.relpath(self.place(path), page.parent) + mark + anchor

    def in_document(self, app: Sphinx, doctree: nodes.document) -> None:
        """Send the marked links of a document to pages of the site."""
        page = Path(app.env.doc2path(app.env.docname)).relative_to(self.root)
        for node in doctree.findall(nodes.reference):
            if node.get("refuri", "").startswith(SCHEME):
                node["refuri"] = self.link(node["refuri"].removeprefix(SCHEME), page)

    def pages(self, app: Sphinx) -> Iterator[Page]:
        """Write the files that are linked; yield the pages of folders and of source."""
        for path in sorted(self.linked):
            if (self.root / path).is_dir():
                yield f"{path}/index", {"title": str(path), "body": self.listing(path)}, "page.html"
        for path in sorted(self.linked):
            if (self.root / path).is_dir():
                continue
            if self.shown(path):
                text = (self.root / path).read_text("utf-8")
                code = app.builder.highlighter.highlight_block(text, SHOWN[path.suffix])
                yield (
                    str(path),
                    {"title": str(path), "body": f"<h1>{escape(str(path))}</h1>{code}"},
                    "page.html",
                )
            else:
                copy2(self.root / path, self.target(path))
        yield "index", {}, "start.html"

    def target(self, path: Path) -> Path:
        """Return the place of a file in the site, in a folder that exists."""
        target = Path(self.app.outdir) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def listing(self, folder: Path) -> str:
        """Return a list of the files of a folder as HTML."""
        items = []
        for file in sorted((self.root / folder).rglob("*")):
            if file.is_file():
                href = os.path.relpath(self.place(file.relative_to(self.root)), folder)
                name = escape(str(file.relative_to(self.root / folder)))
                at = ", at the proven ε" if file.stem.endswith("_proven") else ""
                items.append(
                    f'<li><a href="{escape(href)}">{name}</a>{at} {file.stat().st_size:,} bytes</li>'
                )
        return f"<h1>{escape(str(folder))}</h1><ul>{''.join(items)}</ul>"


def plain(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returned: str
) -> Any:
    """Return a signature whose defaults can be parsed, so that its types become links."""
    return (re.sub(r"= ?<[^<>]+>", "=...", signature), returned) if signature else None


class Menus:
    """The menus of pages that no document makes, such as source files: one for each folder, and computed once.

    The menu of a document marks its place.  The menus of other pages in one folder are equal, and the theme would
    compute each of them anew, which took a third of the build.
    """

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def give(self, app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
        if doctree is None and "toctree" in context:
            context["toctree"] = partial(self.menu, page, context["toctree"])

    def menu(self, page: str, compute: Callable[..., str], **options: Any) -> str:
        key = f"{os.path.dirname(page)} {sorted(options.items())}"
        if key not in self.known:
            self.known[key] = compute(**options)
        return self.known[key]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the parts to Sphinx."""
    files = Files(app)
    app.connect("builder-inited", write_api)
    app.connect("autodoc-process-signature", plain)
    app.connect("source-read", prepare)
    app.connect("doctree-read", files.in_document)
    app.connect("doctree-read", name_types)
    app.connect("html-collect-pages", files.pages)
    app.connect("html-page-context", Menus().give, priority=400)  # before the theme
    return {"parallel_read_safe": False}
