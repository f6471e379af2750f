"""Fencing tokens: numbers that grow with every start of a job's work, so that a target can reject late writes.

::

    47 bits  turn: a job's gate counts its executions as they become ready
     4 bits  claim: grows when a node takes the execution; the store compares turn and claim when a node writes
    12 bits  start: attempts and hooks under one claim, counted from 0

If a job runs one execution at a time, the next turn begins only after the previous execution has ended. So its tokens
grow from start to start. If executions may overlap, tokens grow only within each execution. An execution that is
claimed more than 15 times continues in the next turn; its gate skips that turn when the execution ends.
"""

TURN_BITS = 16
START_BITS = 12
_HOOK_START = (1 << START_BITS) - 1  # the start number of the hook after all attempts


def first_token(turn: int) -> int:
    """Return the token of an execution that is ready in this turn and not claimed yet."""
    return turn << TURN_BITS


def next_claim_token(token: int) -> int:
    """Return the token of the next claim of an execution."""
    return (token >> START_BITS) + 1 << START_BITS


def turn_of(token: int) -> int:
    """Return the turn of a token."""
    return token >> TURN_BITS


def start_token(claim: int, starts: int) -> int:
    """Return the token of a start after ``starts`` others under the same claim. It stops growing after 4,094."""
    return claim + min(starts, _HOOK_START - 1)


def hook_token(claim: int) -> int:
    """Return the token of a hook after the end: above all attempts of the claim, below the next turn."""
    return claim | _HOOK_START
