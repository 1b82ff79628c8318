"""What differs between one deployment and another, as data; `-c field=value` overrides a field."""

import difflib
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Any, Final

from fanfold import names
from fanfold.budgets import (
    DEFAULT_WRITE_CAPACITY,
    MAX_WRITE_CAPACITY,
    MIN_WRITE_CAPACITY,
    Budget,
)
from fanfold.settings import HIGHEST_LEVEL, Settings

# Lambda's event source mapping takes no other value of MaximumConcurrency.
MIN_CONCURRENCY: Final = 2
MAX_CONCURRENCY: Final = 1000
# What a new on-demand table can take anyway; DynamoDB refuses a smaller warm throughput.
MIN_WARM_WRITE_UNITS: Final = 4000
# Ten times what an account has unless it asks for more.
MAX_REQUESTS_PER_SECOND: Final = 100_000
# The periods that CloudWatch Logs knows, up to two years.
LOG_RETENTION_DAYS: Final = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731)


class StageError(ValueError):
    """A stage that cannot be deployed as it was asked for; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One deployment. A field is overridden by the context value of the same name."""

    name: str

    # Deletion protection on tables and user pool, and RETAIN on all that holds data.
    keep_data: bool
    point_in_time_recovery: bool = True
    log_retention_days: int = 30

    retention_days: int = Settings.retention_days
    max_follows: int = Settings.max_follows
    # A publisher's followers grow to 2^max_level write shards at most.
    max_level: int = Settings.max_level

    # Who may call: a Cognito pool of the stack's own, or any OIDC issuer.
    user_pool: bool = False
    jwt_issuer: str | None = None
    jwt_audience: tuple[str, ...] = ()
    user_claim: str = Settings.user_claim
    # A share of the account's 10,000, so that this API cannot take it all from its neighbours.
    requests_per_second: int = 2_000
    # Browsers of these origins may call; none by default.
    cors_origins: tuple[str, ...] = ()

    # Of the two tables that take the bursts, timelines and followers. Warm throughput is billed
    # once and can never be lowered; the maximum is a fuse on cost.
    warm_write_units: int | None = None
    max_write_request_units: int | None = None

    # CloudWatch shows which keys are throttled, of the tables where one may run hot. Billed by the
    # month, and by the throttled request.
    contributor_insights: bool = False

    # What speaks to DynamoDB in DELIVER and QUERY. boto3 is slower and dearer, and tried by all.
    transport: str = Settings.transport

    # How many workers of a queue run at a time. Where a lane says nothing, its number follows from
    # the write capacity; see `budget`.
    publish_concurrency: int = 10
    express_concurrency: int | None = None
    bulk_concurrency: int | None = None
    relation_concurrency: int | None = None

    # Told of every alarm, after confirming the subscription.
    alarm_email: str | None = None
    # Told too, through Amazon Q in chat applications; somebody has to authorize the workspace
    # there once, by hand. Both or neither.
    slack_workspace_id: str | None = None
    slack_channel_id: str | None = None

    # What the functions run on, and the wheels that fit it.
    runtime: str = "python3.14"
    architecture: str = "arm64"
    wheel_platform: str = "aarch64-manylinux_2_28"

    @property
    def python_version(self) -> str:
        """The Python version of the runtime, as in `3.14`."""
        return self.runtime.removeprefix("python")

    @property
    def write_capacity(self) -> int:
        """Write units a second that the timelines table is taken to have, once it is warm."""
        return self.max_write_request_units or self.warm_write_units or DEFAULT_WRITE_CAPACITY

    @property
    def budget(self) -> Budget:
        """Workers and rates of the lanes; raises `ValueError` if bulk has too many workers."""
        return Budget.of(
            self.write_capacity,
            express_workers=self.express_concurrency,
            bulk_workers=self.bulk_concurrency,
            relation_workers=self.relation_concurrency,
        )

    def check(self) -> None:
        """Raise `StageError` with a sentence that says what to do, if this cannot be deployed."""
        _check_numbers(self)
        _check_budget(self)
        _check_users(self)
        if self.log_retention_days not in LOG_RETENTION_DAYS:
            known = ", ".join(map(str, LOG_RETENTION_DAYS))
            raise StageError(f"'log_retention_days' must be one of {known}.")
        if any(not _is_origin(origin) for origin in self.cors_origins):
            raise StageError(
                "'cors_origins' must be origins such as https://app.example.com, with commas "
                "between them and no path."
            )
        if self.alarm_email is not None and not re.fullmatch(r"[^@\s]+@[^@\s]+", self.alarm_email):
            raise StageError("'alarm_email' must be an e-mail address.")
        _check_slack(self)


DEV: Final = Stage(name="dev", keep_data=False, user_pool=True, log_retention_days=7)

# Users are the one thing that it cannot choose for its operator: a pool is billed per user.
PROD: Final = Stage(name="prod", keep_data=True, log_retention_days=90)


_ARM: Final = platform.machine().lower() in ("aarch64", "arm64")
_WHEELS: Final = "apple-darwin" if sys.platform == "darwin" else "manylinux_2_28"

# A local engine runs the functions as processes of this machine.
LOCAL: Final = replace(
    DEV,
    name="local",
    runtime=f"python{sys.version_info.major}.{sys.version_info.minor}",
    architecture="arm64" if _ARM else "x86_64",
    wheel_platform=f"{'aarch64' if _ARM else 'x86_64'}-{_WHEELS}",
)

STAGES: Final = {stage.name: stage for stage in (DEV, PROD, LOCAL)}

# What belongs to a stage itself: another stage is data here, not a context value.
_FIXED: Final = ("name", "runtime", "architecture", "wheel_platform")


def choose(context: Mapping[str, Any]) -> Stage:
    """The stage that the context names, with its overrides; raises `StageError`."""
    _check_keys(context)
    name = context.get("stage") or DEV.name
    stage = STAGES.get(str(name))
    if stage is None:
        raise StageError(f"There is no stage {name!r}; choose one of {', '.join(STAGES)}.")
    overrides = {
        field.name: _read(field, value)
        for field in fields(Stage)
        if field.name not in _FIXED and (value := context.get(field.name)) is not None
    }
    chosen = replace(stage, **overrides)
    chosen.check()
    return chosen


def _check_keys(context: Mapping[str, Any]) -> None:
    """Refuse a key that looks like one of ours and is none: CDK would ignore it without a word."""
    known = ["stage", *(field.name for field in fields(Stage))]
    for key in context:
        # CDK's own keys have an @, a colon or a hyphen in them.
        if re.fullmatch(r"[a-z][a-z_]*", key) and key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            meant = f"did you mean '{close[0]}'?" if close else f"there are {', '.join(known)}."
            raise StageError(f"There is no context value '{key}'; {meant}")


def _read(field: Field[Any], value: Any) -> Any:
    """A context value as its field's type: text from the command line, anything from cdk.json."""
    text = str(value).strip()
    if field.type is bool:
        if text.lower() not in ("true", "false"):
            raise StageError(f"{field.name!r} must be true or false, not {text!r}.")
        return text.lower() == "true"
    if field.type in (int, int | None):
        if not re.fullmatch(r"-?[0-9]+", text):
            raise StageError(f"{field.name!r} must be a whole number, not {text!r}.")
        return int(text)
    if field.type == tuple[str, ...]:
        parts = value if isinstance(value, list) else text.split(",")
        return tuple(part for part in (str(part).strip() for part in parts) if part)
    if not text:
        raise StageError(f"{field.name!r} is empty; give it a value, or leave it out.")
    return text


def _check_numbers(stage: Stage) -> None:
    bounds: dict[str, tuple[int, int]] = {
        "retention_days": (1, 3650),
        "max_follows": (1, 1_000_000),
        "max_level": (0, HIGHEST_LEVEL),
        "warm_write_units": (MIN_WARM_WRITE_UNITS, MAX_WRITE_CAPACITY),
        "max_write_request_units": (MIN_WRITE_CAPACITY, MAX_WRITE_CAPACITY),
        "requests_per_second": (10, MAX_REQUESTS_PER_SECOND),
        "publish_concurrency": (MIN_CONCURRENCY, MAX_CONCURRENCY),
        "express_concurrency": (MIN_CONCURRENCY, MAX_CONCURRENCY),
        "bulk_concurrency": (MIN_CONCURRENCY, MAX_CONCURRENCY),
        "relation_concurrency": (MIN_CONCURRENCY, MAX_CONCURRENCY),
    }
    for name, (low, high) in bounds.items():
        value = getattr(stage, name)
        if value is not None and not low <= value <= high:
            raise StageError(f"{name!r} must be from {low} to {high}, not {value}.")


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
    if not re.fullmatch(r"[A-Za-z0-9_:./-]{1,128}", stage.user_claim):
        raise StageError("'user_claim' must be the name of a claim of the token, such as sub.")
    if stage.user_pool:
        if stage.jwt_issuer or stage.jwt_audience:
            raise StageError(
                "Users come either from the stack's own pool or from an issuer: give "
                "-c user_pool=false beside 'jwt_issuer' and 'jwt_audience', or leave those out."
            )
        return
    if stage.jwt_issuer is None:
        raise StageError(
            f"The stage {stage.name} does not say who its users are: name your OIDC issuer with "
            "-c jwt_issuer=https://… -c jwt_audience=…, or choose a Cognito user pool of the "
            "stack's own, which is billed per user, with -c user_pool=true."
        )
    if not re.fullmatch(r"https://[^\s/?#]+[^\s?#]*", stage.jwt_issuer):
        raise StageError(
            "'jwt_issuer' must be the https address that the tokens carry as `iss`, not "
            f"{stage.jwt_issuer!r}."
        )
    if not stage.jwt_audience:
        raise StageError(
            "'jwt_audience' is missing: name the audiences or client ids that tokens of the issuer "
            "carry, with commas between them; without, tokens for any other service would pass."
        )


def _check_slack(stage: Stage) -> None:
    workspace, channel = stage.slack_workspace_id, stage.slack_channel_id
    if workspace is None and channel is None:
        return
    if workspace is None or channel is None:
        raise StageError("Give 'slack_workspace_id' and 'slack_channel_id' both, or neither.")
    if stage.name == LOCAL.name:
        raise StageError(
            "A local engine sends nothing to Slack: leave 'slack_workspace_id' and "
            "'slack_channel_id' out."
        )
    if not re.fullmatch(r"[0-9A-Z]{1,255}", workspace):
        raise StageError("'slack_workspace_id' must be an id such as T0123ABCDEF, not a name.")
    if not re.fullmatch(r"[A-Za-z0-9]{1,255}", channel):
        raise StageError("'slack_channel_id' must be an id such as C0123ABCDEF, not a name.")


def _is_origin(text: str) -> bool:
    return re.fullmatch(r"https?://[^\s/?#*]+", text) is not None
