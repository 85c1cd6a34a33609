"""Background jobs as rows in the database you already have."""

from rowcall.app import Rowcall
from rowcall.config import VERSION
from rowcall.context import Context, current
from rowcall.errors import (
    Cancel,
    DuplicateJob,
    DuplicateTask,
    Fail,
    InvalidArguments,
    InvalidOption,
    JobCancelled,
    JobFailed,
    JobNotFound,
    LeaseLost,
    Retry,
    RowcallError,
    SchemaMismatch,
    Snooze,
    StoreUnavailable,
    UnknownTask,
    WrongState,
)
from rowcall.job import (
    Attempt,
    ErrorGroup,
    Event,
    InProgress,
    Job,
    Kept,
    Pace,
    Page,
    Percentiles,
    Pruned,
    RetentionReport,
    Retries,
    Stats,
    Status,
    Summary,
    WorkerInfo,
)
from rowcall.limits import Limit
from rowcall.observe.logs import JobLogFilter, JsonLogFormatter
from rowcall.retention import Retention
from rowcall.retry import Backoff

__version__ = VERSION

__all__ = [
    "Attempt",
    "Backoff",
    "Cancel",
    "Context",
    "DuplicateJob",
    "DuplicateTask",
    "ErrorGroup",
    "Event",
    "Fail",
    "InProgress",
    "InvalidArguments",
    "InvalidOption",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobLogFilter",
    "JobNotFound",
    "JsonLogFormatter",
    "Kept",
    "LeaseLost",
    "Limit",
    "Pace",
    "Page",
    "Percentiles",
    "Pruned",
    "Retention",
    "RetentionReport",
    "Retries",
    "Retry",
    "Rowcall",
    "RowcallError",
    "SchemaMismatch",
    "Snooze",
    "Stats",
    "Status",
    "StoreUnavailable",
    "Summary",
    "UnknownTask",
    "WorkerInfo",
    "WrongState",
    "current",
]
