"""Views as JSON, as the REST API returns them and the command line prints them."""

from collections.abc import Mapping
from typing import Any

from chronos.core.calendar import SECOND_US, rfc3339
from chronos.core.credentials import hide_url_credentials, hide_userinfo
from chronos.core.execution import DeadLetter, Execution, Status
from chronos.observe.delay_history import DelayMinutes
from chronos.service.serializers import id_text
from chronos.service.views.cluster import NodeRow, QueueRow
from chronos.service.views.dead_letter_groups import LetterGroups
from chronos.service.views.facets import Facets
from chronos.service.views.job_days import JobDaysAnswer
from chronos.service.views.job_facts import Failing, JobFacts, StateChange
from chronos.service.views.job_rows import JobRow, RunMark
from chronos.service.views.log_windows import LogPart, LogWindow
from chronos.service.views.run_stats import RunStatsAnswer
from chronos.service.views.upcoming import Upcoming, UpcomingRun
from chronos.service.why_steps import WhyStep
from chronos.store.contract import JobName, Neighbours
from chronos.store.overview import COUNT_CAP, Facet, StatusCounts


def write_job_detail(row: JobRow) -> dict[str, Any]:
    """Write what a row adds to a job."""
    schedule = row.schedule
    return {
        "status": row.status.value,
        "schedule_words": None if schedule is None else schedule.words,
        "schedule_zone": None if schedule is None else schedule.zone,
        "understood_as": None if schedule is None else schedule.understood_as,
        "overdue_by_ms": to_ms(row.overdue_us),
        "failing_since": write_instant(row.failing_since_us),
        "last_success_at": write_instant(row.last_success_us),
        "running_since": write_instant(row.running_since_us),
        "open_runs": row.open_runs,
    }


def write_recent(row: JobRow) -> dict[str, Any]:
    """Write the recent runs of a row, each as status, duration and whether it was retried."""
    return {
        "recent": [_write_mark(mark) for mark in row.recent],
        "p50_ms": to_ms(row.p50_us),
        "p95_ms": to_ms(row.p95_us),
    }


def _write_mark(mark: RunMark) -> list[Any]:
    return [mark.status.name.lower(), to_ms(mark.duration_us), mark.retried]


def write_job_facts(facts: JobFacts) -> dict[str, Any]:
    """Write what the facts add to a job, beside its row."""
    return {
        **write_job_detail(facts.row),
        **write_recent(facts.row),
        "failing": None if facts.failing is None else _write_failing(facts.failing),
        "paused": None if facts.paused is None else _write_state_change(facts.paused),
        "upstream": list(facts.upstream),
        "downstream": list(facts.downstream),
        "version_author": facts.version_author,
        "version_saved_at": write_instant(facts.version_saved_us),
        "delay_p99_ms": to_ms(facts.delay_p99_us),
        "retried_runs": facts.retried,
        "recent_runs": facts.recent_runs,
    }


def _write_failing(failing: Failing) -> dict[str, Any]:
    return {
        "since": write_instant(failing.since_us),
        "failures_in_a_row": failing.failures_in_a_row,
        "counted_all": failing.counted_all,
        "first_execution_id": _execution_id(failing.first),
        "last_execution_id": _execution_id(failing.last),
        "task": failing.task,
        "error": None if failing.error is None else hide_userinfo(failing.error),
        "version": failing.version,
        "last_success_at": write_instant(failing.last_success_us),
        "last_success_execution_id": _execution_id(failing.last_success),
    }


def _write_state_change(change: StateChange) -> dict[str, Any]:
    return {"by": change.by, "at": write_instant(change.at_us), "reason": change.reason}


def write_counts(counts: StatusCounts) -> dict[str, Any]:
    """Write the number of jobs by status. A capped count is the cap plus one."""
    return {
        "total": counts.total,
        "by_status": {status.value: count for status, count in counts.by_status.items()},
        "cap": COUNT_CAP,
    }


def write_facets(facets: Facets) -> dict[str, Any]:
    """Write facets."""
    return {
        "tags": [_write_facet(facet) for facet in facets.tags],
        "owners": [_write_facet(facet) for facet in facets.owners],
        "zones": [_write_facet(facet) for facet in facets.zones],
        "targets": [_write_facet(facet) for facet in facets.targets],
        "queues": list(facets.queues),
        "complete": facets.complete,
    }


def _write_facet(facet: Facet) -> dict[str, Any]:
    return {"value": facet.value, "jobs": facet.jobs}


def write_run_stats(stats: RunStatsAnswer) -> dict[str, Any]:
    """Write the number of runs per stretch of time."""
    return {
        "from": rfc3339(stats.from_us),
        "to": rfc3339(stats.to_us),
        "bucket_ms": stats.bucket_us // 1_000,
        "complete": stats.complete,
        "totals": _write_status_counts(stats.totals),
        "buckets": [
            {
                "start": rfc3339(bucket.start_us),
                "counts": None if bucket.counts is None else _write_status_counts(bucket.counts),
                "capped": bucket.capped,
            }
            for bucket in stats.buckets
        ],
    }


def _write_status_counts(counts: Mapping[Status, int]) -> dict[str, int]:
    return {status.name.lower(): count for status, count in counts.items()}


def write_days(answer: JobDaysAnswer) -> dict[str, Any]:
    """Write the days of a job."""
    return {
        "zone": answer.zone,
        "today": answer.today.isoformat(),
        "complete": answer.complete,
        "success_rate": answer.success_rate,
        "days": [
            {
                "day": row.day.isoformat(),
                "planned": row.planned,
                "clock_changes": row.clock_changes,
                **{name: count for name, count in row.counts._asdict().items() if count},
            }
            for row in answer.days
        ],
    }


def write_upcoming(upcoming: Upcoming) -> dict[str, Any]:
    """Write the next scheduled times of a job."""
    return {
        "zone": upcoming.zone,
        "items": [_write_upcoming_run(run) for run in upcoming.runs],
        "clock_changes": [
            {
                "kind": oddity.kind.value,
                "at": rfc3339(oddity.at_us),
                "wall": write_wall(oddity.wall * SECOND_US),
                "count": oddity.count,
                "message": oddity.message,
            }
            for oddity in upcoming.clock_changes
        ],
    }


def _write_upcoming_run(run: UpcomingRun) -> dict[str, Any]:
    return {
        "at": rfc3339(run.at_us),
        "wall": write_wall(run.wall_us),
        "offset": write_offset(run.offset_s),
        "clock_changed": run.clock_changed,
        "note": run.note,
    }


def write_why_step(step: WhyStep) -> dict[str, Any]:
    """Write one step of an explanation, in full."""
    return {
        "at": rfc3339(step.at_us),
        "verdict": step.verdict.value,
        "sentence": hide_userinfo(step.sentence),
        "status": step.status,
        "task": step.task,
        "attempt": step.attempt,
        "refs": [ref._asdict() for ref in step.refs],
        "numbers": None if step.numbers is None else step.numbers._asdict(),
    }


def write_neighbours(neighbours: Neighbours) -> dict[str, Any]:
    """Write the runs just before and after a run."""
    older, newer = (None if one is None else id_text(one) for one in neighbours)
    return {"previous_execution_id": older, "next_execution_id": newer}


def write_log_window(window: LogWindow, parts: list[LogPart]) -> dict[str, Any]:
    """Write a window of a log, and the logs that the run has."""
    return {
        "task": window.task,
        "attempt": window.attempt,
        "lines": [
            {
                "number": line.number,
                "at_byte": line.at_byte,
                "text": line.text,
                "cut_bytes": line.cut_bytes,
                "matches": line.matches,
            }
            for line in window.lines
        ],
        "total_lines": window.total_lines,
        "total_bytes": window.total_bytes,
        "left_out_bytes": window.left_out_bytes,
        "previous_byte": window.previous_byte,
        "next_byte": window.next_byte,
        "match_count": window.match_count,
        "match_lines": list(window.match_lines),
        "parts": [
            {"task": part.task, "attempt": part.attempt, "lines": part.lines, "bytes": part.bytes} for part in parts
        ],
    }


def write_node(row: NodeRow) -> dict[str, Any]:
    """Write a node."""
    node = row.node
    return {
        "number": node.number,
        "name": node.name,
        "state": row.state.value,
        "started_at": rfc3339(node.started_us),
        "beat_at": rfc3339(node.beat_us),
        "stopped_at": write_instant(node.stopped_us),
        "slots": node.slots,
        "labels": node.labels,
        "running": row.running,
        "longest_since": write_instant(row.longest_since_us),
        "version": row.version,
        "address": row.address,
        "skew_ms": row.skew_ms,
        "queues": None if row.queues is None else list(row.queues),
        "taken_over": node.taken_over,
    }


def write_queue(row: QueueRow) -> dict[str, Any]:
    """Write a queue with the nodes that serve it."""
    return {
        "queue": row.queue,
        "ready": row.ready,
        "queued": row.queued,
        "running": row.running,
        "waiting": row.waiting,
        "held": row.held,
        "oldest_ready_at": write_instant(row.oldest_ready_us),
        "slots": row.slots,
        "served_by": list(row.served_by),
        "shortage": row.shortage,
    }


def write_delays(minutes: DelayMinutes) -> dict[str, Any]:
    """Write the delays of some minutes."""
    return {
        "start": rfc3339(minutes.start_us),
        "minutes": minutes.minutes,
        "started": minutes.started,
        "delay_p50_ms": _seconds_to_ms(minutes.delay_p50_s),
        "delay_p99_ms": _seconds_to_ms(minutes.delay_p99_s),
        "commits": minutes.commits,
        "commit_p50_ms": _seconds_to_ms(minutes.commit_p50_s),
        "commit_p99_ms": _seconds_to_ms(minutes.commit_p99_s),
    }


def write_letter_groups(found: LetterGroups) -> dict[str, Any]:
    """Write groups of dead letters."""
    return {
        "items": [
            {
                "key": group.key,
                "error": hide_userinfo(group.error),
                "jobs": list(group.job_names),
                "count": group.count,
                "latest_at": rfc3339(group.latest_us),
                "latest_id": id_text(group.latest),
                "trend": list(group.trend),
            }
            for group in found.groups
        ],
        "letters": found.letters,
        "complete": found.complete,
        "latest_at": write_instant(found.latest_us),
    }


def write_dead_letter(letter: DeadLetter, name: JobName | None) -> dict[str, Any]:
    """Write a dead letter."""
    return {
        "id": id_text(letter.execution),
        "execution_id": id_text(letter.execution),
        "job_id": id_text(letter.job),
        "job_name": None if name is None else name.name,
        "namespace": letter.namespace,
        "failed_at": rfc3339(letter.failed_us),
        "reason": {"code": letter.reason.code.value, "message": hide_userinfo(letter.reason.message)},
    }


def write_letter_detail(payload: Any, attempts: int | None, tail: str | None, group: str) -> dict[str, Any]:
    """Write what helps to decide about a dead letter."""
    return {
        "group": group,
        "payload": hide_url_credentials(payload),
        "attempts": attempts,
        "last_output": tail,
    }


def write_wall(wall_us: int) -> str:
    """Write the reading of a clock, without an offset."""
    return rfc3339(wall_us).removesuffix("Z")


def write_offset(offset_s: int) -> str:
    """Write an offset from UTC: ``+02:00``."""
    hours, rest = divmod(abs(offset_s), 3600)
    return f"{'-' if offset_s < 0 else '+'}{hours:02}:{rest // 60:02}"


def write_instant(us: int | None) -> str | None:
    """Write an instant, or None."""
    return None if us is None else rfc3339(us)


def to_ms(us: int | None) -> float | None:
    """Return microseconds as milliseconds, or None."""
    return None if us is None else us / 1_000


def _seconds_to_ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1_000, 3)


def _execution_id(execution: Execution | None) -> str | None:
    return None if execution is None else id_text(execution.id)
