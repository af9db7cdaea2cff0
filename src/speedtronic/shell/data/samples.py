"""Text that every Python has, for a first run without a download."""

from pydoc_data.topics import topics


def python_reference() -> list[str]:
    """The Python language reference, one document per topic, in order of their names.

    It is what ``help("with")`` shows: about half a megabyte of English and code, which
    differs a little between Python versions. In a config::

        data:
          dataset: "speedtronic.shell.data.samples:python_reference"

    >>> documents = python_reference()
    >>> sum(map(len, documents)) > 400_000
    True
    """
    return [topics[name] for name in sorted(topics)]
