"""The share of its device's peak that a run computes with (MFU), for its records.

The peak is measured once per process, before training, in some ten milliseconds;
records only divide. What is counted is told in `speedtronic.pure.flops`.
"""

import functools

import torch

from speedtronic.pure.flops import utilization
from speedtronic.shell.peak import measured_peak
from speedtronic.shell.session import Session

_ENOUGH_S = 0.002


class Utilization:
    """Turns tokens per second into a share of the peak.

    Args:
        session: of the run.
        ranks: processes that share each step, on a device each or on one CPU.
    """

    def __init__(self, session: Session, ranks: int = 1) -> None:
        self._flops = session.flops_per_token
        self._peak = _peak(session) * ranks if self._flops else 0.0

    def __call__(self, tokens_per_second: float | None) -> float | None:
        """None where it is unknown or unwanted."""
        if not self._peak or tokens_per_second is None:
            return None
        return utilization(tokens_per_second, self._flops, self._peak)


def _peak(session: Session) -> float:
    told = session.config.logging.peak_flops
    if told == "none":
        return 0.0
    if told != "auto":
        return float(told)
    dtype = session.arithmetic.autocast or torch.float32
    return _measured(session.device, dtype, torch.get_num_threads())


@functools.cache
def _measured(device: torch.device, dtype: torch.dtype, threads: int) -> float:
    """With so many threads; the first caller waits for it."""
    del threads
    found = measured_peak(device, dtype, enough_s=_ENOUGH_S)
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what was used here is none of the run's memory
    return found
