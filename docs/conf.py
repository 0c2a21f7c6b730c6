"""Sphinx: the site of README.md, docs/, the docstrings and results/report. `make site` builds it, from the root."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs/_site")]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def git(*command: str) -> str:
    """Return what git prints in this checkout, or "unknown" outside of one."""
    done = subprocess.run(("git", *command), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def manifests() -> str:
    """Return the first digits of the SHA-256 of data/manifest: names and contents, in order."""
    digest = sha256()
    for path in sorted((ROOT / "data/manifest").rglob("*.json")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


project = "dplangevin"
author = ", ".join(each["name"] for each in CITATION["authors"])
version = release = str(CITATION["version"])
html_context = {
    "commit": git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"),
    "committed": git("log", "-1", "--format=%cs"),
    "manifests": manifests(),
    "citation": CITATION,
}

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.githubpages",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
    "pages",  # docs/_site/pages.py
]
root_doc = "README"
include_patterns = [
    "*.md",
    "docs/**",
    "benchmarks/*.md",
    "data/bundled/README.md",
    "results/exhibits/**.md",
    "results/report/*.md",
]
exclude_patterns = [".*", "build", "docs/_site"]

myst_heading_anchors = 4
myst_enable_extensions = ["fieldlist"]
myst_url_schemes = ["http", "https", "mailto", "file-of-repository"]
suppress_warnings = ["toc.not_included"]  # tables of results: reports and pages link to them
bibtex_bibfiles = ["references.bib"]
copybutton_prompt_text = "$ "

default_role = "py:obj"
autodoc_default_options = {
    "members": True,
    "ignore-module-all": True,  # a name has one place: the module that defines it
    "exclude-members": "set_fit_request, set_score_request",  # scikit-learn writes them
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"dplangevin {release}"
html_baseurl = ""
html_copy_source = False
html_show_copyright = False
templates_path = ["_site"]
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_sidebars = {
    "**": [
        *(f"sidebar/{name}.html" for name in ("brand", "search", "scroll-start")),
        "menu.html",
        "sidebar/scroll-end.html",
    ]
}
