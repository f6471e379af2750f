"""JSON ⇄ definitions: the shapes that every face takes and gives, with their aliases and limits."""

from chronos.service.shapes.executions import write_execution, write_span
from chronos.service.shapes.job import (
    Check,
    Draft,
    check_targets,
    has_run_at_once,
    read_job,
    runs_once,
    write_job,
    write_spec,
)
from chronos.service.shapes.names import id_text, read_id
from chronos.service.shapes.problems import InvalidJob, Problem
from chronos.service.shapes.reader import JobReader
from chronos.service.shapes.schedule import read_schedule_only

__all__ = [
    "Check",
    "Draft",
    "InvalidJob",
    "JobReader",
    "Problem",
    "check_targets",
    "has_run_at_once",
    "id_text",
    "read_id",
    "read_job",
    "read_schedule_only",
    "runs_once",
    "write_execution",
    "write_job",
    "write_span",
    "write_spec",
]
