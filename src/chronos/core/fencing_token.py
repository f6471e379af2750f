"""Fencing tokens: numbers that grow with every start of a job's work, so that a target can refuse what comes too late.

::

    47 bits  the turn: a job's gate counts its executions as they become ready
     4 bits  the claim: a node takes the execution; the store compares this part when a node writes
    12 bits  the start: attempts and hooks under one claim, the first with 0

A job that runs one execution at a time gives no turn while another execution is under way, so its tokens grow from
start to start. Executions of a job that lets them overlap have turns too; there tokens grow within an execution. An
execution that is claimed more than 15 times goes on in the next turn; its gate skips that turn when it leaves.
"""

TURN_BITS = 16
START_BITS = 12
_HOOK_START = (1 << START_BITS) - 1  # start under a claim: of the hook after all attempts


def first_token(turn: int) -> int:
    """The token of an execution that is ready in this turn, and not claimed yet."""
    return turn << TURN_BITS


def next_claim_token(token: int) -> int:
    """The token of the next claim of an execution."""
    return (token >> START_BITS) + 1 << START_BITS


def turn_of(token: int) -> int:
    """The turn that a token belongs to."""
    return token >> TURN_BITS


def start_token(claim: int, starts: int) -> int:
    """The token of a start under a claim, after this many. Beyond 4,094 of them tokens do not grow further."""
    return claim + min(starts, _HOOK_START - 1)


def hook_token(claim: int) -> int:
    """The token of a hook after the end: higher than those of all attempts, lower than those of the next turn."""
    return claim | _HOOK_START
