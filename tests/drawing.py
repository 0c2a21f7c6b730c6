"""Exhibits of the configuration, and what a figure says."""

from pathlib import Path

from matplotlib.figure import Figure
from omegaconf import DictConfig, OmegaConf

CONF = Path(__file__).parents[1] / "conf"


def exhibit(name: str) -> DictConfig:
    """conf/exhibit/<name>.yaml."""
    cfg = OmegaConf.load(CONF / f"exhibit/{name}.yaml")
    assert isinstance(cfg, DictConfig)
    return cfg


def captions(figure: Figure) -> str:
    """All text outside of the panels."""
    return "\n".join(text.get_text() for text in figure.texts)


def legend_texts(figure: Figure) -> list[str]:
    """The labels of the figure's legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def outside(figure: Figure) -> list[str]:
    """Title, caption and legend entries that a drawn figure cuts off at its left or right edge."""
    texts = [*figure.texts, *(text for of in figure.legends for text in of.get_texts())]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [text for text, box in boxes if box.x0 < -1 or box.x1 > figure.bbox.x1 + 1]
