"""Floating-point operations of training, and what share of a device's they are.

The count is that of the model, as PaLM counts it (arXiv:2204.02311, appendix B): two
operations per weight and token for each product, three products per weight (one
forward, two backward). Norms, activations and the optimizer count as nothing, and so
does what is computed again for activation checkpoints. So the share of a device's peak
says how much of it is used for the model, whatever a program does beside.
"""

from speedtronic.pure.config import Config, Model
from speedtronic.pure.config.fields import value_at
from speedtronic.pure.config.model import REFERENCE_MODELS
from speedtronic.pure.transformer import feed_forward_width


def flops_per_token(config: Config, parameters: int) -> int:
    """Operations per trained token, forward and backward.

    For the reference model `transformer_flops_per_token`; for any other six per
    parameter, which leaves out attention and counts embeddings as products.

    Args:
        config: of the run.
        parameters: numbers that are trained; the reference model needs none.

    >>> flops_per_token(Config(model=Model(name="tiny:build")), parameters=1000)
    6000
    """
    if config.model.name not in REFERENCE_MODELS:
        return 6 * parameters
    block = value_at(config, "data.block_size")
    length = config.model.max_seq_len if block is None else block
    return transformer_flops_per_token(config.model, length)


def transformer_flops_per_token(model: Model, sequence: int) -> int:
    """Of the reference transformer: its products, and attention over whole rows.

    Attention is not halved for causality. The embedding is a look-up and costs nothing;
    the head is a product, tied or not.

    Args:
        model: its section of the config.
        sequence: tokens per row.

    >>> small = Model(vocab_size=256, n_layer=4, n_head=4, d_model=128)
    >>> transformer_flops_per_token(small, sequence=128)
    5726208
    """
    width = feed_forward_width(model.d_model, model.d_ff, model.n_head)
    kv_head = model.n_head if model.n_kv_head is None else model.n_kv_head
    kv_width = model.d_model // model.n_head * kv_head
    block = model.d_model * (2 * model.d_model + 2 * kv_width + 3 * width)
    weights = model.n_layer * block + model.vocab_size * model.d_model
    attention = 12 * model.n_layer * model.d_model * sequence
    return 6 * weights + attention


def utilization(
    tokens_per_second: float, flops_per_token: int, peak_flops: float
) -> float:
    """The share of a device's peak that training a model takes (MFU).

    Args:
        tokens_per_second: trained on.
        flops_per_token: of the model.
        peak_flops: operations per second of the device, known or measured in the
            precision of the run.

    >>> utilization(tokens_per_second=1000.0, flops_per_token=6000, peak_flops=1.2e7)
    0.5
    """
    return tokens_per_second * flops_per_token / peak_flops
