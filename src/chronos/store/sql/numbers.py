"""Jobs by their numbers, which are given out in the order in which jobs are made.

Ids are hashes: an index of history by them would cost each end of an execution a page of its own. By number, what was
made together, and so often runs together, lies together. A deleted job keeps its number (in ``gone``) for as long as
something of it is on record.
"""


def number_of(job: str) -> str:
    """The number of the job with this id, an expression."""
    number = f"(select o.number from {{}} as o where o.job = {job})".format
    return f"coalesce({number('gate')}, {number('gone')})"


def ran(history: str, job: str) -> str:
    """A condition: the row of ``history`` (a table's alias) is of the job with this id, an expression."""
    return f"{history}.number = {number_of(job)} and {history}.job = {job}"
