"""The examples run, and learn what they claim to."""

from examples import custom_loop, digits


def test_the_custom_loop_learns_to_copy() -> None:
    """From ln 16 = 2.77 nats to almost none."""
    assert custom_loop.main(steps=200) < 0.1


def test_the_convolutional_network_reads_digits() -> None:
    """Nothing in the engine is about text."""
    assert digits.main(steps=80) > 0.9
