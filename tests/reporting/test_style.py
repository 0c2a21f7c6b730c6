"""Looks of methods, also of those that LOOKS does not know, and figures as bytes."""

import pytest
from drawing import CONF, outside
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from omegaconf import OmegaConf

from dplangevin.reporting import style, words


def test_looks_differ_in_colour_and_marker() -> None:
    """Within every panel of the configuration; over all methods, in one of the two."""
    names = [
        name for name in words.LOOKS if name not in ("nonprivate", "sgld", "majority") and ":" not in name
    ]
    private = [words.look(name) for name in names]
    assert len({(look.colour, look.marker) for look in private}) == len(private)
    drawn = [OmegaConf.load(path).draw for path in CONF.glob("exhibit/*.yaml")]
    panels = [draw.methods for draw in drawn if "methods" in draw]
    for panel in OmegaConf.load(CONF / "exhibit/li2019_fig3.yaml").draw.panels:
        panels.append([mark.method for mark in panel.marks if not mark.get("level")])
    for panel in panels:
        looks = [words.look(method) for method in panel]
        assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(panel)


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_same_input_gives_the_same_bytes(kind: str) -> None:
    drawn = [
        style.image_bytes(style.lay_out(Figure(), "t", "text", [Line2D([], [], label="l")]), kind)
        for _ in range(2)
    ]
    assert drawn[0] == drawn[1]
    assert b"CreationDate" not in drawn[0]


def test_a_line_of_a_caption_ends_at_the_edge_or_with_a_sentence() -> None:
    text = f"{'A sentence of this caption is long. ' * 5}Its last one is broken\nby hand.\nAnother begins a line."
    figure = style.lay_out(Figure(figsize=(7, 4)), "t", text, [])
    *lines, last = figure.texts[0].get_text().splitlines()
    assert "broken by hand." in " ".join(lines)
    assert last == "Another begins a line."
    figure.draw_without_rendering()
    assert outside(figure) == []


def test_no_two_kinds_of_price_share_a_mark() -> None:
    assert len({(of.colour, of.marker) for of in words.PRICES.values()}) == len(words.PRICES)
