"""The declarative scheduler: a list of tasks, and two methods, ``initialize`` and ``stop``.

``registration`` checks the list. ``task_jobs`` turns tasks into jobs of the engine. ``reconcile`` compares them with
the stored jobs. ``callback_runner`` calls the callbacks. ``scheduler`` composes these. Other ways to use Chronos from
Python belong in ``chronos.sdk``.
"""

from chronos.declarative.errors import (
    CronCalculationError,
    CronExpressionInvalidError,
    DeclarativeError,
    FieldParseError,
    InvalidCronExpressionError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
    SchedulerAlreadyActiveError,
    SchedulerInitializationError,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskMissingFieldError,
    TaskTryDeserializeError,
)
from chronos.declarative.events import (
    PollingStarted,
    PollingStopped,
    PollingStopRequested,
    SchedulerEvent,
    SchedulerInitializationCompleted,
    SchedulerInitializationFailed,
    SchedulerInitializationStarted,
    SchedulerStopped,
    SchedulerStopRequested,
    TaskRetryPreempted,
    TaskRetryStarted,
    TaskRunCompleted,
    TaskRunFailed,
    TaskRunStarted,
)
from chronos.declarative.scheduler import Scheduler
from chronos.declarative.task_jobs import DeclaredTaskState
from chronos.declarative.task_state import read_states

__all__ = [
    "CronCalculationError",
    "CronExpressionInvalidError",
    "DeclarativeError",
    "DeclaredTaskState",
    "FieldParseError",
    "InvalidCronExpressionError",
    "InvalidRegistrationError",
    "NegativeRetryDelayError",
    "PollingStarted",
    "PollingStopRequested",
    "PollingStopped",
    "RegistrationShapeError",
    "RegistrationsNotArrayError",
    "ScheduleDuplicateTaskError",
    "Scheduler",
    "SchedulerAlreadyActiveError",
    "SchedulerEvent",
    "SchedulerInitializationCompleted",
    "SchedulerInitializationError",
    "SchedulerInitializationFailed",
    "SchedulerInitializationStarted",
    "SchedulerStopRequested",
    "SchedulerStopped",
    "TaskInvalidStructureError",
    "TaskInvalidTypeError",
    "TaskInvalidValueError",
    "TaskMissingFieldError",
    "TaskRetryPreempted",
    "TaskRetryStarted",
    "TaskRunCompleted",
    "TaskRunFailed",
    "TaskRunStarted",
    "TaskTryDeserializeError",
    "read_states",
]
