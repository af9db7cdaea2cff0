"""Text that every Python has."""

from speedtronic.shell.data.samples import python_reference


def test_the_language_reference() -> None:
    """Documents in a fixed order, none of them empty."""
    documents = python_reference()

    assert documents == python_reference()
    assert all(documents)
    assert any("with_stmt" in document for document in documents)
