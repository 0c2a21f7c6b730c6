"""The parts that the blocks of the residual networks share (He et al. 2016, figure 2 left)."""

from collections.abc import Callable

from torch import Tensor, nn


class Residual(nn.Module):
    """Two 3x3 convolutions beside a shortcut: a 1x1 convolution where the shape changes, otherwise the identity."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride > 1 or before != channels:
            self.shortcut.append(nn.Conv2d(before, channels, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(channels))

    def added(self, x: Tensor) -> Tensor:
        """Return ``bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)``."""
        inner = self.bn1(self.conv1(x)).relu()
        total: Tensor = self.bn2(self.conv2(inner)) + self.shortcut(x)
        return total


def stage(
    block: Callable[[int, int, int], Residual], blocks: int, before: int, channels: int, stride: int
) -> nn.Sequential:
    """Return blocks one after the other; the first changes the channels and has the stride."""
    first = block(before, channels, stride)
    return nn.Sequential(first, *(block(channels, channels, 1) for _ in range(blocks - 1)))
