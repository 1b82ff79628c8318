"""The logger of all functions: no line holds a token, a post, a cursor or who reads what.

Texts of errors may quote what a caller has sent. So a line shows an error's name and place in the
code, and its words only if they are ours or AWS's own.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from threading import RLock
from types import TracebackType
from typing import Any, TypeAlias

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from fanfold import invariants
from fanfold.errors import FanfoldError

# Held while a line is written. `print` makes two writes, and another thread's line could come
# between: it would be no JSON to CloudWatch, and its metrics would be lost.
writing = RLock()

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

# Packages whose errors name operations, hosts and reasons. But botocore's validation of a request
# quotes its values.
_PLAIN = frozenset({"fanfold", "botocore", "urllib3", "pycurl"})
_QUOTING = frozenset({"ParamValidationError"})
# Parts of AWS's error codes whose messages are plain. Other messages quote an invalid value, or the
# headers of a request with a wrong signature, with the session's token.
_PLAIN_CODES = (
    "AccessDenied",
    "DoesNotExist",
    "Exceeded",
    "Internal",
    "KMS",
    "Kms",
    "NonExistent",
    "NotFound",
    "Throttl",
    "Transaction",
    "Unavailable",
)


def shown(error: BaseException) -> str:
    """What a log may say of an error."""
    if isinstance(error, FanfoldError):
        return error.unquoted
    kind = type(error)
    response = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        code, message = (str(response["Error"].get(each, "")) for each in ("Code", "Message"))
        return f"{code}: {message}" if any(each in code for each in _PLAIN_CODES) else code
    if kind.__module__.partition(".")[0] in _PLAIN and kind.__name__ not in _QUOTING:
        return str(error)
    return kind.__name__


class _Formatter(LambdaPowertoolsFormatter):
    """Writes lines of JSON."""

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - logging's name
        """The traceback of an error and of its causes."""
        found: list[str] = []
        error = ei[1]
        while error is not None:
            frames = "".join(traceback.format_tb(error.__traceback__))
            found.append(f"{frames}{type(error).__name__}: {shown(error)}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\n\nThat came of, or after:\n\n".join(found)

    def serialize(self, log: Any) -> str:
        """One line; notes on an error are text like its words."""
        return super().serialize({k: v for k, v in log.items() if k != "exception_notes"})


def new_logger() -> Logger:
    """A module's logger; all of them write to one stream."""
    # Otherwise the words of an error are written a second time, in `stack_trace`.
    formatter: Any = _Formatter(serialize_stacktrace=False)
    logger = Logger(logger_formatter=formatter)
    logger.registered_handler.lock = writing
    return logger


def print_line(line: str) -> None:
    """Write a line that is no message of a logger."""
    with writing:
        print(line, flush=True)


def _tell_broken(name: str, ids: Mapping[str, object]) -> None:
    from functions._reports import report_broken  # no cold start pays for what never happens

    report_broken(name, ids)


invariants.report_to(_tell_broken)
