"""The glossary: its terms, and where a page shows their meanings."""

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dplangevin.papers.report import glossary
from dplangevin.papers.report.claims import VERDICTS

ROOT = Path(__file__).parents[3]
MEANINGS = {
    "clip": "Shorten.",
    "proven ε": "Upper bound.",
    "ε": "Loss.",
    "OPS": "One sample.",
    "one sample": "One sample.",
}


def shown(html: str) -> list[tuple[str, str]]:
    """The terms that a page explains, with their meanings; the rest of the page must stay."""
    marked = glossary.marked(html, MEANINGS)
    pattern = r'<abbr class="term" tabindex="0" title="([^"]*)">([^<]*)</abbr>'
    assert re.sub(pattern, r"\2", marked) == html
    return [(term, meaning) for meaning, term in re.findall(pattern, marked)]


def test_the_first_occurrence_in_a_section_has_the_meaning() -> None:
    assert shown(
        "<p>A clip and a clip.</p><h2>Clip</h2><p>Clips &amp; more<br>&#8211; clip</p><!-- clip -->"
    ) == [
        ("clip", "Shorten."),
        ("Clips", "Shorten."),
    ]
    assert shown(
        "<section><p>OPS is one sample.</p></section><section><p>One sample: OPS.</p></section>"
    ) == [
        ("OPS", "One sample."),
        ("One sample", "One sample."),
    ]


def test_the_longest_term_counts_and_parts_of_words_do_not() -> None:
    assert shown("<p>the proven ε, an ε-ball and an ε</p>") == [("proven ε", "Upper bound."), ("ε", "Loss.")]
    assert shown("<p>clipped, un-clip, OPSs, ops</p>") == []


@pytest.mark.parametrize("tag", sorted(glossary.LEFT_OUT))
def test_no_term_is_marked_inside_links_controls_headings_code_numbers_and_quotations(tag: str) -> None:
    assert shown(f'<p><{tag} class="x">clip <b>clip</b></{tag}> ε</p>') == [("ε", "Loss.")]


@pytest.mark.parametrize("name", sorted(glossary.CLASSES))
def test_no_term_is_marked_in_signatures_and_formulas(name: str) -> None:
    assert shown(f'<p><span class="x {name}"><span>clip</span> clip</span> <span>ε</span></p>') == [
        ("ε", "Loss.")
    ]


def test_a_meaning_with_quotes_is_escaped() -> None:
    assert 'title="a &quot;b&quot; &lt;c&gt;"' in glossary.marked("<p>x</p>", {"x": 'a "b" <c>'})


@pytest.mark.parametrize(
    "text", ["# No glossary\n", "```{glossary}\na\n```\n", "```{glossary}\na\n  A.\n\na\n  B.\n```\n"]
)
def test_a_page_without_meanings_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "glossary.md").write_text(text)
    with pytest.raises(ValueError, match="glossary"):
        glossary.read(tmp_path / "glossary.md")


def test_the_terms_are_sorted_and_used_and_have_short_meanings() -> None:
    meanings = glossary.read(ROOT / glossary.PATH)
    sentences = [text for meaning in meanings.values() for text in re.split(r"(?<=[.:]) ", meaning)]
    assert [text for text in sentences if len(text.split()) > 22] == []
    entries = re.findall(
        r"(?:\A|\n\n)(\S.*)", (ROOT / glossary.PATH).read_text().partition("{glossary}\n")[2]
    )
    greek = {"δ": "delta", "ε": "epsilon"}
    assert entries == sorted(entries, key=lambda term: str(greek.get(term, term)).lower())
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name != glossary.PATH.name]
    text = "".join(
        path.read_text() for path in [ROOT / "README.md", *pages, *(ROOT / "conf").rglob("*.yaml")]
    )
    used = {meaning for term, meaning in meanings.items() if term.lower() in text.lower()}
    assert [term for term, meaning in meanings.items() if meaning not in used] == []


def test_verdicts_of_the_papers_claims_have_a_meaning() -> None:
    terms = glossary.read(ROOT / glossary.PATH)
    assert [name for name in list(VERDICTS)[:5] if name not in terms] == []


def test_pages_of_sphinx_show_meanings_except_the_glossary() -> None:
    spec = importlib.util.spec_from_file_location("terms", ROOT / "docs/_site/terms.py")
    assert spec is not None
    assert spec.loader is not None
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    connected: dict[str, Any] = {}
    app = SimpleNamespace(srcdir=ROOT, connect=connected.__setitem__)
    extension.setup(app)
    for page, there in (
        ("docs/library", True),
        ("docs/glossary", False),
        ("docs/api/dplangevin.library", False),
    ):
        context = {"body": "<p>The sensitivity.</p>"}
        connected["html-page-context"](app, page, "page.html", context, None)
        assert ('<abbr class="term"' in context["body"]) == there
    connected["html-page-context"](app, "search", "search.html", context := {}, None)
    assert context == {}
