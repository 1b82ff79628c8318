"""Spans of time: of requests, orders and invocations."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(eq=False)
class Span:
    """Something that takes time, in epoch milliseconds; it may never end."""

    begun_ms: float
    ended_ms: float = math.inf
    trouble: int = 0  # calls of an invocation that failed or were slow
