"""AdamW: Adam with decoupled weight decay on matrices (arXiv:1711.05101).

The formula is a chain of pieces. The fused form is one call of ATen's kernel per
decay group; it exists while everything but the learning rate is a constant. AMSGrad,
``maximize`` and complex parameters are deliberately absent.
"""

import torch
from torch import Tensor

from speedtronic.pure.optim.base import (
    FUNCTIONAL_ADAMW,
    AdamwKernel,
    Clock,
    Hyperparameter,
    Optimizer,
    OptState,
    check_range,
    value_at,
)
from speedtronic.pure.optim.decay import DecayMask, decay_mask
from speedtronic.pure.optim.scale import AdamState, descend, scale_by_adam
from speedtronic.pure.types import Params


def adamw(
    learning_rate: Hyperparameter = 1e-3,
    betas: tuple[Hyperparameter, Hyperparameter] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: Hyperparameter = 1e-2,
    mask: DecayMask = decay_mask,
    weight_decay_follows_schedule: bool = True,
) -> Optimizer:
    """AdamW with the defaults of ``torch.optim.AdamW``, but for what decays.

    Args:
        learning_rate: step size.
        betas: decay of the running means of gradient and squared gradient.
        eps: added to the root of the second moment.
        weight_decay: per step and unit of learning rate.
        mask: which parameters decay; by default matrices, see `decay_mask`.
        weight_decay_follows_schedule: False takes ``weight_decay`` as the decay per
            step, whatever the learning rate does.

    Raises:
        ValueError: for a constant out of range.

    >>> w = {"w": torch.ones(1, 1)}
    >>> optimizer = adamw(0.1, weight_decay=0.5)
    >>> clock = Clock(step=torch.tensor(0))
    >>> updates, _ = optimizer.update(w, optimizer.init(w), w, clock)
    >>> updates["w"]
    tensor([[-0.1500]])
    """
    check_range("weight_decay", weight_decay)
    formula = descend(
        scale_by_adam(betas, eps),
        learning_rate,
        weight_decay,
        mask,
        weight_decay_follows_schedule,
    )
    beta1, beta2 = betas
    if (
        callable(beta1)
        or callable(beta2)
        or callable(weight_decay)
        or not weight_decay_follows_schedule
    ):
        return formula
    rate: float = weight_decay

    def fused(
        grads: Params,
        opt_state: OptState,
        params: Params,
        clock: Clock,
        divisor: Tensor,
        found_inf: Tensor,
        kernel: AdamwKernel = FUNCTIONAL_ADAMW,
    ) -> tuple[Params, OptState]:
        adam, *stateless_links = opt_state
        decayed = mask(params)
        step_size = value_at(learning_rate, clock)
        if not isinstance(step_size, Tensor):
            step_size = torch.full_like(divisor, step_size)
        # The kernel wants the number of this update; torch.optim counts it back when
        # it turns out that there was none.
        step = (adam.count + 1).to(torch.float32)
        new_params, mean, square = dict(params), dict(adam.mean), dict(adam.square)
        for decays in (True, False):
            names = [name for name in params if decayed[name] is decays]
            if not names:
                continue
            aligned = [
                _in_one_layout(
                    params[name], grads[name], adam.mean[name], adam.square[name]
                )
                for name in names
            ]
            values, _, means, squares, _ = kernel(
                *(list(column) for column in zip(*aligned, strict=True)),
                [],
                [step] * len(names),
                lr=step_size,
                beta1=beta1,
                beta2=beta2,
                weight_decay=rate if decays else 0.0,
                eps=eps,
                amsgrad=False,
                maximize=False,
                grad_scale=divisor,
                found_inf=found_inf,
            )
            new_params |= zip(names, values, strict=True)
            mean |= zip(names, means, strict=True)
            square |= zip(names, squares, strict=True)
        count = adam.count + (1 - found_inf.to(torch.int64))
        state = AdamState(count=count, mean=mean, square=square)
        return new_params, (state, *stateless_links)

    return formula._replace(fused=fused)


def _in_one_layout(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors whose elements lie in the order of the first one's.

    The CPU kernel walks all of them by address and does not look at strides; a
    gradient that is the transpose of a product would be read in the wrong order.
    """
    if all(tensor.is_contiguous() for tensor in tensors):
        return tensors
    first = tensors[0]
    order = sorted(range(first.ndim), key=first.stride, reverse=True)
    back = sorted(range(first.ndim), key=order.__getitem__)
    return tuple(t.permute(order).contiguous().permute(back) for t in tensors)
