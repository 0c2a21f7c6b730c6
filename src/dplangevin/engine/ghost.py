"""Norms of the gradients of single examples, from the inputs and output gradients of a layer.

A layer computes ``y_t = W a_t + b`` at T places of each example, such as the pixels of a convolution's output.  Let
g be the gradient in y.  Then the gradient of example i is::

    dW_i = sum_t g_it a_it^T  (p, D),   db_i = sum_t g_it

Either dW_i is written out, or its norm comes from the Gram form ``||dW_i||^2 = sum_{t,t'} (a_it . a_it') (g_it .
g_it')`` (Goodfellow 2015, arXiv 1510.01799; Li et al. 2022, arXiv 2110.05679).  Then a second product of the same
tensors computes the weighted sum (Bu et al. 2022, arXiv 2210.00038).
"""

import torch
from torch import Tensor

SLACK = 4  # rounding errors by which a norm of the Gram form is raised


def gram_is_cheaper(places: int, inputs: int, outputs: int) -> bool:
    """Return True if the Gram form costs less than writing the gradients out, for T places, D inputs and p outputs.

    The Gram form takes ``2 T^2 (D + p)`` multiplications, because double precision costs twice, and ``T D p`` for
    the library's own weight gradient, which is about twice as fast as batched products.  Writing out takes ``T D
    p`` in batched products, and some ten times ``D p`` for memory.
    """
    return 2 * places**2 * (inputs + outputs) < inputs * outputs * (places / 2 + 10)


def squared_norms(rows: Tensor) -> Tensor:
    """Return the squared norms ``(n,)`` of the n entries of rows ``(n, ...)``."""
    return torch.linalg.vector_norm(rows.flatten(1), dim=1).square_()


def gram_squared_norms(a: Tensor, g: Tensor) -> Tensor:
    """Return ``||sum_t g_t a_t^T||^2`` for n examples, ``(n,)``, from a (n, T, D) and g (n, T, p).

    The products are in float64, because terms may cancel.  A sum that is made from the same tensors may have a
    rounding error of ``eps sum_t ||a_t|| ||g_t||``.  The norm is raised by `SLACK` times this error, so that the
    contribution of an example stays within the clip.
    """
    wide_a, wide_g = a.double(), g.double()
    aa, gg = wide_a @ wide_a.mT, wide_g @ wide_g.mT
    size = (aa.diagonal(dim1=1, dim2=2) * gg.diagonal(dim1=1, dim2=2)).sqrt_().sum(1)
    norm = aa.mul_(gg).sum((1, 2)).clamp_(min=0).sqrt_()
    return norm.add_(size, alpha=SLACK * torch.finfo(a.dtype).eps).square_().to(a.dtype)
