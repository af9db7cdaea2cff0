"""Laws of the names shared with Llama."""

from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.rename import from_llama, to_llama
from speedtronic.pure.transformer import Transformer

shapes = st.fixed_dictionaries(
    {
        "n_layer": st.integers(1, 12),
        "n_head": st.sampled_from([1, 2, 4]),
        "tie_weights": st.booleans(),
    }
)


@given(shapes)
def test_renaming_goes_both_ways(shape: dict[str, int]) -> None:
    """No name is lost, changed or given twice, for any number of blocks."""
    model = Transformer(vocab_size=3, max_seq_len=2, d_model=8, **shape)
    named = dict(model.named_parameters())

    there = to_llama(named)
    assert len(named) == len(there)
    assert named.items() == from_llama(there).items()
    assert list(named) == list(from_llama(there))
