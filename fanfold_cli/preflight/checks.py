"""Compares what a deploy wants with what was found. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from fanfold.budgets import DEFAULT_WRITE_CAPACITY, MIN_CONCURRENCY, room_of
from fanfold_cli.local.template import forgotten_days
from fanfold_cli.preflight.wanted import Slack, Wanted
from fanfold_cli.terminal import counted

RECOVERY = "docs/recovery.md"


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILS = "will fail"
    REFUSED = "refused"  # it would succeed and do harm


STOPS = (Status.FAILS, Status.REFUSED)


class Result(NamedTuple):
    """The result of a check, and what it means."""

    status: Status
    sentence: str


ok, warns = partial(Result, Status.OK), partial(Result, Status.WARNING)
fails, refuses = partial(Result, Status.FAILS), partial(Result, Status.REFUSED)


@dataclass(frozen=True)
class FoundTable:
    name: str
    is_protected: bool
    is_updating: bool
    warm_write_units: int  # 0 on an engine that has no such thing


@dataclass(frozen=True)
class FoundStack:
    """A stack of the account. Tables, pools (protected or not) and `unread` are by logical id.

    `subscriptions` are logical ids. `alarm_topic` is an ARN, or None before it is deployed.
    `unread` has the reasons why tables or pools could not be read.
    """

    status: str
    is_protected: bool
    tables: Mapping[str, FoundTable]
    pools: Mapping[str, bool]
    alarm_topic: str | None
    subscriptions: frozenset[str]
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_lived(self) -> bool:
        """Whether a deploy has ever succeeded, as far as the status shows."""
        return self.status not in ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE")

    def named(self, *, protected: bool) -> list[str]:
        """What is protected from deletion, or what is not."""
        tables = ((table.name, table.is_protected) for table in self.tables.values())
        found = (("the stack", self.is_protected), *tables, *self.pools.items())
        return [name for name, is_protected in found if is_protected == protected]


def unchecked(reason: object) -> Result:
    return warns(f"This could not be checked: {reason}")


def check_bootstrap(wanted: Wanted, found: int | None) -> Result:
    """`found` is the version of the bootstrap stack, None if there is none."""
    if found is None:
        return fails(
            "CDK has no bucket and no roles in this account and region: run `npx cdk bootstrap`."
        )
    if found < wanted.bootstrap_version:
        return fails(
            f"CDK's bucket and roles are of version {found}, and {wanted.bootstrap_version} is "
            "needed: run `npx cdk bootstrap` again."
        )
    return ok(f"CDK is bootstrapped, version {found}.")


def check_stack(wanted: Wanted, found: FoundStack | None, deploy: str) -> Result:
    """Whether the stack can take this deploy; `deploy` is the command of an ordinary deploy."""
    if found is None or found.status == "REVIEW_IN_PROGRESS":
        return _check_first(wanted, f"The stack {wanted.stack} does not exist yet.", deploy)
    where = f"The stack {wanted.stack} is in {found.status}"
    if found.status.endswith("_IN_PROGRESS"):
        return warns(f"{where}: another deploy is under way; wait for its end.")
    if found.status == "ROLLBACK_COMPLETE" and not found.is_protected:
        return _check_first(wanted, f"{where}: a first deploy failed. CDK creates it anew.", deploy)
    if found.status == "ROLLBACK_COMPLETE":
        return fails(
            f"{where} and protected, so that CDK cannot replace it: "
            f"run `aws cloudformation update-termination-protection --stack-name {wanted.stack} "
            f"--no-enable-termination-protection`, and go on with {RECOVERY}."
        )
    if found.status.endswith("FAILED") and found.status != "UPDATE_FAILED":
        return fails(f"{where}, and accepts no deploy: {RECOVERY} says what to do.")
    check = _check_protection(wanted, found, deploy)
    if found.unread and check.status not in STOPS:
        reasons = "; ".join(found.unread.values())
        check = warns(f"{check.sentence} These could not be checked: {reasons}")
    if found.status == "UPDATE_FAILED" and check.status not in STOPS:
        return warns(
            f"{where}: an update failed and was not rolled back. `cdk deploy` first asks to roll "
            "it back."
        )
    return check


def _check_first(wanted: Wanted, sentence: str, deploy: str) -> Result:
    if not wanted.keeps_data:
        return ok(sentence)
    if wanted.is_protected:
        return refuses(
            f"{sentence} If a first deploy with protections fails, it can be neither rolled back "
            "nor repeated: add -c first_deploy=true, and later deploy again without it."
        )
    return ok(f"{sentence} Once it is deployed, switch its protections on: `{deploy}`.")


def _check_protection(wanted: Wanted, found: FoundStack, deploy: str) -> Result:
    protected, unprotected = found.named(protected=True), found.named(protected=False)
    if wanted.is_protected and unprotected:
        return warns(
            f"Nothing protects {_listed(unprotected)} from deletion. This deploy switches that "
            f"on: `{deploy}`."
        )
    if wanted.is_protected:
        tables = counted(len(found.tables), "table")
        pools = f" and {counted(len(found.pools), 'pool')}" if found.pools else ""
        return ok(f"{wanted.stack} is protected from deletion, with {tables}{pools}.")
    if wanted.stack_is_protected and found.is_protected:
        protected = protected[1:]
    if protected:
        return refuses(
            f"This deploy would remove the protection of {_listed(protected)}: "
            + (
                f"leave first_deploy out, unless you are about to remove the stack: `{deploy}`."
                if wanted.keeps_data
                else "it is of a stage that keeps nothing. Is it the right stage?"
            )
        )
    if wanted.keeps_data:
        return warns(
            f"{wanted.stack} exists, and nothing protects it from deletion. Switch that on: "
            f"`{deploy}`."
        )
    return ok(f"{wanted.stack} exists; a stage that keeps nothing has no protection.")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def check_concurrency(wanted: Wanted, unreserved: int) -> Result:
    """`unreserved` is the concurrency that the account's functions share."""
    workers = wanted.workers
    have = f"The queues start up to {workers:,} workers, and Lambda has {unreserved:,} executions"
    cure = "Ask AWS for more"
    if unreserved >= MIN_CONCURRENCY:
        cure += f", or give -c concurrency={unreserved}"
    if workers > unreserved:
        return fails(
            f"{have} for all functions of the account: a message without a free one is received "
            f"again, and may become a dead letter though nothing is wrong with it. {cure}."
        )
    if workers > room_of(unreserved):
        return warns(
            f"{have} for all functions of the account: while all workers are busy, requests and "
            f"SWEEP get hardly any. {cure}."
        )
    return ok(f"{have}.")


def check_write_quota(wanted: Wanted, quota: int) -> Result:
    """`quota` is in write units a second, for one table."""
    have = f"The account lets one table take {quota:,} write units a second"
    for setting, units in (
        ("max_write_request_units", wanted.max_write_units),
        ("warm_write_units", wanted.warm_write_units),
    ):
        if units is not None and units > quota:
            return fails(
                f"{have}, and {setting} is {units:,}: ask AWS for a higher quota, or lower it."
            )
    limited = wanted.max_write_units or wanted.warm_write_units
    if limited is None and quota < DEFAULT_WRITE_CAPACITY:
        return warns(
            f"{have}, and the lanes divide {DEFAULT_WRITE_CAPACITY:,}, so bulk leaves nothing to "
            f"express: give -c max_write_request_units={quota}."
        )
    return ok(f"{have}.")


def check_requests(wanted: Wanted, account: int | None) -> Result:
    """`account` is the rate of all APIs of the account together; None if AWS does not say."""
    rate = wanted.requests_per_second
    if account is None:
        return ok("API Gateway does not say what the account's APIs may take.")
    have = f"All APIs of the account may take {account:,} requests a second"
    if rate > account:
        return warns(
            f"{have}, and requests_per_second is {rate:,}: beyond the account's rate API Gateway "
            "answers 429, to the other APIs as well. Ask AWS for a higher quota, or lower it."
        )
    return ok(f"{have}, and this one {rate:,} of them.")


def check_warmth(wanted: Wanted, found: FoundStack | None) -> Result:
    """Whether the tables with write bursts are as warm as the lanes assume."""
    units = wanted.warm_write_units
    if found and (unread := found.unread.keys() & wanted.bursting.values()):
        return unchecked("; ".join(found.unread[each] for each in sorted(unread)))
    tables = {
        table: found.tables[logical_id]
        for table, logical_id in wanted.bursting.items()
        if found is not None and logical_id in found.tables
    }
    if not tables:
        later = " Run this again after the deploy: it says how to warm them." if units else ""
        return ok(f"The tables do not exist yet.{later}")
    if found is not None and any(each.is_updating for each in found.tables.values()):
        return warns(
            "DynamoDB is changing a table, and a deploy that changes it too would fail: wait."
        )
    shown = ", ".join(f"{table} {each.warm_write_units:,}" for table, each in tables.items())
    have = f"Warm throughput of the tables, in write units a second: {shown}"
    colder = [each.name for each in tables.values() if units and each.warm_write_units < units]
    if colder:
        lines = " and ".join(
            f"`aws dynamodb update-table --table-name {table} --warm-throughput "
            f"WriteUnitsPerSecond={units}`"
            for table in colder
        )
        return warns(
            f"{have}. The lanes need {units:,}: run {lines}. AWS bills it once, and it can never "
            "be lowered. Then run this again before you deploy: DynamoDB takes a while to prepare "
            "a table."
        )
    return ok(f"{have}.")


def check_retention(wanted: Wanted, deployed: Mapping[str, int]) -> Result:
    """Whether this deploy knows how long entries have lived, as the `deployed` functions do."""
    if days := forgotten_days(deployed, wanted.entry_days):
        return refuses(
            f"Entries have lived for {days:,} days in {wanted.stack}, and this deploy would forget "
            "it: readers could see posts of publishers again whom they have unfollowed. Add "
            f"-c longest_retention_days={days} to this deploy and all later ones."
        )
    if not deployed.keys() & wanted.entry_days.keys():
        lived = max(deployed.values(), default=0)
        told = f"say {lived:,} days" if lived else "do not say"
        return warns(
            f"How long entries have lived in {wanted.stack} could not be compared: the deployed "
            f"stack has none of this deploy's functions, and its own {told}. If retention_days was "
            "ever longer, add -c longest_retention_days= with that value to this deploy and all "
            "later ones."
        )
    return ok("This deploy knows how long entries have lived.")


def check_roll_back(wanted: Wanted, found: Mapping[str, int]) -> Result:
    """Whether a release without private publishers may be deployed over these rows."""
    kept = [counted(count, kind) for kind, count in sorted(found.items())]
    kept += ["private_by_default"] if wanted.private_by_default else []
    if kept:
        return refuses(
            f"{wanted.stack} has {_listed(kept)}. A release without them would show private posts "
            "to everybody, and let blocked users follow; its rows would expire. Roll back to no "
            "release of before private publishers."
        )
    return ok("No request, block or private publisher would be ignored.")


def check_alarms(wanted: Wanted, found: FoundStack, confirmed: Mapping[str, bool]) -> Result:
    """Whether the alarms reach their addresses; `confirmed` says it for those of the topic."""
    made = {wanted.emails[each] for each in found.subscriptions if each in wanted.emails}
    addresses = {**dict.fromkeys(made, False), **confirmed}
    if deaf := sorted(address for address, hears in addresses.items() if not hears):
        return warns(
            f"No alarm reaches {_listed(deaf)}: not confirmed. Open the link in the mail from AWS, "
            f"which `aws sns subscribe --topic-arn {found.alarm_topic} --protocol email "
            "--notification-endpoint ADDRESS` sends again."
        )
    if new := sorted(set(wanted.emails.values()) - set(addresses)):
        return ok(
            f"This deploy subscribes {_listed(new)} to the alarms: confirm by the link in the "
            "mail from AWS."
        )
    if not addresses:
        return ok("No address is subscribed to the alarms.")
    hearing = counted(len(addresses), "address", "addresses")
    return ok(f"Alarms go to {hearing}, all confirmed.")


def check_slack(slack: Slack, region: str, configurations: list[str]) -> Result:
    """Whether the channel is free; `configurations` are the names of its configurations."""
    own = slack.configuration.format(region=region)
    if others := [name for name in configurations if name != own]:
        return fails(
            f"The channel {slack.channel} is taken by the configuration {_listed(others)}, and AWS "
            "accepts a channel only once in an account, across all regions: give another "
            "-c slack_channel_id=, or delete that configuration first."
        )
    return ok(f"No other configuration has the channel {slack.channel}.")
