"""Continue a prompt with a causal model.

There is no cache of keys and values: every token runs the whole context again. That is
slow for long texts, works with any model, and is plenty for looking at what a small
model has learned.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from speedtronic.errors import ConfigError, ModelError
from speedtronic.pure.random import fold_in, key_from_seed
from speedtronic.pure.sample import sample

Logits = Callable[[Tensor], Tensor]  # i64[1, T] -> float[1, T, V]


def generate(
    logits: Logits,
    prompt_ids: Sequence[int],
    *,
    max_tokens: int,
    max_seq_len: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
    stop_ids: Collection[int] = (),
) -> Iterator[int]:
    """The tokens that follow a prompt, one by one.

    Args:
        logits: a causal model, such as `logits_of` gives.
        prompt_ids: at least one token.
        max_tokens: how many to add.
        max_seq_len: how many of the last tokens the model sees.
        temperature: 0 takes the most likely token each time.
        top_k: draw only from this many.
        seed: the same seed gives the same text.
        stop_ids: tokens that end the text; they are not part of it.

    Raises:
        ConfigError: for an empty prompt.
        ModelError: for logits that are not finite.

    >>> count_up = lambda ids: torch.eye(8)[(ids + 1) % 8] * 99
    >>> list(generate(count_up, [3], max_tokens=3, max_seq_len=4))
    [4, 5, 6]
    """
    if not prompt_ids:
        raise ConfigError("the prompt is empty, expected at least one token")
    key = key_from_seed(seed)
    context = list(prompt_ids)
    for position in range(max_tokens):
        context = context[-max_seq_len:]
        with torch.no_grad():
            last = logits(torch.tensor([context]))[0, -1]
        if not torch.isfinite(last).all():
            raise ModelError(
                "the model's logits are not finite; its weights are spoilt"
            )
        drawn = sample(
            last.cpu(), fold_in(key, position), temperature=temperature, top_k=top_k
        )
        token = int(drawn)
        if token in stop_ids:
            return
        yield token
        context.append(token)


@contextmanager
def logits_of(module: nn.Module) -> Iterator[Logits]:
    """A module as a function from ids to logits, in evaluation mode meanwhile.

    Raises:
        ModelError: when called, if the module gives no logits [1, T, V] for ids alone.
    """
    modes = [(part, part.training) for part in module.modules()]
    tensor = next(module.parameters(), torch.empty(0))

    def logits(ids: Tensor) -> Tensor:
        output: Any = module(ids.to(tensor.device))
        found = output.get("logits") if isinstance(output, Mapping) else output
        found = found[0] if isinstance(found, (tuple, list)) else found
        if not isinstance(found, Tensor) or found.shape[:-1] != ids.shape:
            raise ModelError(
                f"{type(module).__name__} gives no logits [1, T, V] for token ids, so"
                " that it cannot generate"
            )
        return found

    module.eval()
    try:
        yield logits
    finally:
        for part, training in modes:
            part.training = training
