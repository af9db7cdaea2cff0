"""A small convolutional network on the handwritten digits that scikit-learn ships.

Nothing here is about text: a batch is (images, labels), the model returns logits, and
batch statistics and dropout work as they do everywhere.

    python examples/digits.py
"""

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import speedtronic as st


def network(width: int = 16) -> nn.Module:
    """A factory for ``model.name: examples.digits:network``."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(2 * width * 16, 10),
    )


def digits() -> tuple[TensorDataset, TensorDataset]:
    """A factory for ``data.dataset``: 1 500 images to learn from, 297 held out."""
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    y = torch.tensor(labels, dtype=torch.int64)
    return TensorDataset(x[:1500], y[:1500]), TensorDataset(x[1500:], y[1500:])


def main(steps: int = 120) -> float:
    """Train with the pure step; returns the share of held-out digits that are right."""
    torch.manual_seed(0)
    module = network()
    train, held_out = digits()
    optimizer = st.adamw(3e-3)
    slope = st.gradient(st.ModuleLoss(module, train=True))
    runner = st.StepRunner(slope, optimizer, st.StepRule())
    params, frozen, buffers = st.split(module)
    state = st.init_inner(
        optimizer, params, st.key_from_seed(1), frozen=frozen, buffers=buffers
    )
    x, y = train.tensors
    for step in range(steps):
        rows = torch.randint(len(x), (64,))
        state, info = runner(state, [(x[rows], y[rows])])
        if step % 20 == 0:
            print(f"step {step}  loss {float(info.loss):.4f}")
    images, labels = held_out.tensors
    return accuracy(module, state, images, labels)


def accuracy(module: nn.Module, state: Any, images: Tensor, labels: Tensor) -> float:
    """The share of images whose largest logit is their label."""
    model = st.ModuleLoss(module, train=False)
    logits = model.outputs(state.params, state.buffers, (images, labels), state.key)
    return float((logits.argmax(-1) == labels).float().mean())


if __name__ == "__main__":
    print(f"held-out accuracy {main():.3f}")
