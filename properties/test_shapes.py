"""Laws of the advice on shapes."""

import attrs
from hypothesis import assume, given
from hypothesis import strategies as st

from speedtronic.pure.config import Config, Data, Model, ShapeValidation
from speedtronic.pure.config.checks import problems
from speedtronic.pure.shapes import Advice, advice, profile


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Any config whose fields agree with each other, small."""
    heads, groups = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    longest = draw(st.integers(1, 70))
    micro = draw(st.integers(1, 12))
    data = Data(
        block_size=draw(st.none() | st.integers(1, longest)),
        micro_batch_size=micro,
        target_batch_size=micro * draw(st.integers(1, 6)),
    )
    return Config(
        model=Model(
            d_model=2 * heads * groups * draw(st.integers(1, 20)),
            n_head=heads * groups,
            n_kv_head=draw(st.none() | st.just(groups)),
            d_ff=draw(st.none() | st.integers(1, 400)),
            max_seq_len=longest,
            vocab_size=draw(st.integers(1, 300)),
        ),
        data=data,
        shape_validation=ShapeValidation(
            alignment=draw(st.sampled_from(["auto", 3, 16])), check_vocab=True
        ),
    )


def taken(config: Config, found: Advice) -> Config:
    """The config with one piece of advice taken."""
    if found.suggestion is None:
        return config
    section, name = found.path.split(".")
    changed = attrs.evolve(getattr(config, section), **{name: found.suggestion})
    return attrs.evolve(config, **{section: changed})


@given(configs())
def test_taking_the_advice_leaves_none(config: Config) -> None:
    """But for what nothing can be done about, and without any contradiction."""
    assume(not problems(config))
    found = advice(config, "cuda", "bf16")
    after = config
    for one in found:
        after = taken(after, one)

    assert [] == problems(after)
    left = advice(after, "cuda", "bf16")
    assert {one.path for one in left} == {
        one.path for one in found if one.suggestion is None
    }
    assert all(one.suggestion is None for one in left)


@given(configs())
def test_the_profile_is_what_is_advised_on(config: Config) -> None:
    """Everything aligned is no subject, everything else is one."""
    assume(not problems(config))
    step = 8 if config.shape_validation.alignment == "auto" else None
    step = step or int(config.shape_validation.alignment)
    aligned = all(size % step == 0 for size in profile(config).values())

    assert aligned == (() == advice(config, "cuda", "bf16"))


@given(configs())
def test_the_step_keeps_its_rows(config: Config) -> None:
    """No advice changes the target batch, which training depends on."""
    assume(not problems(config))
    for one in advice(config, "cuda", "bf16"):
        assert one.path != "data.target_batch_size"
        if one.path == "data.micro_batch_size" and one.suggestion is not None:
            assert config.data.target_batch_size % one.suggestion == 0
