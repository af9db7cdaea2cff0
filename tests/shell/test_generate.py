"""Text from a causal model."""

import pytest
import torch
from torch import Tensor, nn

from speedtronic.errors import ConfigError, ModelError
from speedtronic.pure.transformer import Transformer
from speedtronic.shell.generate import generate, logits_of

SHAPE = {"vocab_size": 20, "max_seq_len": 8, "n_layer": 1, "n_head": 2, "d_model": 16}


def text(module: nn.Module, **options: object) -> list[int]:
    given = {"max_tokens": 12, "max_seq_len": 8, **options}
    with logits_of(module) as logits:
        return list(generate(logits, [1, 2], **given))  # type: ignore[arg-type]


def test_the_seed_decides() -> None:
    """Equal seeds give equal texts, and the global generator is not asked."""
    model = Transformer(**SHAPE)
    before = torch.get_rng_state()

    assert text(model, seed=1) == text(model, seed=1)
    assert text(model, seed=1) != text(model, seed=2)
    assert torch.equal(before, torch.get_rng_state())


def test_a_text_may_outgrow_the_context() -> None:
    """The model sees the last ``max_seq_len`` tokens and no more."""
    seen: list[int] = []

    def logits(ids: Tensor) -> Tensor:
        seen.append(ids.shape[1])
        return torch.eye(20)[(ids + 1) % 20] * 99

    found = list(generate(logits, range(6), max_tokens=5, max_seq_len=8))
    assert [6, 7, 8, 9, 10] == found
    assert [6, 7, 8, 8, 8] == seen


def test_a_stop_token_ends_the_text() -> None:
    """It is not part of it."""

    def logits(ids: Tensor) -> Tensor:
        return torch.eye(20)[(ids + 1) % 20] * 99

    found = generate(logits, [3], max_tokens=9, max_seq_len=8, stop_ids={6})
    assert [4, 5] == list(found)


def test_dropout_is_off_meanwhile() -> None:
    """Modes come back part by part, also after an error."""
    model = Transformer(**SHAPE, dropout=0.5)
    model.transformer.drop.eval()

    assert text(model) == text(model)
    with pytest.raises(ValueError, match="temperature"):
        text(model, temperature=-1.0)
    assert model.training
    assert not model.transformer.drop.training


FORMS = {
    "logits": lambda x: x,
    "tuple": lambda x: (x, None),
    "list": lambda x: [x],
    "mapping": lambda x: {"logits": x},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_output(form: str) -> None:
    """Logits alone, first in a tuple, or in a mapping."""

    class Model(nn.Module):
        def forward(self, ids: Tensor) -> object:
            return FORMS[form](torch.eye(20)[(ids + 1) % 20] * 99)

    assert [3, 4] == text(Model(), max_tokens=2)


def test_a_model_that_is_not_causal() -> None:
    """A classifier is refused by name."""

    class Classifier(nn.Module):
        def forward(self, ids: Tensor) -> Tensor:
            return torch.zeros(len(ids), 3)

    with pytest.raises(ModelError, match="Classifier gives no logits"):
        text(Classifier())


def test_an_empty_prompt() -> None:
    """There is nothing to predict from."""
    with pytest.raises(ConfigError, match="prompt is empty"):
        next(generate(lambda ids: ids, [], max_tokens=1, max_seq_len=8))


def test_spoilt_weights() -> None:
    """NaN is not silently some token."""
    model = Transformer(**SHAPE)
    nn.init.constant_(model.transformer.ln_f.weight, float("nan"))

    with pytest.raises(ModelError, match="not finite"):
        text(model)
