"""What differs between one deployment and another, as data."""

import platform
import re
import sys
from dataclasses import dataclass, replace
from typing import Final

from fanfold import names
from fanfold.budgets import (
    DEFAULT_WRITE_CAPACITY,
    MAX_WRITE_CAPACITY,
    MIN_WARM_WRITE_UNITS,
    MIN_WRITE_CAPACITY,
    Budget,
)
from fanfold.settings import HIGHEST_LEVEL, Settings
from infra import issuers

# Lambda's bounds for MaximumConcurrency of an event source mapping.
MIN_CONCURRENCY: Final = 2
MAX_CONCURRENCY: Final = 1000
# Ten times an account's default quota.
MAX_REQUESTS_PER_SECOND: Final = 100_000
# What Cognito's access tokens say about their user and no user can change. Cognito never gives a
# `sub` to a second user; an operator may give the `username` of a deleted user to another one.
POOL_CLAIMS: Final = ("sub", "username")
# The periods that CloudWatch Logs supports, up to two years.
LOG_RETENTION_DAYS: Final = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731)


class StageError(ValueError):
    """The stage cannot be deployed like this; the message says what to change."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One deployment. A context value overrides the field of the same name."""

    name: str

    # Protects stack, tables and user pool from deletion, and retains all that holds data.
    keep_data: bool
    # Protections wait for the next deploy. DynamoDB deletes no protected table, so a first deploy
    # that fails with them leaves a stack that cannot be deployed again.
    first_deploy: bool = False
    point_in_time_recovery: bool = True
    log_retention_days: int = 30

    retention_days: int = Settings.retention_days
    max_follows: int = Settings.max_follows
    # A publisher has at most 2^max_level write shards.
    max_level: int = Settings.max_level

    # Users come from a Cognito pool of the stack's own, or from an OIDC issuer that `issuers` knows
    # no fault of.
    user_pool: bool = False
    jwt_issuer: str | None = None
    jwt_audience: tuple[str, ...] = ()
    user_claim: str = Settings.user_claim
    # Of the account's 10,000, so that this API leaves the rest to the others.
    requests_per_second: int = 2_000
    # The origins of browser apps.
    cors_origins: tuple[str, ...] = ()

    # Of the tables that take bursts (`names.Table.takes_bursts`). `fanfold warm` prepares them for
    # the first, and no deploy does: it can never be lowered, so a deploy could not be rolled back.
    # The maximum limits the cost.
    warm_write_units: int | None = None
    max_write_request_units: int | None = None
    # Write units a second that AWS lets one table of this account take.
    write_quota: int = DEFAULT_WRITE_CAPACITY

    # CloudWatch records throttled keys (`names.Table.keys_run_hot`). Billed by the month, and by
    # the throttled request.
    contributor_insights: bool = False

    # How DELIVER and QUERY call AWS. boto3 is slower and costs more, but everybody uses it.
    transport: str = Settings.transport

    # Concurrent workers of a queue. The default of a lane and of RELATE follows from the write
    # capacity; see `budget`.
    publish_concurrency: int = 10
    express_concurrency: int | None = None
    bulk_concurrency: int | None = None
    relation_concurrency: int | None = None

    # A post for many followers that is still under way after so many days raises an alarm. More
    # than a large event takes, and well before its messages expire.
    large_fanout_days: int = 4
    # Gets every alarm, once the subscription is confirmed.
    alarm_email: str | None = None
    # Gets them too, through Amazon Q in chat applications, where somebody must authorize the
    # workspace once by hand. Give both or neither.
    slack_workspace_id: str | None = None
    slack_channel_id: str | None = None
    # Says that the alarms of a stage that keeps its data need tell nobody.
    alarms_unwatched: bool = False

    # The functions' runtime, and the platform of its wheels.
    runtime: str = "python3.14"
    architecture: str = "arm64"
    wheel_platform: str = "aarch64-manylinux_2_28"
    # Whether CloudFormation knows alarms on metric math.
    metric_math: bool = True

    @property
    def python_version(self) -> str:
        """The runtime's version, such as `3.14`."""
        return self.runtime.removeprefix("python")

    @property
    def is_protected(self) -> bool:
        """Whether nobody can delete the stack, its tables and its pool by one call."""
        return self.keep_data and not self.first_deploy

    @property
    def write_capacity(self) -> int:
        """Assumed write units a second of the timelines table, once it is warm."""
        return self.max_write_request_units or self.warm_write_units or DEFAULT_WRITE_CAPACITY

    @property
    def budget(self) -> Budget:
        """Workers and rates; raises `ValueError` if bulk has too many workers."""
        return Budget.of(
            self.write_capacity,
            express_workers=self.express_concurrency,
            bulk_workers=self.bulk_concurrency,
            relation_workers=self.relation_concurrency,
        )

    def check(self) -> None:
        """Raise `StageError` if this cannot be deployed."""
        _check_numbers(self)
        _check_quota(self)
        _check_texts(self)
        _check_budget(self)
        _check_users(self)
        if self.log_retention_days not in LOG_RETENTION_DAYS:
            known = ", ".join(map(str, LOG_RETENTION_DAYS))
            raise StageError(f"'log_retention_days' must be one of {known}.")
        if not all(re.fullmatch(r"https?://[^\s/?#*]+", origin) for origin in self.cors_origins):
            raise StageError(
                "'cors_origins' must be origins such as https://app.example.com, with commas "
                "between them and no path."
            )
        _check_watchers(self)


DEV: Final = Stage(name="dev", keep_data=False, user_pool=True, log_retention_days=7)

# Without users: its operator must choose, because a pool is billed per user.
PROD: Final = Stage(name="prod", keep_data=True, log_retention_days=90)


_ARM: Final = platform.machine().lower() in ("aarch64", "arm64")
_WHEELS: Final = "apple-darwin" if sys.platform == "darwin" else "manylinux_2_28"

# A local engine runs the functions as processes on this machine.
LOCAL: Final = replace(
    DEV,
    name="local",
    runtime=f"python{sys.version_info.major}.{sys.version_info.minor}",
    architecture="arm64" if _ARM else "x86_64",
    wheel_platform=f"{'aarch64' if _ARM else 'x86_64'}-{_WHEELS}",
    metric_math=False,
)

STAGES: Final = {stage.name: stage for stage in (DEV, PROD, LOCAL)}


def _check_numbers(stage: Stage) -> None:
    concurrency = (MIN_CONCURRENCY, MAX_CONCURRENCY)
    bounds: dict[str, tuple[int, int]] = {
        "retention_days": (1, 3650),
        "max_follows": (1, 1_000_000),
        "max_level": (0, HIGHEST_LEVEL),
        "warm_write_units": (MIN_WARM_WRITE_UNITS, MAX_WRITE_CAPACITY),
        "max_write_request_units": (MIN_WRITE_CAPACITY, MAX_WRITE_CAPACITY),
        "write_quota": (DEFAULT_WRITE_CAPACITY, MAX_WRITE_CAPACITY),
        # Queues keep a message for 14 days.
        "large_fanout_days": (1, 13),
        "requests_per_second": (10, MAX_REQUESTS_PER_SECOND),
        "publish_concurrency": concurrency,
        "express_concurrency": concurrency,
        "bulk_concurrency": concurrency,
        "relation_concurrency": concurrency,
    }
    for name, (low, high) in bounds.items():
        value = getattr(stage, name)
        if value is not None and not low <= value <= high:
            raise StageError(f"{name!r} must be from {low} to {high}, not {value}.")


def _check_quota(stage: Stage) -> None:
    for name in ("warm_write_units", "max_write_request_units"):
        units = getattr(stage, name)
        if units is not None and units > stage.write_quota:
            raise StageError(
                f"{name!r} is {units:,}, above the {stage.write_quota:,} write units a second that "
                "AWS lets one table take: ask AWS for a higher quota of the account, and once you "
                f"have it, say so with -c write_quota={units}."
            )


def _check_texts(stage: Stage) -> None:
    rules = {
        "user_claim": (r"[A-Za-z0-9_:./-]{1,128}", "the name of a claim of the token, such as sub"),
        "alarm_email": (r"[^@\s]+@[^@\s]+", "an e-mail address"),
        "slack_workspace_id": (r"[0-9A-Z]{1,255}", "an id such as T0123ABCDEF, not a name"),
        "slack_channel_id": (r"[A-Za-z0-9]{1,255}", "an id such as C0123ABCDEF, not a name"),
    }
    for name, (pattern, kind) in rules.items():
        value = getattr(stage, name)
        if value is not None and not re.fullmatch(pattern, value):
            raise StageError(f"{name!r} must be {kind}.")


def _check_budget(stage: Stage) -> None:
    if stage.transport not in names.TRANSPORTS:
        raise StageError(
            f"'transport' must be one of {', '.join(names.TRANSPORTS)}, not {stage.transport!r}."
        )
    try:
        _ = stage.budget
    except ValueError as error:
        raise StageError(f"'bulk_concurrency' is too high: {error}") from None


def _check_users(stage: Stage) -> None:
    if stage.user_pool:
        if stage.jwt_issuer or stage.jwt_audience:
            raise StageError(
                "Users come either from the stack's own pool or from an issuer: give "
                "-c user_pool=false beside 'jwt_issuer' and 'jwt_audience', or leave those out."
            )
        if stage.user_claim not in POOL_CLAIMS:
            raise StageError(
                f"'user_claim' must be one of {', '.join(POOL_CLAIMS)} with a pool of the stack's "
                f"own, not {stage.user_claim!r}: its access tokens hold no other claim that users "
                "cannot choose themselves, and whoever chooses it reads that user's timeline."
            )
        return
    if stage.jwt_issuer is None:
        raise StageError(
            f"The stage {stage.name} does not say who its users are: name your OIDC issuer "
            f"({issuers.REQUIRED}) with -c jwt_issuer=https://… -c jwt_audience=…, or choose a "
            "Cognito user pool of the stack's own, which is billed per user, with "
            "-c user_pool=true."
        )
    if fault := issuers.fault(stage.jwt_issuer):
        raise StageError(fault)
    if not stage.jwt_audience:
        raise StageError(
            "'jwt_audience' is missing: name the audiences or client ids that tokens of the issuer "
            "carry, with commas between them; without, tokens for any other service would pass."
        )


def _check_watchers(stage: Stage) -> None:
    workspace, channel = stage.slack_workspace_id, stage.slack_channel_id
    if (workspace is None) != (channel is None):
        raise StageError("Give 'slack_workspace_id' and 'slack_channel_id' both, or neither.")
    if workspace is not None and stage.name == LOCAL.name:
        raise StageError(
            "A local engine sends nothing to Slack: leave 'slack_workspace_id' and "
            "'slack_channel_id' out."
        )
    if stage.keep_data and not (stage.alarm_email or channel or stage.alarms_unwatched):
        raise StageError(
            f"Nobody would hear the alarms of the stage {stage.name}: give -c alarm_email=… for an "
            "e-mail, or -c slack_workspace_id=… -c slack_channel_id=… for Slack. If you watch them "
            "in another way, say so with -c alarms_unwatched=true."
        )
