"""What names and shapes say of a parameter."""

import pytest
import torch

from speedtronic.errors import ConfigError
from speedtronic.pure.optim.roles import (
    ROLES,
    check_patterns,
    override_roles,
    role_by_name,
)


@pytest.mark.parametrize(
    "expected, name, shape",
    [
        ("embedding", "transformer.wte.weight", (8, 4)),
        ("embedding", "transformer.wpe.weight", (8, 4)),
        ("embedding", "model.embed_tokens.weight", (8, 4)),
        ("embedding", "tok_emb.weight", (8, 4)),
        ("embedding", "pos_embedding", (1, 8, 4)),
        ("embedding", "bert.embeddings.word_embeddings.weight", (8, 4)),
        ("head", "lm_head.weight", (8, 4)),
        ("head", "output.weight", (8, 4)),
        ("head", "to_logits.weight", (8, 4)),
        ("head", "decoder.value_head.weight", (1, 4)),
        ("head", "heads.head2.weight", (8, 4)),
        ("hidden", "encoder.layer.0.output.dense.weight", (4, 4)),
        ("hidden", "transformer.h.0.attn.q_proj.weight", (4, 4)),
        ("hidden", "layers.0.out_proj.weight", (4, 4)),
        ("hidden", "normal_layer.weight", (4, 4)),
        ("hidden", "heads.0.query.weight", (4, 4)),
        ("hidden", "attn.head_mix.weight", (4, 4)),
        ("hidden", "weight", (4, 4)),
        ("norm", "transformer.h.0.ln1.weight", (4,)),
        ("norm", "transformer.ln_f.weight", (4,)),
        ("norm", "model.layers.0.input_layernorm.weight", (4,)),
        ("norm", "bn2.weight", (4,)),
        ("norm", "batch_norm.weight", (4,)),
        ("norm", "norm_f.weight", (4,)),
        ("norm", "blocks.0.custom_norm.gain", (1, 4)),
        ("norm", "embed_norm.weight", (4,)),
        ("bias", "up.bias", (4,)),
        ("bias", "attn.relative_position_bias_table", (9, 2)),
        ("bias", "attn.in_proj_bias", (4,)),
        ("vector", "temperature", ()),
        ("vector", "block.scale", (4,)),
        ("kernel", "conv1.weight", (8, 3, 3, 3)),
        ("kernel", "depthwise.weight", (8, 1, 3)),
        ("kernel", "experts.up", (2, 4, 4)),
    ],
)
def test_roles_by_name(expected: str, name: str, shape: tuple[int, ...]) -> None:
    """Names of common code bases, and shapes where a name says nothing."""
    assert expected == role_by_name(name, torch.empty(shape))


def test_every_role_is_known() -> None:
    """The list that messages show."""
    expected = ("embedding", "head", "norm", "bias", "vector", "kernel", "hidden")
    assert expected == ROLES


def test_a_later_pattern_wins() -> None:
    """Patterns are applied in the order of the config."""
    changed = override_roles(
        {"a.w": "hidden", "b.w": "hidden"}, {"*": "kernel", "b.*": "head"}
    )

    assert {"a.w": "kernel", "b.w": "head"} == changed


def test_patterns_that_match_nothing_are_told_together() -> None:
    """A typo in a pattern is not a silent no-op."""
    with pytest.raises(ConfigError) as caught:
        check_patterns("optimizer.no_decay", ("wte", "a.*", "head"), {"a.w": "hidden"})

    expected = [
        f"optimizer.no_decay: pattern {pattern!r} matches no trainable parameter; "
        "names look like 'a.w'"
        for pattern in ("wte", "head")
    ]
    assert expected == caught.value.problems
