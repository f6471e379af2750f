"""Converts JSON to definitions and records to JSON, with aliases and limits. Every interface uses it.

HTTP bodies belong in ``chronos.api``; rows of the store belong in ``store.sql.row_mappers``.
"""

from chronos.service.serializers.execution import write_execution, write_span
from chronos.service.serializers.identifiers import id_text, read_id
from chronos.service.serializers.job import (
    Draft,
    is_done_after_one_run,
    read_job,
    runs_once,
    write_job,
    write_spec,
)
from chronos.service.serializers.job_reader import JobReader
from chronos.service.serializers.problems import InvalidJob, Problem
from chronos.service.serializers.schedule import read_schedule_only
from chronos.service.serializers.target import Check, check_targets

__all__ = [
    "Check",
    "Draft",
    "InvalidJob",
    "JobReader",
    "Problem",
    "check_targets",
    "id_text",
    "is_done_after_one_run",
    "read_id",
    "read_job",
    "read_schedule_only",
    "runs_once",
    "write_execution",
    "write_job",
    "write_span",
    "write_spec",
]
