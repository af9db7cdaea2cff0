"""Loss scaling is torch's, whatever happens to a run."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.scaling import init_scale, update_scale
from speedtronic.testing.purity import check_pure


@given(
    st.lists(st.booleans(), max_size=40),
    st.integers(1, 5),
    st.floats(1.0, 4.0, width=32),
    st.floats(0.125, 1.0, width=32),
    st.integers(-100, 127),
)
def test_any_run_has_the_scales_of_torch(
    finite: list[bool], interval: int, growth: float, backoff: float, exponent: int
) -> None:
    """Bit for bit, near overflow and near underflow too."""
    scale, tracker = torch.tensor(2.0**exponent), torch.tensor(0, dtype=torch.int32)
    state = init_scale(2.0**exponent)
    for good in finite:
        found_inf = torch.tensor(0.0 if good else 1.0)
        torch._amp_update_scale_(scale, tracker, found_inf, growth, backoff, interval)
        state = check_pure(
            update_scale, state, torch.tensor(good), interval, growth, backoff
        )
        assert torch.equal(scale, state.scale)
        assert tracker == state.good_steps
