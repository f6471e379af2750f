"""The declarative scheduler: a list of tasks in, and they run; ``initialize`` and ``stop`` are all there is.

``registration`` says what may be registered, ``tasks`` how it is stored as jobs of the engine, ``overrides`` how it is
brought together with what is stored, ``callbacks`` how it is run, ``scheduler`` puts these together.
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
    Event,
    PollingStarted,
    PollingStopped,
    PollingStopRequested,
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
from chronos.declarative.records import read_states
from chronos.declarative.scheduler import Scheduler
from chronos.declarative.tasks import TaskState

__all__ = [
    "CronCalculationError",
    "CronExpressionInvalidError",
    "DeclarativeError",
    "Event",
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
    "TaskState",
    "TaskTryDeserializeError",
    "read_states",
]
