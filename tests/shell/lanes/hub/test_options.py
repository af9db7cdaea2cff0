"""Names of repositories, and options that keep their secret."""

import pytest

from speedtronic.pure.config.base import Secret
from speedtronic.shell.lanes.hub.options import HubOptions, repository_problem

IMPOSSIBLE = """
run a/b/c /run me/ me/a+b -me/run me/-run me/run- ../run me/.. me/r--n me/run.git
""".split()


@pytest.mark.parametrize(
    "name", ["", "me/a b", "me/run\n", "me/" + "r" * 97, *IMPOSSIBLE]
)
def test_names_that_cannot_be_are_told(name: str) -> None:
    """Before the Hub is asked, which would say that there is no such repository."""
    assert "expected OWNER/NAME" in (repository_problem(name) or "")


@pytest.mark.parametrize("name", ["me/run", "my-org/Run_1.2", "a/b"])
def test_names_that_can_be_are_not(name: str) -> None:
    """Letters, digits and three more characters."""
    assert repository_problem(name) is None


def test_options_do_not_show_the_token() -> None:
    """Wherever they are printed."""
    assert "hf_abc" not in repr(HubOptions(token=Secret("hf_abc")))
