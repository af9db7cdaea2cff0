"""Training as pure state transitions in PyTorch.

Names are imported on first use, so that ``speedtronic --help`` need not wait for
torch.
"""

__version__ = "3.0.0.dev0"
