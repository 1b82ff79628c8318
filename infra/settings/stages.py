"""The settings that differ between deployments, as data."""

import platform
import re
import sys
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fanfold.budgets import (
    DEFAULT_WRITE_CAPACITY,
    MAX_WRITE_CAPACITY,
    MIN_CONCURRENCY,
    MIN_WARM_WRITE_UNITS,
    MIN_WORKERS,
    MIN_WRITE_CAPACITY,
    Budget,
)
from fanfold.settings import StageSettings, bounds, one_of, pattern

from . import checks

# The id of the timeline in the app's own stack: a part of every logical id.
CONSTRUCT: Final = "Fanfold"
DOMAIN_NAME: Final = r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}"
_Texts = tuple[str, ...]
# The most is Lambda's for MaximumConcurrency of an event source mapping.
_WORKERS: Final = bounds(MIN_WORKERS, 1000)


@dataclass(frozen=True, kw_only=True)
class Stage(StageSettings):
    """One deployment. A context value overrides the field of the same name.

    `checks` has the rules over several fields. docs/settings.md has the sentence below a field,
    also for fields above it without one.
    """

    # A part of names of stacks and metrics.
    name: Annotated[
        str, pattern(r"[A-Za-z][A-Za-z0-9-]{0,49}", "letters, digits and hyphens, such as staging")
    ]
    # It changes no id of a resource.
    stack_name: Annotated[
        str | None, pattern(r"[A-Za-z][A-Za-z0-9-]{0,127}", "letters, digits and hyphens")
    ] = None
    """Another name for the stack."""

    keep_data: bool
    """Keeps data when the stack is deleted, and protects tables."""
    # DynamoDB deletes no protected table, so a first deploy that fails with protections leaves a
    # stack that cannot be deployed again.
    first_deploy: bool = False
    """For a stack that keeps its data: protections wait for the next deploy."""
    point_in_time_recovery: bool = True
    """Point-in-time recovery of all tables."""
    # The periods that CloudWatch Logs supports, up to two years.
    log_retention_days: Annotated[
        int, one_of(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731)
    ] = 30
    """How long logs live."""

    user_pool: bool = False
    """Users come from a Cognito pool of the stack's own, which bills per user."""
    jwt_issuer: str | None = None
    jwt_audience: _Texts = ()
    """The OIDC issuer of the users, which [API Gateway can verify](api.md#http), and the audiences
    or client ids of its tokens."""
    senders: _Texts = ()
    """[Whom each sender of the publish queue may act for, and with which ids](api.md#who-may-send),
    such as `'AROAEXAMPLEID=news-* tv/news:*'`; nobody else may then send. An empty value is
    refused."""
    # The most is ten times an account's default quota.
    requests_per_second: Annotated[int, bounds(10, 100_000)] = 2_000
    """What each route of the API accepts, out of the account's 10,000, with which `fanfold
    preflight` compares it ([not measured yet](aws-verify.md#questions-that-it-does-not-ask):
    whether routes share it)."""
    # The stage `local` may have `*`, which is all of them.
    cors_origins: _Texts = ()
    """Browser origins that may call the API, such as `https://app.example.com`."""

    # Both of the tables that take bursts (`names.Table.takes_bursts`). They are warmed by hand, and
    # no deploy does it: it can never be lowered, so a deploy could not be rolled back.
    warm_write_units: Annotated[int | None, bounds(MIN_WARM_WRITE_UNITS, MAX_WRITE_CAPACITY)] = None
    """The capacity that the lanes divide. [Warm](operations.md#warm-tables) timelines and followers
    first: this is billed once and **cannot be lowered**."""
    # Limits the cost.
    max_write_request_units: Annotated[
        int | None, bounds(MIN_WRITE_CAPACITY, MAX_WRITE_CAPACITY)
    ] = None
    """The most write units a second of these tables."""
    write_quota: Annotated[int, bounds(DEFAULT_WRITE_CAPACITY, MAX_WRITE_CAPACITY)] = (
        DEFAULT_WRITE_CAPACITY
    )
    """The write units a second that AWS allows one table: the most for `warm_write_units` and
    `max_write_request_units`."""
    # The most is a day of ten tables and indexes that take all they can.
    daily_write_units: Annotated[int | None, bounds(1, 10 * 86_400 * MAX_WRITE_CAPACITY)] = None
    """[An alarm](operations.md#a-budget) rings at this many write units of all tables in a day."""

    # Of keys (`names.Table.keys_run_hot`). Billed by the month, and by the throttled request.
    contributor_insights: bool = False
    """CloudWatch shows throttled keys; billed."""
    # Of the tables that are `heard_by_others`.
    streams: bool = False
    """[Streams](embedding.md#streams) of entries and posts: outputs `TimelinesStreamArn`,
    `PostsStreamArn`."""

    # The most is a hundred times an account's default quota.
    concurrency: Annotated[int | None, bounds(MIN_CONCURRENCY, 100_000)] = None
    """How many of the account's concurrent executions the stage may take; none: what its workers
    need."""
    publish_concurrency: Annotated[int | None, _WORKERS] = None
    express_concurrency: Annotated[int | None, _WORKERS] = None
    bulk_concurrency: Annotated[int | None, _WORKERS] = None
    relation_concurrency: Annotated[int | None, _WORKERS] = None
    """Concurrent workers of a queue; by default derived from write capacity and `concurrency`."""

    # By default more than a large event takes, and well before its messages expire: queues keep
    # them for 14 days.
    large_fanout_days: Annotated[int, bounds(1, 13)] = 4
    """An alarm rings if a post for many followers takes longer."""
    alarm_email: Annotated[str | None, pattern(r"[^@\s]+@[^@\s]+", "an e-mail address")] = None
    """Receives every [alarm](operations.md#the-alarms), once the subscription is confirmed."""
    # Through Amazon Q in chat applications, where somebody must authorize the workspace once.
    slack_workspace_id: Annotated[
        str | None, pattern(r"[0-9A-Z]{1,255}", "an id such as T0123ABCDEF, not a name")
    ] = None
    slack_channel_id: Annotated[
        str | None, pattern(r"[A-Za-z0-9]{1,255}", "an id such as C0123ABCDEF, not a name")
    ] = None
    """The same, in a Slack channel."""
    alarms_unwatched: bool = False
    """Deploy a stage that keeps its data although its alarms notify nobody."""

    # What a team asks for, of all that is deployed.
    kms_key: Annotated[
        str | None,
        pattern(
            r"arn:[\w-]+:kms:[^:]+:\d{12}:key/(mrk-[0-9a-f]{32}|[0-9a-f-]{36})",
            "the ARN of a key, not an alias",
        ),
    ] = None
    """Encrypts tables, queues, logs and alarm topic; its policy must [let services use
    it](embedding.md#a-key-of-your-own)."""
    permissions_boundary: Annotated[
        str | None,
        pattern(
            r"arn:[\w-]+:iam::(\d{12}|aws):policy/\S+|[\w+=,.@-]{1,128}",
            "the name or the ARN of a managed policy",
        ),
    ] = None
    """Bounds every role."""
    vpc_id: Annotated[str | None, pattern(r"vpc-[0-9a-f]{8,17}", "an id such as vpc-0123abcd")] = (
        None
    )
    subnet_ids: Annotated[
        _Texts,
        pattern(r"subnet-[0-9a-f]{8,17}", "ids such as subnet-0123abcd, with commas between"),
    ] = ()
    security_group_ids: Annotated[
        _Texts, pattern(r"sg-[0-9a-f]{8,17}", "ids such as sg-0123abcd, with commas between")
    ] = ()
    """The functions run there; the [endpoints](embedding.md#in-a-vpc) must exist."""
    domain_name: Annotated[
        str | None, pattern(DOMAIN_NAME, "a name such as api.example.com, in lower case")
    ] = None
    certificate: Annotated[
        str | None,
        pattern(
            r"arn:[\w-]+:acm:[^:]+:\d{12}:certificate/[\w-]+", "the ARN of a certificate of ACM"
        ),
    ] = None
    """The address of the API."""
    default_endpoint: bool = True
    """Whether API Gateway's own address answers too."""
    # What all services take.
    tags: Annotated[
        _Texts,
        pattern(
            r"(?![aA][wW][sS]:)[\w .:/+@-]{1,128}=[\w .:/=+@-]{0,256}",
            "like team=feed,cost-center=4711: names do not begin with aws:",
        ),
    ] = ()
    """For all resources and the stack."""
    # Without it, a stage that keeps its data has it with the other protections.
    termination_protection: bool = False
    """For the stack; one that keeps data has it anyway."""

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
    def stack_id(self) -> str:
        """The name of the stack that the app makes."""
        return self.stack_name or f"Fanfold-{self.name}"

    @property
    def is_protected(self) -> bool:
        """Whether nobody can delete the stack, its tables and its pool by one call."""
        return self.keep_data and not self.first_deploy

    @property
    def tagged(self) -> dict[str, str]:
        """The tags by name."""
        return dict(tag.split("=", 1) for tag in self.tags)

    @property
    def write_capacity(self) -> int:
        """Assumed write units a second of the timelines table, once it is warm."""
        return self.max_write_request_units or self.warm_write_units or DEFAULT_WRITE_CAPACITY

    @property
    def budget(self) -> Budget:
        """Workers and rates; raises `ValueError` if there are too many workers."""
        return Budget.of(
            self.write_capacity,
            concurrency=self.concurrency,
            publish_workers=self.publish_concurrency,
            express_workers=self.express_concurrency,
            bulk_workers=self.bulk_concurrency,
            relation_workers=self.relation_concurrency,
        )

    def check(self) -> None:
        """Raise `StageError` if this cannot be deployed."""
        checks.check(self)


# Fits a new account.
DEV: Final = Stage(
    name="dev", keep_data=False, user_pool=True, log_retention_days=7, concurrency=MIN_CONCURRENCY
)

# Without users: its operator must choose, because a pool is billed per user.
PROD: Final = Stage(name="prod", keep_data=True, log_retention_days=90)


_ARM: Final = platform.machine().lower() in ("aarch64", "arm64")
_WHEELS: Final = "apple-darwin" if sys.platform == "darwin" else "manylinux_2_28"


def on_this_machine(stage: Stage) -> Stage:
    """The stage for a local engine, which runs the functions as processes on this machine."""
    return replace(
        stage,
        runtime=f"python{sys.version_info.major}.{sys.version_info.minor}",
        architecture="arm64" if _ARM else "x86_64",
        wheel_platform=f"{'aarch64' if _ARM else 'x86_64'}-{_WHEELS}",
        metric_math=False,
    )


LOCAL: Final = replace(
    on_this_machine(DEV),
    name=checks.LOCAL,
    # Development servers take a port of their own, and API Gateway knows no wildcard for ports. The
    # engine answers nobody beyond this machine, and a token is no cookie: a strange page has none.
    cors_origins=(checks.ANY_ORIGIN,),
    # A walk-through shows `alice` then, and not the UUID that Cognito gives her.
    user_claim="username",
)

# For `make aws-verify`, which deletes it again. It gives its users their names, so the claim is not
# the `sub` that Cognito makes up.
VERIFY: Final = replace(DEV, name="verify", user_claim="username", history=True)

STAGES: Final = {stage.name: stage for stage in (DEV, PROD, LOCAL, VERIFY)}


def find(name: str) -> Stage | None:
    """The stage of this name; `verify-anna` is one like `verify`, with a stack of its own."""
    if re.fullmatch(rf"{VERIFY.name}-[a-z0-9]{{1,20}}", name):
        return replace(VERIFY, name=name)
    return STAGES.get(name)
