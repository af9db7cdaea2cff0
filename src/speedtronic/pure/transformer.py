"""The reference transformer: decoder-only, the Llama architecture.

RMSNorm (arXiv:1910.07467), rotary positions in the rotate-half layout
(arXiv:2104.09864), grouped-query attention (arXiv:2305.13245), SwiGLU
(arXiv:2002.05202), no biases, embedding and head tied by default.

B batch, T tokens, D width, H heads, K key and value heads, E head width,
F feed-forward width, V vocabulary.

The modules hold parameters and their names; the arithmetic of a block is a function
of its weights, so that activation checkpointing can run it again. Deliberately absent:
a key-value cache, dropout inside attention, position tables that grow.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from speedtronic.pure.config.model import Model
from speedtronic.pure.loss import chunked_cross_entropy_sum
from speedtronic.pure.recompute import recomputed

NORM_EPS = 1e-5
INIT_STD = 0.02


def feed_forward_width(d_model: int, d_ff: int | None, n_head: int) -> int:
    """Two thirds of ``d_ff`` (default: 4 ``d_model``), up to a multiple of ``n_head``.

    Two thirds, because SwiGLU has three matrices where a plain layer has two.

    >>> feed_forward_width(256, None, 8)
    688
    """
    wanted = 2 * (4 * d_model if d_ff is None else d_ff) // 3
    return max(1, -(-wanted // n_head)) * n_head


class Transformer(nn.Module):
    """A causal language model; its arguments are the fields of the model section.

    Args:
        vocab_size: number of token ids.
        max_seq_len: longest sequence.
        n_layer: blocks.
        n_head: heads; divides ``d_model``.
        n_kv_head: key and value heads (default: ``n_head``); divides ``n_head``.
        d_model: width.
        d_ff: feed-forward width before the 2/3 rule (default: 4 ``d_model``).
        dropout: rate after the embedding and on both branches of a block.
        tie_weights: use the embedding as the head.
        rope_base: base of the rotary frequencies.
        gradient_checkpointing: recompute each block in the backward pass.
        loss_chunk_size: rows of logits that exist at a time when labels are given.
        seed: of the initial weights, normal with standard deviation 0.02. They are
            the same on any CPU and no global generator is touched.

    Raises:
        ValueError: for shapes that do not fit together, or a bad value.

    >>> model = Transformer(vocab_size=16, n_layer=1, n_head=2, d_model=8)
    >>> model(torch.zeros(1, 4, dtype=torch.int64))["logits"].shape
    torch.Size([1, 4, 16])
    """

    rope_cos: Tensor
    rope_sin: Tensor

    def __init__(
        self,
        vocab_size: int = 512,
        max_seq_len: int = 128,
        n_layer: int = 4,
        n_head: int = 8,
        n_kv_head: int | None = None,
        d_model: int = 256,
        d_ff: int | None = None,
        dropout: float = 0.0,
        tie_weights: bool = True,
        rope_base: float = 10000.0,
        gradient_checkpointing: bool = False,
        loss_chunk_size: int | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.config = Model(
            vocab_size=vocab_size,
            max_seq_len=max_seq_len,
            n_layer=n_layer,
            n_head=n_head,
            n_kv_head=n_kv_head,
            d_model=d_model,
            d_ff=d_ff,
            dropout=dropout,
            tie_weights=tie_weights,
            rope_base=rope_base,
            gradient_checkpointing=gradient_checkpointing,
            loss_chunk_size=loss_chunk_size,
        )
        _check_heads(d_model, n_head, n_kv_head)
        self.gradient_checkpointing = gradient_checkpointing
        generator = torch.Generator().manual_seed(seed)
        self.transformer = _Body(self.config, generator)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, device="meta")
        self.lm_head.weight = (
            self.transformer.wte.weight
            if tie_weights
            else _normal(vocab_size, d_model, generator)
        )
        cos, sin = rope_tables(max_seq_len, d_model // n_head, rope_base)
        self.register_buffer("rope_cos", cos, persistent=False)
        self.register_buffer("rope_sin", sin, persistent=False)

    def set_gradient_checkpointing(self, enabled: bool) -> None:
        """Recompute each block in the backward pass, or keep what it needs."""
        self.gradient_checkpointing = enabled

    def forward(
        self,
        input_ids: Tensor,
        labels: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Predict the next token at every position.

        Args:
            input_ids: i64[B, T] in [0, V).
            labels: i64[B, T], already shifted, -100 ignored. Used only with
                ``loss_chunk_size``; without it the loss is the caller's.
            attention_mask: bool or int [B, T], true where there is a token. None
                means everywhere, and is faster than a mask of ones. Padding on the
                right needs none: no token looks to its right.

        Returns:
            ``{"logits": float[B, T, V]}``; with labels and ``loss_chunk_size``
            ``{"loss_sum": f32[], "count": f32[]}``, and logits never exist.

        Raises:
            ValueError: for a sequence longer than ``max_seq_len``.
        """
        hidden = self._hidden(input_ids, attention_mask)
        chunk_size = self.config.loss_chunk_size
        # By name, since a move to another device can part two tied parameters.
        tied = self.config.tie_weights
        head = (self.transformer.wte if tied else self.lm_head).weight
        if labels is None or chunk_size is None:
            return {"logits": F.linear(hidden, head)}
        loss_sum, count = chunked_cross_entropy_sum(hidden, head, labels, chunk_size)
        return {"loss_sum": loss_sum, "count": count}

    def _hidden(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """The last block's output after the final norm, float[B, T, D]."""
        length, longest = input_ids.shape[-1], self.config.max_seq_len
        if length > longest:
            raise ValueError(
                f"the sequence has {length} tokens, max_seq_len is {longest}"
            )
        mask = None if attention_mask is None else _causal_mask(attention_mask)
        cos, sin = self.rope_cos[:length], self.rope_sin[:length]
        block = _recomputed_block if self.gradient_checkpointing else _block
        x = self.transformer.drop(self.transformer.wte(input_ids))
        for layer in self.transformer.layers():
            factors = layer.dropout_factors(x)
            x = block(x, cos, sin, mask, *factors, *layer.weights())
        return _norm(x, self.transformer.ln_f.weight)


def rope_tables(length: int, width: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines of the rotary angles, both f32[length, width].

    The sine of the first half is negative, so that a rotation is
    ``x * cos + roll(x) * sin`` with a roll by half the width.

    >>> cos, sin = rope_tables(2, 2, 10000.0)
    >>> sin[1]
    tensor([-0.8415,  0.8415])
    """
    exponents = torch.arange(0, width, 2, dtype=torch.float32) / width
    positions = torch.arange(length, dtype=torch.float32)
    angles = torch.outer(positions, 1.0 / base**exponents)
    # Through float64, so that rounding hides which CPU's sine it was.
    cos = angles.to(torch.float64).cos().to(torch.float32)
    sin = angles.to(torch.float64).sin().to(torch.float32)
    return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)


def _block(
    x: Tensor,  # float[B, T, D]
    cos: Tensor,  # f32[T, E]
    sin: Tensor,  # f32[T, E]
    mask: Tensor | None,  # bool[B, 1, T, T]
    attention_factor: Tensor | None,  # float[B, T, D], of dropout
    mixing_factor: Tensor | None,  # float[B, T, D], of dropout
    ln1: Tensor,  # f32[D]
    q_proj: Tensor,  # f32[D, D]
    k_proj: Tensor,  # f32[K * E, D]
    v_proj: Tensor,  # f32[K * E, D]
    out_proj: Tensor,  # f32[D, D]
    ln2: Tensor,  # f32[D]
    gate_proj: Tensor,  # f32[F, D]
    up_proj: Tensor,  # f32[F, D]
    down_proj: Tensor,  # f32[D, F]
) -> Tensor:
    normed = _norm(x, ln1)
    q, k, v = (
        torch.unflatten(F.linear(normed, weight), -1, (-1, cos.shape[-1]))
        for weight in (q_proj, k_proj, v_proj)
    )
    attended = F.scaled_dot_product_attention(
        _rotate(q.transpose(-2, -3), cos, sin),
        _rotate(k.transpose(-2, -3), cos, sin),
        v.transpose(-2, -3),
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=k_proj.shape != q_proj.shape,
    )
    y = F.linear(attended.transpose(-2, -3).flatten(-2), out_proj)
    x = x + (y if attention_factor is None else y * attention_factor)
    normed = _norm(x, ln2)
    gated = F.silu(F.linear(normed, gate_proj)) * F.linear(normed, up_proj)
    y = F.linear(gated, down_proj)
    return x + (y if mixing_factor is None else y * mixing_factor)


_recomputed_block = recomputed(
    _block, constants=("cos", "sin", "mask", "attention_factor", "mixing_factor")
)


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, NORM_EPS)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (i, i + E/2) of float[..., T, E] by its position's angle."""
    turned = torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)
    return turned.to(x.dtype)


def _causal_mask(attention_mask: Tensor) -> Tensor:
    """bool[B, 1, T, T]: earlier tokens that exist, and always the position itself.

    A row without any key would be 0/0 in some attention kernels.
    """
    length = attention_mask.shape[-1]
    position = torch.arange(length, device=attention_mask.device)
    earlier = position[:, None] >= position
    itself = position[:, None] == position
    exists = attention_mask.to(torch.bool)[:, None, None, :]
    return (earlier & exists) | itself


class _Body(nn.Module):
    """Embedding, blocks and final norm: the names below ``transformer``."""

    def __init__(self, config: Model, generator: torch.Generator) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.d_model, device="meta")
        self.wte.weight = _normal(config.vocab_size, config.d_model, generator)
        self.drop = nn.Dropout(config.dropout)
        layers = [_Block(config, generator) for _ in range(config.n_layer)]
        self.h = nn.ModuleList(layers)
        self.ln_f = nn.RMSNorm(config.d_model, eps=NORM_EPS)

    def layers(self) -> "Iterator[_Block]":
        yield from self.h  # type: ignore[misc]


class _Block(nn.Module):
    def __init__(self, config: Model, generator: torch.Generator) -> None:
        super().__init__()
        self.ln1 = nn.RMSNorm(config.d_model, eps=NORM_EPS)
        self.attn = _Attention(config, generator)
        self.attn_drop = nn.Dropout(config.dropout)
        self.ln2 = nn.RMSNorm(config.d_model, eps=NORM_EPS)
        self.mlp = _FeedForward(config, generator)
        self.mlp_drop = nn.Dropout(config.dropout)
        self.drops = config.dropout > 0

    def weights(self) -> tuple[Tensor, ...]:
        """In the order in which `_block` takes them."""
        attn, mlp = self.attn, self.mlp
        return (
            self.ln1.weight,
            attn.q_proj.weight,
            attn.k_proj.weight,
            attn.v_proj.weight,
            attn.out_proj.weight,
            self.ln2.weight,
            mlp.gate_proj.weight,
            mlp.up_proj.weight,
            mlp.down_proj.weight,
        )

    def dropout_factors(self, x: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """What the two branches are multiplied with, drawn outside the block.

        So a recomputed block meets the same factors, whatever random source is behind
        the dropout modules.
        """
        if not (self.training and self.drops):
            return None, None
        ones = torch.ones_like(x)
        return self.attn_drop(ones), self.mlp_drop(ones)


class _Attention(nn.Module):
    def __init__(self, config: Model, generator: torch.Generator) -> None:
        super().__init__()
        d_model, n_head = config.d_model, config.n_head
        kv_head = n_head if config.n_kv_head is None else config.n_kv_head
        kv_width = d_model // n_head * kv_head
        self.q_proj = _linear(d_model, d_model, generator)
        self.k_proj = _linear(d_model, kv_width, generator)
        self.v_proj = _linear(d_model, kv_width, generator)
        self.out_proj = _linear(d_model, d_model, generator)


class _FeedForward(nn.Module):
    def __init__(self, config: Model, generator: torch.Generator) -> None:
        super().__init__()
        width = feed_forward_width(config.d_model, config.d_ff, config.n_head)
        self.gate_proj = _linear(config.d_model, width, generator)
        self.up_proj = _linear(config.d_model, width, generator)
        self.down_proj = _linear(width, config.d_model, generator)


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A layer without bias; built on meta, since nn.Linear draws globally."""
    layer = nn.Linear(inputs, outputs, bias=False, device="meta")
    layer.weight = _normal(outputs, inputs, generator)
    return layer


def _normal(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    """f32[rows, columns], drawn in float64: its kernel is the same on every CPU."""
    noise = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    return nn.Parameter((INIT_STD * noise).to(torch.float32))


def _check_heads(d_model: int, n_head: int, n_kv_head: int | None) -> None:
    if d_model % n_head:
        raise ValueError(f"n_head {n_head} does not divide d_model {d_model}")
    if d_model // n_head % 2:
        raise ValueError(
            f"d_model {d_model} / n_head {n_head} is odd, rotary positions need pairs"
        )
    if n_kv_head is not None and n_head % n_kv_head:
        raise ValueError(f"n_kv_head {n_kv_head} does not divide n_head {n_head}")
