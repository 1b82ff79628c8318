"""Concurrent calls by threads, through either library."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeAlias

from fanfold.aws.retries import for_each

# Makes calls of a client at the same time: pairs of its operation and its request. Returns the
# answers in their order, or raises the error of one.
Together: TypeAlias = Callable[..., Sequence[Any]]


def pool(count: int) -> Executor:
    """A thread pool of the caller's own, for `count` concurrent calls."""
    return ThreadPoolExecutor(count)


def together(
    client: Any, threads: Executor | None, *calls: tuple[str, dict[str, Any]]
) -> list[Any]:
    """The answers to calls, such as `Query`, made at the same time if there are threads."""

    def make(call: tuple[str, dict[str, Any]]) -> Any:
        operation, request = call
        return getattr(client, _method(operation))(**request)

    return list(for_each(threads, make, calls))


def _method(operation: str) -> str:
    """The name of a client's method, such as `batch_get_item`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()
