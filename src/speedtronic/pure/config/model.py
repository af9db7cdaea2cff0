"""Model section: the reference transformer's shape, or any factory."""

from typing import Any

import attrs

from speedtronic.pure.config.base import below_one, field, positive

REFERENCE_MODELS = ("reference_transformer", "gpt")  # two names for one model


@attrs.frozen(kw_only=True)
class Model:
    """A registered model, the reference transformer, or ``package.module:factory``."""

    name: str = field(
        "reference_transformer",
        "reference_transformer (gpt), a registered name, or package.module:factory",
    )
    kwargs: dict[str, Any] = field(dict, "keyword arguments for the factory")
    init_from: str | None = field(
        None, "start from weights: a file, a folder, a lane, or OWNER/NAME@REVISION"
    )
    freeze: tuple[str, ...] = field(
        (),
        "patterns of parameter names that are not trained, such as transformer.wte.*",
    )
    license: str | None = field(
        None,
        "license of the published model, such as apache-2.0, for its card",
        scope="free",
    )
    vocab_size: int = field(512, "number of token ids", check=positive)
    max_seq_len: int = field(128, "longest sequence", check=positive)
    n_layer: int = field(4, "number of blocks", check=positive)
    n_head: int = field(8, "attention heads", check=positive)
    n_kv_head: int | None = field(
        None, "key and value heads (default: n_head)", check=positive
    )
    d_model: int = field(256, "width", check=positive)
    d_ff: int | None = field(
        None,
        "feed-forward width before the 2/3 rule (default: 4 d_model)",
        check=positive,
    )
    dropout: float = field(0.0, "dropout rate", check=below_one)
    tie_weights: bool = field(True, "share embedding and head")
    rope_base: float = field(10000.0, "base of the rotary embedding", check=positive)
    gradient_checkpointing: bool = field(
        False, "recompute activations in the backward pass", scope="node"
    )
    loss_chunk_size: int | None = field(
        None,
        "tokens per piece of the loss, so that full logits never exist",
        scope="node",
        check=positive,
    )
