"""What differs between one deployment and another, as data."""

import platform
import re
import sys
from dataclasses import dataclass, replace
from typing import Final

from fanfold.budgets import DEFAULT_WRITE_CAPACITY, MIN_CONCURRENCY, Budget
from fanfold.settings import Settings

from . import stage_checks

# The id of the timeline in the app's own stack: a part of every logical id.
CONSTRUCT: Final = "Fanfold"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One deployment. A context value overrides the field of the same name."""

    name: str
    # Of the stack that the app makes. It changes no id of a resource.
    stack_name: str | None = None

    # Protects stack, tables and user pool from deletion, and retains all that holds data.
    keep_data: bool
    # Protections wait for the next deploy. DynamoDB deletes no protected table, so a first deploy
    # that fails with them leaves a stack that cannot be deployed again.
    first_deploy: bool = False
    point_in_time_recovery: bool = True
    # Of the stack; without it, a stage that keeps its data has it with the other protections.
    termination_protection: bool = False
    log_retention_days: int = 30

    retention_days: int = Settings.retention_days
    longest_retention_days: int = Settings.longest_retention_days
    max_follows: int = Settings.max_follows
    # Posts of one publisher; 0 for no limit.
    publishes_per_minute: int = Settings.publishes_per_minute
    # Follows of one user; 0 for no limit.
    follows_per_day: int = Settings.follows_per_day
    # From how many followers on a publisher gets a channel; 0 for no channels.
    channel_threshold: int = Settings.channel_threshold
    # How many of a publisher's newest posts a new follow brings.
    backfill: int = Settings.backfill
    # A publisher has at most 2^max_level write shards.
    max_level: int = Settings.max_level

    # Users come from a Cognito pool of the stack's own, or from an OIDC issuer that `issuers` knows
    # no fault of.
    user_pool: bool = False
    jwt_issuer: str | None = None
    jwt_audience: tuple[str, ...] = ()
    user_claim: str = Settings.user_claim
    # Whom each sender of the publish queue may act for, and the `ref_id` that it may take, such as
    # `AROAEXAMPLE=news-* tv/news:*`.
    senders: tuple[str, ...] = ()
    # Who may read posts apart from timelines.
    post_readers: str = Settings.post_readers
    # Who may see a publisher's followers.
    follower_readers: str = Settings.follower_readers
    # Of the account's 10,000, so that this API leaves the rest to the others.
    requests_per_second: int = 2_000
    # The origins of browser apps; the stage `local` may have `*`, which is all of them.
    cors_origins: tuple[str, ...] = ()

    # Of the tables that take bursts (`names.Table.takes_bursts`). They are warmed for the first by
    # hand, and no deploy does it: it can never be lowered, so a deploy could not be rolled back.
    # The maximum limits the cost.
    warm_write_units: int | None = None
    max_write_request_units: int | None = None
    # Write units a second that AWS lets one table of this account take.
    write_quota: int = DEFAULT_WRITE_CAPACITY

    # Write units of all tables within a day from which on an alarm rings.
    daily_write_units: int | None = None

    # CloudWatch records throttled keys (`names.Table.keys_run_hot`). Billed by the month, and by
    # the throttled request.
    contributor_insights: bool = False

    # What changes in tables that are `heard_by_others` is streamed, for systems beside this one.
    streams: bool = False

    # How the functions call AWS. boto3 is slower and costs more, but everybody uses it.
    transport: str = Settings.transport

    # Of the account's concurrent executions, those that this stage may take. Without it, as many as
    # the write capacity gives work to.
    concurrency: int | None = None
    # Concurrent workers of a queue. The defaults follow from the two; see `budget`.
    publish_concurrency: int | None = None
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

    # What a team asks of all that is deployed. The ARN of a key for tables, queues, logs and topic.
    kms_key: str | None = None
    # The name or the ARN of a managed policy that bounds every role.
    permissions_boundary: str | None = None
    # Where the functions run. Give all three or none.
    vpc_id: str | None = None
    subnet_ids: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    # The address of the API, with the ARN of its certificate; and whether the one that API Gateway
    # gives answers beside it.
    domain_name: str | None = None
    certificate: str | None = None
    default_endpoint: bool = True
    # Of all resources that can have them, as NAME=VALUE.
    tags: tuple[str, ...] = ()

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
        stage_checks.check(self)


# Fits a new account.
DEV: Final = Stage(
    name="dev",
    keep_data=False,
    user_pool=True,
    log_retention_days=7,
    concurrency=MIN_CONCURRENCY,
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
    name=stage_checks.LOCAL,
    # Development servers take a port of their own, and API Gateway knows no wildcard for ports. The
    # engine answers nobody beyond this machine, and a token is no cookie: a strange page has none.
    cors_origins=(stage_checks.ANY_ORIGIN,),
    # A walk-through shows `alice` then, and not the UUID that Cognito gives her.
    user_claim="username",
)

# For `make aws-verify`, which deletes it again. It gives its users their names, so the claim is not
# the `sub` that Cognito makes up.
VERIFY: Final = replace(DEV, name="verify", user_claim="username")

STAGES: Final = {stage.name: stage for stage in (DEV, PROD, LOCAL, VERIFY)}


def find(name: str) -> Stage | None:
    """The stage of this name; `verify-anna` is one like `verify`, with a stack of its own."""
    if re.fullmatch(rf"{VERIFY.name}-[a-z0-9]{{1,20}}", name):
        return replace(VERIFY, name=name)
    return STAGES.get(name)
