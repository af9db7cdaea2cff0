"""The reference transformer and `transformers.LlamaForCausalLM` are one model."""

import json
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from speedtronic.pure.config.model import Model
from speedtronic.pure.rename import from_llama, llama_config, to_llama
from speedtronic.pure.transformer import Transformer

SHAPE = {"vocab_size": 50, "max_seq_len": 32, "n_layer": 2, "n_head": 4, "d_model": 32}


def noisy(seed: int = 0, **changes: Any) -> Transformer:
    """A model whose weights, norms included, are all different."""
    model = Transformer(**{**SHAPE, **changes}, seed=seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator) * 0.1)
    return model


def as_llama(model: Transformer) -> LlamaForCausalLM:
    told = LlamaConfig.from_dict(llama_config(model.config))
    told._attn_implementation = "eager"
    llama = LlamaForCausalLM(told).eval()
    missing, unexpected = llama.load_state_dict(
        to_llama(dict(model.named_parameters())), strict=False
    )
    tied = ["lm_head.weight"] if model.config.tie_weights else []
    assert (tied, []) == (missing, unexpected)
    llama.tie_weights()
    return llama


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_kv_head": 2},
        {"n_kv_head": 1, "tie_weights": False},
        {"rope_base": 500.0, "d_ff": 50},
    ],
    ids=str,
)
def test_llama_gives_the_same_logits(changes: dict[str, Any]) -> None:
    """Renamed weights compute the same function in transformers."""
    model = noisy(**changes)
    ids = torch.randint(50, (3, 32), generator=torch.Generator().manual_seed(1))

    with torch.no_grad():
        ours, theirs = model(ids)["logits"], as_llama(model)(ids).logits
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_llama_masks_padding_the_same_way() -> None:
    """An attention mask means the same in both, padding on the left included."""
    model = noisy()
    ids = torch.randint(50, (2, 12), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :5], mask[1, 9:] = 0, 0
    positions = torch.arange(12).expand(2, 12)

    with torch.no_grad():
        ours = model(ids, attention_mask=mask)["logits"]
        llama = as_llama(model)
        theirs = llama(ids, attention_mask=mask, position_ids=positions).logits
    kept = mask.bool()
    torch.testing.assert_close(ours[kept], theirs[kept], rtol=1e-5, atol=1e-5)


def test_the_table_goes_both_ways() -> None:
    """Every parameter of an untied model comes back under its own name."""
    names = dict(noisy(tie_weights=False).named_parameters())

    assert list(names) == list(from_llama(to_llama(names)))


def test_unknown_names_are_listed() -> None:
    """All of them at once, on the way there and back."""
    with pytest.raises(ValueError, match="no parameter 'a', 'transformer.h.x.ln1.wei"):
        to_llama(
            {"a": 0, "transformer.ln_f.weight": 0, "transformer.h.x.ln1.weight": 0}
        )
    with pytest.raises(ValueError, match="Llama has no parameter 'lm_head.bias'"):
        from_llama({"lm_head.bias": 0})


def test_the_config_is_plain_json_without_default_special_tokens() -> None:
    """Llama's default end token, 2, is a byte like any other here."""
    told = llama_config(Model(n_kv_head=2), end_of_document=256)

    assert told == json.loads(json.dumps(told))
    assert (None, 256) == (told["bos_token_id"], told["eos_token_id"])
    assert 2 == told["num_key_value_heads"]
