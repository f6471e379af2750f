"""The last outcome of a job on its gate: since when it fails, and when it last succeeded.

Settlements write it together with the counters of the gate, so that it costs no write of its own. Lists of failing jobs
read it.
"""

from chronos.core.execution import Status

SUCCEEDED = f"({int(Status.SUCCEEDED)}, {int(Status.COMPLETED_WITH_ERRORS)})"
FAILED = f"({int(Status.FAILED)}, {int(Status.STALE)})"

#: Columns of the executions that a batch ends, grouped by gate.
OUTCOME_TIMES = f"""max(finished_us) filter (where status in {SUCCEEDED}) as good_us,
    max(finished_us) filter (where status in {FAILED}) as bad_us,
    min(finished_us) filter (where status in {FAILED}) as first_bad_us"""


def last_outcome_sql(gate: str) -> str:
    """Return assignments to the columns of ``gate`` from a row ``n`` with the columns ``OUTCOME_TIMES``."""
    return f"""succeeded_us = coalesce(n.good_us, {gate}.succeeded_us),
        failing_us = case
            when n.bad_us is null then case when n.good_us is null then {gate}.failing_us end
            when n.good_us is null then coalesce({gate}.failing_us, n.first_bad_us)
            when n.good_us <= n.bad_us then n.bad_us end"""
