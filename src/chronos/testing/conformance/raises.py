"""Expecting an error without a test framework, so that the suite runs under any."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raises(kind: type[Exception], part: str = "") -> Iterator[None]:
    """The block must raise this kind of error, and its message must contain ``part``."""
    try:
        yield
    except kind as error:
        if part not in str(error):
            raise AssertionError(f"{error!r} does not say {part!r}") from error
        return
    raise AssertionError(f"nothing raised {kind.__name__}")
