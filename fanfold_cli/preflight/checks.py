"""Compares what a deploy wants with what was found. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

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


@dataclass(frozen=True)
class Check:
    name: str
    status: Status
    sentence: str


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

    def unprotected(self) -> list[str]:
        names = [] if self.is_protected else ["the stack"]
        names += [table.name for table in self.tables.values() if not table.is_protected]
        return names + [pool for pool, is_protected in self.pools.items() if not is_protected]

    def protected(self) -> list[str]:
        names = ["the stack"] if self.is_protected else []
        names += [table.name for table in self.tables.values() if table.is_protected]
        return names + [pool for pool, is_protected in self.pools.items() if is_protected]


def unchecked(name: str, reason: object) -> Check:
    return Check(name, Status.WARNING, f"This could not be checked: {reason}")


def check_bootstrap(wanted: Wanted, found: int | None) -> Check:
    """`found` is the version of the bootstrap stack, None if there is none."""
    name = "bootstrap"
    if found is None:
        return Check(
            name,
            Status.FAILS,
            "CDK has no bucket and no roles in this account and region: run `npx cdk bootstrap`.",
        )
    if found < wanted.bootstrap_version:
        return Check(
            name,
            Status.FAILS,
            f"CDK's bucket and roles are of version {found}, and {wanted.bootstrap_version} is "
            "needed: run `npx cdk bootstrap` again.",
        )
    return Check(name, Status.OK, f"CDK is bootstrapped, version {found}.")


def check_stack(wanted: Wanted, found: FoundStack | None, deploy: str) -> Check:
    """Whether the stack can take this deploy; `deploy` is the command of an ordinary deploy."""
    if found is None or found.status == "REVIEW_IN_PROGRESS":
        return _check_first(wanted, f"The stack {wanted.stack} does not exist yet.", deploy)
    where = f"The stack {wanted.stack} is in {found.status}"
    if found.status.endswith("_IN_PROGRESS"):
        return _stack(Status.WARNING, f"{where}: another deploy is under way; wait for its end.")
    if found.status == "ROLLBACK_COMPLETE" and not found.is_protected:
        return _check_first(wanted, f"{where}: a first deploy failed. CDK creates it anew.", deploy)
    if found.status == "ROLLBACK_COMPLETE":
        return _stack(
            Status.FAILS,
            f"{where} and protected, so that CDK cannot replace it: "
            f"run `aws cloudformation update-termination-protection --stack-name {wanted.stack} "
            f"--no-enable-termination-protection`, and go on with {RECOVERY}.",
        )
    if found.status.endswith("FAILED") and found.status != "UPDATE_FAILED":
        return _stack(Status.FAILS, f"{where}, and accepts no deploy: {RECOVERY} says what to do.")
    check = _check_protection(wanted, found, deploy)
    if found.unread and check.status not in STOPS:
        reasons = "; ".join(found.unread.values())
        check = _stack(Status.WARNING, f"{check.sentence} These could not be checked: {reasons}")
    if found.status == "UPDATE_FAILED" and check.status not in STOPS:
        return _stack(
            Status.WARNING,
            f"{where}: an update failed and was not rolled back. `cdk deploy` first asks to roll "
            "it back.",
        )
    return check


def _check_first(wanted: Wanted, sentence: str, deploy: str) -> Check:
    if not wanted.keeps_data:
        return _stack(Status.OK, sentence)
    if wanted.is_protected:
        return _stack(
            Status.REFUSED,
            f"{sentence} If a first deploy with protections fails, it can be neither rolled back "
            "nor repeated: add -c first_deploy=true, and later deploy again without it.",
        )
    return _stack(
        Status.OK, f"{sentence} Once it is deployed, switch its protections on: `{deploy}`."
    )


def _check_protection(wanted: Wanted, found: FoundStack, deploy: str) -> Check:
    protected, unprotected = found.protected(), found.unprotected()
    if wanted.is_protected and unprotected:
        return _stack(
            Status.WARNING,
            f"Nothing protects {_listed(unprotected)} from deletion. This deploy switches that "
            f"on: `{deploy}`.",
        )
    if wanted.is_protected:
        tables = counted(len(found.tables), "table")
        pools = f" and {counted(len(found.pools), 'pool')}" if found.pools else ""
        return _stack(
            Status.OK, f"{wanted.stack} is protected from deletion, with {tables}{pools}."
        )
    if wanted.stack_is_protected and found.is_protected:
        protected = protected[1:]
    if protected:
        return _stack(
            Status.REFUSED,
            f"This deploy would remove the protection of {_listed(protected)}: "
            + (
                f"leave first_deploy out, unless you are about to remove the stack: `{deploy}`."
                if wanted.keeps_data
                else "it is of a stage that keeps nothing. Is it the right stage?"
            ),
        )
    if wanted.keeps_data:
        return _stack(
            Status.WARNING,
            f"{wanted.stack} exists, and nothing protects it from deletion. Switch that on: "
            f"`{deploy}`.",
        )
    return _stack(
        Status.OK, f"{wanted.stack} exists; a stage that keeps nothing has no protection."
    )


def _stack(status: Status, sentence: str) -> Check:
    return Check("stack", status, sentence)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def check_concurrency(wanted: Wanted, unreserved: int) -> Check:
    """`unreserved` is the concurrency that the account's functions share."""
    name, workers = "concurrency", wanted.workers
    have = f"The queues start up to {workers:,} workers, and Lambda has {unreserved:,} executions"
    cure = "Ask AWS for more"
    if unreserved >= MIN_CONCURRENCY:
        cure += f", or give -c concurrency={unreserved}"
    if workers > unreserved:
        return Check(
            name,
            Status.FAILS,
            f"{have} for all functions of the account: a message without a free one is received "
            f"again, and may become a dead letter though nothing is wrong with it. {cure}.",
        )
    if workers > room_of(unreserved):
        return Check(
            name,
            Status.WARNING,
            f"{have} for all functions of the account: while all workers are busy, requests and "
            f"SWEEP get hardly any. {cure}.",
        )
    return Check(name, Status.OK, f"{have}.")


def check_write_quota(wanted: Wanted, quota: int) -> Check:
    """`quota` is in write units a second, for one table."""
    name, have = "write quota", f"The account lets one table take {quota:,} write units a second"
    for setting, units in (
        ("max_write_request_units", wanted.max_write_units),
        ("warm_write_units", wanted.warm_write_units),
    ):
        if units is not None and units > quota:
            return Check(
                name,
                Status.FAILS,
                f"{have}, and {setting} is {units:,}: ask AWS for a higher quota, or lower it.",
            )
    limited = wanted.max_write_units or wanted.warm_write_units
    if limited is None and quota < DEFAULT_WRITE_CAPACITY:
        return Check(
            name,
            Status.WARNING,
            f"{have}, and the lanes divide {DEFAULT_WRITE_CAPACITY:,}, so bulk leaves nothing to "
            f"express: give -c max_write_request_units={quota}.",
        )
    return Check(name, Status.OK, f"{have}.")


def check_requests(wanted: Wanted, account: int | None) -> Check:
    """`account` is the rate of all APIs of the account together; None if AWS does not say."""
    name, rate = "requests", wanted.requests_per_second
    if account is None:
        return Check(name, Status.OK, "API Gateway does not say what the account's APIs may take.")
    have = f"All APIs of the account may take {account:,} requests a second"
    if rate > account:
        return Check(
            name,
            Status.WARNING,
            f"{have}, and requests_per_second is {rate:,}: beyond the account's rate API Gateway "
            "answers 429, to the other APIs as well. Ask AWS for a higher quota, or lower it.",
        )
    return Check(name, Status.OK, f"{have}, and this one {rate:,} of them.")


def check_warmth(wanted: Wanted, found: FoundStack | None) -> Check:
    """Whether the tables with write bursts are as warm as the lanes assume."""
    name, units = "warm tables", wanted.warm_write_units
    if found and (unread := found.unread.keys() & wanted.bursting.values()):
        return unchecked(name, "; ".join(found.unread[each] for each in sorted(unread)))
    tables = {
        table: found.tables[logical_id]
        for table, logical_id in wanted.bursting.items()
        if found is not None and logical_id in found.tables
    }
    if not tables:
        later = " Run this again after the deploy: it says how to warm them." if units else ""
        return Check(name, Status.OK, f"The tables do not exist yet.{later}")
    if found is not None and any(each.is_updating for each in found.tables.values()):
        return Check(
            name,
            Status.WARNING,
            "DynamoDB is changing a table, and a deploy that changes it too would fail: wait.",
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
        return Check(
            name,
            Status.WARNING,
            f"{have}. The lanes need {units:,}: run {lines}. AWS bills it once, and it can never "
            "be lowered. Then run this again before you deploy: DynamoDB takes a while to prepare "
            "a table.",
        )
    return Check(name, Status.OK, f"{have}.")


def check_retention(wanted: Wanted, deployed: Mapping[str, int]) -> Check:
    """Whether this deploy knows how long entries have lived, as the `deployed` functions do."""
    name = "retention"
    if days := forgotten_days(deployed, wanted.entry_days):
        return Check(
            name,
            Status.REFUSED,
            f"Entries have lived for {days:,} days in {wanted.stack}, and this deploy would forget "
            "it: readers could see posts of publishers again whom they have unfollowed. Add "
            f"-c longest_retention_days={days} to this deploy and all later ones.",
        )
    if not deployed.keys() & wanted.entry_days.keys():
        lived = max(deployed.values(), default=0)
        told = f"say {lived:,} days" if lived else "do not say"
        return Check(
            name,
            Status.WARNING,
            f"How long entries have lived in {wanted.stack} could not be compared: the deployed "
            f"stack has none of this deploy's functions, and its own {told}. If retention_days was "
            "ever longer, add -c longest_retention_days= with that value to this deploy and all "
            "later ones.",
        )
    return Check(name, Status.OK, "This deploy knows how long entries have lived.")


def check_roll_back(wanted: Wanted, found: Mapping[str, int]) -> Check:
    """Whether a release without private publishers may be deployed over these rows."""
    name = "roll back"
    kept = [counted(count, kind) for kind, count in sorted(found.items())]
    kept += ["private_by_default"] if wanted.private_by_default else []
    if kept:
        return Check(
            name,
            Status.REFUSED,
            f"{wanted.stack} has {_listed(kept)}. A release without them would show private posts "
            "to everybody, and let blocked users follow; its rows would expire. Roll back to no "
            "release of before private publishers.",
        )
    return Check(name, Status.OK, "No request, block or private publisher would be ignored.")


def check_alarms(wanted: Wanted, found: FoundStack, confirmed: Mapping[str, bool]) -> Check:
    """Whether the alarms reach their addresses; `confirmed` says it for those of the topic."""
    name = "alarms"
    made = {wanted.emails[each] for each in found.subscriptions if each in wanted.emails}
    addresses = {**dict.fromkeys(made, False), **confirmed}
    if deaf := sorted(address for address, hears in addresses.items() if not hears):
        return Check(
            name,
            Status.WARNING,
            f"No alarm reaches {_listed(deaf)}: not confirmed. Open the link in the mail from AWS, "
            f"which `aws sns subscribe --topic-arn {found.alarm_topic} --protocol email "
            "--notification-endpoint ADDRESS` sends again.",
        )
    if new := sorted(set(wanted.emails.values()) - set(addresses)):
        return Check(
            name,
            Status.OK,
            f"This deploy subscribes {_listed(new)} to the alarms: confirm by the link in the "
            "mail from AWS.",
        )
    if not addresses:
        return Check(name, Status.OK, "No address is subscribed to the alarms.")
    hearing = counted(len(addresses), "address", "addresses")
    return Check(name, Status.OK, f"Alarms go to {hearing}, all confirmed.")


def check_slack(slack: Slack, region: str, configurations: list[str]) -> Check:
    """Whether the channel is free; `configurations` are the names of its configurations."""
    own = slack.configuration.format(region=region)
    if others := [name for name in configurations if name != own]:
        return Check(
            "Slack",
            Status.FAILS,
            f"The channel {slack.channel} is taken by the configuration {_listed(others)}, and AWS "
            "accepts a channel only once in an account, across all regions: give another "
            "-c slack_channel_id=, or delete that configuration first.",
        )
    return Check("Slack", Status.OK, f"No other configuration has the channel {slack.channel}.")
