"""Norms of the gradients of single examples, from what a layer saw.

Where a layer computes ``y_t = W a_t + b`` at T places of each example (T = 1: a linear layer on a vector; the pixels of
a convolution's output, whose a_t are then the columns of its input), the gradient of example i is, for g the gradient
in y::

    dW_i = sum_t g_it a_it^T  (p, D),   db_i = sum_t g_it

Either it is written out, and the products of the weight gradient serve the norms too; or it never is, by
``||dW_i||^2 = sum_{t,t'} (a_it . a_it') (g_it . g_it')``, the Gram form, and the sum is left to a second product
(Goodfellow 2015, arXiv 1510.01799; Li et al. 2022, arXiv 2110.05679).  That sum takes the same tensors again instead
of a second backward pass: the book-keeping of Bu et al. (2022, arXiv 2210.00038).
"""

import torch
from torch import Tensor

SLACK = 4  # roundings that a norm of the Gram form is raised by


def gram_is_cheaper(places: int, inputs: int, outputs: int) -> bool:
    """Whether the Gram form costs less than gradients written out, for T places, D inputs and p outputs.

    Multiplications: ``2 T^2 (D + p)``, as double precision costs twice, and ``T D p`` by a library's own weight
    gradient at about twice the speed of batched products, against ``T D p`` of those and some ten times ``D p`` for
    writing gradients, reading them for the norm and again for the sum.
    """
    return 2 * places**2 * (inputs + outputs) < inputs * outputs * (places / 2 + 10)


def squared_norms(rows: Tensor) -> Tensor:
    """Squared norms of the n entries of (n, ...), (n,)."""
    return torch.linalg.vector_norm(rows.flatten(1), dim=1).square_()


def gram_squared_norms(a: Tensor, g: Tensor) -> Tensor:
    """``||sum_t g_t a_t^T||^2`` of n examples, (n,).  a: (n, T, D).  g: (n, T, p).

    Products in float64, because terms may cancel.  The norm is raised by `SLACK` times the rounding that a sum made of
    the same tensors may have, ``eps sum_t ||a_t|| ||g_t||``, so that what is contributed stays within the clip.
    """
    wide_a, wide_g = a.double(), g.double()
    aa, gg = wide_a @ wide_a.mT, wide_g @ wide_g.mT
    size = (aa.diagonal(dim1=1, dim2=2) * gg.diagonal(dim1=1, dim2=2)).sqrt_().sum(1)
    norm = aa.mul_(gg).sum((1, 2)).clamp_(min=0).sqrt_()
    return norm.add_(size, alpha=SLACK * torch.finfo(a.dtype).eps).square_().to(a.dtype)
