"""Keywords of other schedulers, and what to write instead."""

from typing import NamedTuple


class EquivalentKeyword(NamedTuple):
    """The hint for a keyword of another scheduler, and the keyword that it recommends (None: no keyword)."""

    keyword: str | None
    hint: str


def _use(keyword: str, example: str) -> EquivalentKeyword:
    return EquivalentKeyword(keyword, f"use {example}")


_EVERY = _use("every", 'every="5m"')
_CRON = _use("cron", 'cron="0 9 * * 1-5"')
_AT = _use("at", 'at="2027-01-01T09:00:00Z"')
_TIMEOUT = _use("timeout", 'timeout="5m"')
_PAYLOAD = _use("payload", 'payload={"parameter": value}, which fills the parameters by name')
_RETRY = _use("retry", 'retry={"initial_interval": "10s", "multiplier": 2}')
_AFTER = _use("after", 'after="other-job"')
_RECOVERY = _use("recovery", 'recovery={"strategy": "skip", "after": "30s"}: an instant up to 30s late still runs')
_ON_COMPLETE = _use("on_complete", "on_complete=function")
_REPLACED = EquivalentKeyword(None, "leave it out: a job of the same name is always updated")

#: By name, from APScheduler, Celery, Airflow, rq, cron and their like.
EQUIVALENT_KEYWORDS = {
    "args": _PAYLOAD,
    "bind": EquivalentKeyword(None, "leave it out: a parameter called ctx receives the context"),
    "catchup": _use("recovery", 'recovery="all"'),
    "coalesce": _use("recovery", 'recovery="last", the default: of missed instants only the last one runs'),
    "countdown": _use("in_", 'in_="10m"'),
    "crontab": _CRON,
    "day": _CRON,
    "day_of_week": _CRON,
    "days": _EVERY,
    "default_retry_delay": _RETRY,
    "depends_on": _AFTER,
    "end_date": _use("end", 'end="2027-12-31T00:00:00Z"'),
    "eta": _AT,
    "executor": _use("isolation", 'isolation="thread" or isolation="process"'),
    "hour": _CRON,
    "hours": _EVERY,
    "id": _use("name", 'name="…"'),
    "interval": _EVERY,
    "jobstore": EquivalentKeyword(None, "leave it out: the store is the address in Chronos(…)"),
    "kwargs": _PAYLOAD,
    "max_active_runs": _use("concurrency", 'concurrency=N with overlap="allow"'),
    "max_instances": _use("concurrency", 'concurrency=N with overlap="allow"; by default one runs at a time'),
    "max_retries": _use("retries", "retries=3"),
    "minute": _CRON,
    "minutes": _EVERY,
    "misfire_grace_time": _RECOVERY,
    "month": _CRON,
    "next_run_time": _use("start", 'start="2027-01-01T09:00:00Z"'),
    "on_error": _ON_COMPLETE,
    "on_success": _ON_COMPLETE,
    "replace_existing": _REPLACED,
    "retry_backoff": _RETRY,
    "retry_delay": _RETRY,
    "retry_kwargs": _RETRY,
    "run_date": _AT,
    "schedule_interval": _use("schedule", 'schedule="0 9 * * 1-5", cron=… or every=…'),
    "second": _EVERY,
    "seconds": _EVERY,
    "soft_time_limit": _TIMEOUT,
    "start_date": _use("start", 'start="2027-01-01T09:00:00Z"'),
    "time_limit": _TIMEOUT,
    "time_zone": _use("timezone", 'timezone="Europe/Paris"'),
    "trigger": _use("cron", "cron=…, every=… or at=…"),
    "tz": _use("timezone", 'timezone="Europe/Paris"'),
    "weeks": _EVERY,
}
