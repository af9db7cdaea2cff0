"""A training loop of one's own around the pure step: any module, twenty lines.

python examples/custom_loop.py
"""

import torch
from torch import nn

import speedtronic as st


def main(steps: int = 200) -> float:
    """Learn to copy the previous token; returns the last loss in nats."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(16, 32), nn.Linear(32, 16))
    optimizer = st.adamw(1e-2)
    slope = st.gradient(st.ModuleLoss(module, train=True))
    params, frozen, buffers = st.split(module)
    state = st.init_inner(
        optimizer, params, st.key_from_seed(1), frozen=frozen, buffers=buffers
    )
    for step in range(steps):
        ids = torch.randint(16, (8, 12))
        batch = (ids, ids)  # labels are already shifted: here they are the inputs
        state, info = st.inner_step(slope, optimizer, state, [batch])
        if step % 50 == 0:
            print(f"step {step}  loss {float(info.loss):.4f}")
    return float(info.loss)


if __name__ == "__main__":
    print(f"last loss {main():.4f}")
