"""The typed properties of `FollowTimeline`, as a stage and what a stage cannot name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from aws_cdk import Duration, RemovalPolicy, Token
from aws_cdk import aws_iam as iam

from ..settings.checks import StageError
from ..settings.stages import Stage
from .users import Users

# `cdk deploy -c fanfold:local=true` deploys to an engine on this machine.
LOCAL_CONTEXT: Final = "fanfold:local"

_KEEPING: Final = {
    RemovalPolicy.DESTROY: False,
    RemovalPolicy.RETAIN: True,
    RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE: True,
}


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What may be chosen of the tables, each with its meaning in `Stage`."""

    point_in_time_recovery: bool = True
    # Off at first: a protected table left by a failed first deploy is in the way of the next one.
    deletion_protection: bool = False
    contributor_insights: bool = False
    streams: bool = False
    max_write_request_units: int | None = None
    write_quota: int = Stage.write_quota
    daily_write_units: int | None = None


@dataclass(frozen=True)
class Sender:
    """Who may send to the publish queue for these publishers and users, and for no others.

    Each is an id, or a prefix of ids with `*` behind it; so are the `ref_ids` that it may take.
    `sender_id` is what SQS calls the sender: the unique id of a role or user, or an account.
    """

    sender_id: str
    publishers: tuple[str, ...]
    ref_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # A text would be read letter by letter, and the `*` in ("news-*") would mean everybody.
        for ids in (self.publishers, self.ref_ids):
            if isinstance(ids, str):
                raise StageError(
                    f"The ids of the sender {self.sender_id} must be several texts, such as "
                    f'("news-*",), not the text {ids!r}.'
                )
            if odd := [each for each in ids if "/" in each]:
                raise StageError(
                    f"{odd[0]!r} of the sender {self.sender_id} is neither an id nor the beginning "
                    "of ids with a * behind it; name ref_ids by `ref_ids=`."
                )
        if set("=,") & set(self.sender_id):
            raise StageError(
                f"'senders' must be like AROAEXAMPLEID=news-* tv, so {self.sender_id!r} cannot be "
                "named: it has a = or a comma."
            )

    @classmethod
    def role(cls, role: iam.Role, *publishers: str, ref_ids: tuple[str, ...] = ()) -> "Sender":
        if not hasattr(role, "role_id"):
            raise StageError(
                "Only a role that this app makes tells its unique id. That of another one says "
                "`aws iam get-role --role-name NAME --query Role.RoleId`: give it to Sender(…)."
            )
        return cls(role.role_id, publishers, ref_ids)

    @property
    def text(self) -> str:
        taken = f"/{' '.join(self.ref_ids)}" if self.ref_ids else ""
        return f"{self.sender_id}={' '.join(self.publishers)}{taken}"


@dataclass(frozen=True, kw_only=True)
class Properties:
    """The properties that override a stage's; None leaves the stage as it is."""

    name: str | None = None
    users: Users | None = None
    retention: Duration | None = None
    longest_retention: Duration | None = None
    removal_policy: RemovalPolicy | None = None
    tables: TableOptions | None = None
    cors_origins: Sequence[str] | None = None
    concurrency: int | None = None
    channel_threshold: int | None = None
    tags: Mapping[str, str] | None = None
    senders: Sequence[Sender] | None = None
    has_alarm_topic: bool = False

    def applied_to(self, stage: Stage) -> Stage:
        """The stage with these properties; raises `StageError`."""
        same = ("name", "concurrency", "channel_threshold")
        changed: dict[str, Any] = {
            name: value for name in same if (value := getattr(self, name)) is not None
        }
        if self.retention is not None:
            changed["retention_days"] = _days("retention", self.retention)
        if self.longest_retention is not None:
            changed["longest_retention_days"] = _days("longest_retention", self.longest_retention)
        if self.removal_policy is not None:
            changed["keep_data"] = _keeps(self.removal_policy)
        if self.cors_origins is not None:
            changed["cors_origins"] = tuple(self.cors_origins)
        if self.tags is not None:
            changed["tags"] = tuple(f"{name}={value}" for name, value in self.tags.items())
        if self.senders is not None:
            if not self.senders:
                raise StageError(
                    "'senders' is empty, which would bind nobody: name those who may send, or "
                    "leave it out, and whoever may send acts for everybody."
                )
            changed["senders"] = tuple(each.text for each in self.senders)
        if self.has_alarm_topic:
            changed["alarms_unwatched"] = True  # the topic's owner watches it
        if self.tables is not None:
            changed.update(_of_tables(self.tables))
        stage = replace(stage, **changed)
        return stage if self.users is None else self.users.applied_to(stage)


def embedded(name: str) -> Stage:
    """The stage of an embedded timeline: data is kept, and its topic can be watched."""
    return Stage(name=name, keep_data=True, first_deploy=True, alarms_unwatched=True)


def _of_tables(options: TableOptions) -> dict[str, Any]:
    chosen = {field.name: getattr(options, field.name) for field in fields(options)}
    return {"first_deploy": not chosen.pop("deletion_protection"), **chosen}


def _days(name: str, given: Duration) -> int:
    seconds = None if Token.is_unresolved(given) else given.to_seconds()
    if seconds is None or seconds % 86_400:
        raise StageError(f"{name!r} must be a whole number of days, such as Duration.days(30).")
    return int(seconds) // 86_400


def _keeps(policy: RemovalPolicy) -> bool:
    try:
        return _KEEPING[policy]
    except KeyError:
        known = ", ".join(each.name for each in _KEEPING)
        raise StageError(f"'removal_policy' must be one of {known}, not {policy.name}.") from None
