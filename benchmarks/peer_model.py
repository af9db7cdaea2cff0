"""The module and the data that every way of `peers.py` trains; needs torch only.

A decoder with rotary positions, grouped as the reference model of this project and of
version 2.0 is: RMSNorm, attention without biases, SwiGLU, tied head.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset

VOCABULARY = 256
SIZES: dict[str, dict[str, int]] = {
    "0.1M": dict(n_layer=2, n_head=2, d_model=64, tokens=64, rows=4),
    "0.8M": dict(n_layer=4, n_head=4, d_model=128, tokens=64, rows=12),
    "10M": dict(n_layer=6, n_head=6, d_model=384, tokens=128, rows=8),
}


class Block(nn.Module):
    """Attention and SwiGLU, each behind a norm and beside a residual."""

    def __init__(self, d_model: int, n_head: int) -> None:
        super().__init__()
        width = -(-int(4 * d_model * 2 / 3) // n_head) * n_head
        self.n_head = n_head
        self.ln1 = nn.RMSNorm(d_model, eps=1e-5)
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.ln2 = nn.RMSNorm(d_model, eps=1e-5)
        self.gate_proj = nn.Linear(d_model, width, bias=False)
        self.up_proj = nn.Linear(d_model, width, bias=False)
        self.down_proj = nn.Linear(width, d_model, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """float[B, T, D] to the same."""
        normed = self.ln1(x)
        q, k, v = (
            layer(normed).unflatten(-1, (self.n_head, -1)).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = F.scaled_dot_product_attention(
            rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True
        )
        x = x + self.out_proj(attended.transpose(1, 2).flatten(-2))
        normed = self.ln2(x)
        gated = F.silu(self.gate_proj(normed)) * self.up_proj(normed)
        result: Tensor = x + self.down_proj(gated)
        return result


class PeerModel(nn.Module):
    """Logits of the next token at every position."""

    cos: Tensor
    sin: Tensor

    def __init__(self, n_layer: int, n_head: int, d_model: int, tokens: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_head) for _ in range(n_layer))
        self.ln_f = nn.RMSNorm(d_model, eps=1e-5)
        half = d_model // n_head // 2
        rates = 10000.0 ** -(torch.arange(half) / half)
        angles = torch.outer(torch.arange(tokens).float(), rates)
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([-angles.sin(), angles.sin()], -1))

    def forward(
        self, input_ids: Tensor, labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """i64[B, T] to float[B, T, V]; the loss is the caller's."""
        del labels
        x = self.wte(input_ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return {"logits": F.linear(self.ln_f(x), self.wte.weight)}


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs of float[..., T, E] by their position's angle."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


def build(size: str) -> PeerModel:
    """The module of a size; its weights are the same in every process."""
    shape = {name: value for name, value in SIZES[size].items() if name != "rows"}
    with torch.random.fork_rng():
        model = PeerModel(**shape)
        generator = torch.Generator().manual_seed(0)
        for parameter in model.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02, generator=generator)
    return model


class Rows(Dataset[Any]):
    """Rows of made up text, in which each token depends on the one before."""

    def __init__(self, size: str, count: int = 4096) -> None:
        tokens = SIZES[size]["tokens"]
        generator = torch.Generator().manual_seed(1)
        steps = torch.randint(7, (count, tokens + 1), generator=generator)
        self.ids = steps.cumsum(-1) % VOCABULARY

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.ids[index, :-1], self.ids[index, 1:]


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The usual one."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())
