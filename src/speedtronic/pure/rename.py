"""The reference transformer's parameters under Llama's names, and back.

The architectures are the same, so that renaming is all it takes to exchange weights.
``config.json`` is in the words of `transformers.LlamaConfig`.
"""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from speedtronic.pure.config.model import Model
from speedtronic.pure.transformer import NORM_EPS, feed_forward_width

V = TypeVar("V")

# Ours -> Llama's; {} stands for the number of a block.
_NAMES = {
    "transformer.wte.weight": "model.embed_tokens.weight",
    "transformer.h.{}.ln1.weight": "model.layers.{}.input_layernorm.weight",
    "transformer.h.{}.attn.q_proj.weight": "model.layers.{}.self_attn.q_proj.weight",
    "transformer.h.{}.attn.k_proj.weight": "model.layers.{}.self_attn.k_proj.weight",
    "transformer.h.{}.attn.v_proj.weight": "model.layers.{}.self_attn.v_proj.weight",
    "transformer.h.{}.attn.out_proj.weight": "model.layers.{}.self_attn.o_proj.weight",
    "transformer.h.{}.ln2.weight": "model.layers.{}.post_attention_layernorm.weight",
    "transformer.h.{}.mlp.gate_proj.weight": "model.layers.{}.mlp.gate_proj.weight",
    "transformer.h.{}.mlp.up_proj.weight": "model.layers.{}.mlp.up_proj.weight",
    "transformer.h.{}.mlp.down_proj.weight": "model.layers.{}.mlp.down_proj.weight",
    "transformer.ln_f.weight": "model.norm.weight",
    "lm_head.weight": "lm_head.weight",
}
_BACK = {llama: ours for ours, llama in _NAMES.items()}
_NUMBER = re.compile(r"(?<=\.)(0|[1-9]\d*)(?=\.)")


def to_llama(params: Mapping[str, V]) -> dict[str, V]:
    """The same values under Llama's names, in the same order.

    Raises:
        ValueError: listing the names that the reference transformer does not have.

    >>> list(to_llama({"transformer.h.3.ln1.weight": 0}))
    ['model.layers.3.input_layernorm.weight']
    """
    return _rename(params, _NAMES, "the reference transformer")


def from_llama(params: Mapping[str, V]) -> dict[str, V]:
    """The same values under our names, in the same order.

    Raises:
        ValueError: listing the names that Llama does not have.

    >>> list(from_llama({"model.norm.weight": 0}))
    ['transformer.ln_f.weight']
    """
    return _rename(params, _BACK, "Llama")


def llama_config(model: Model, *, end_of_document: int | None = None) -> dict[str, Any]:
    """``config.json`` of a reference transformer, as `transformers.LlamaConfig`.

    Args:
        model: the shape.
        end_of_document: the token at which generation ends, if there is one.

    >>> llama_config(Model())["intermediate_size"]
    688
    """
    heads = model.n_head
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": model.vocab_size,
        "max_position_embeddings": model.max_seq_len,
        "hidden_size": model.d_model,
        "intermediate_size": feed_forward_width(model.d_model, model.d_ff, heads),
        "num_hidden_layers": model.n_layer,
        "num_attention_heads": heads,
        "num_key_value_heads": heads if model.n_kv_head is None else model.n_kv_head,
        "head_dim": model.d_model // heads,
        "hidden_act": "silu",
        "rms_norm_eps": NORM_EPS,
        "rope_theta": model.rope_base,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": model.tie_weights,
        # Without these transformers would end a text at its own default token, 2.
        "bos_token_id": None,
        "eos_token_id": end_of_document,
        "pad_token_id": None,
    }


def _rename(params: Mapping[str, V], table: dict[str, str], owner: str) -> dict[str, V]:
    renamed: dict[str, V] = {}
    unknown = []
    for name, value in params.items():
        number = _NUMBER.search(name)
        pattern = _NUMBER.sub("{}", name, count=1)
        if pattern not in table:
            unknown.append(name)
            continue
        renamed[table[pattern].format(number[0] if number else "")] = value
    if unknown:
        raise ValueError(f"{owner} has no parameter {', '.join(map(repr, unknown))}")
    return renamed
