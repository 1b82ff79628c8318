"""`fanfold pause` and `fanfold resume`: they switch the event source mappings, and wait."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError

from fanfold import clock, names, times
from fanfold.aws.event_sources import DISABLED
from fanfold_cli.deliveries import pauses
from fanfold_cli.deliveries.pauses import Pause
from fanfold_cli.deliveries.switching import switch
from fanfold_cli.stack import Deployment
from tests.commands import PLACE, run, stack_with, throttled
from tests.service import ACCOUNT, AT, System, error

DELIVERIES = ["Publish", "Express", "Bulk"]


Become = Callable[[str], None]


class InUse(Exception):
    """Lambda is changing the mapping just now."""


class FakeLambda:
    """Mappings that need one read to change, as on AWS; `busy` updates are refused before."""

    class exceptions:  # noqa: N801
        ResourceInUseException = InUse
        ResourceConflictException = InUse

    def __init__(
        self,
        state: str = "Enabled",
        *,
        busy: int = 0,
        stuck: Collection[str] = (),
        refused: Collection[str] = (),
        refusal: Exception | None = None,
    ) -> None:
        self.states = dict.fromkeys(DELIVERIES, state)
        self.asked: list[tuple[str, bool]] = []
        self.asked_before_the_first_wait: list[tuple[str, bool]] | None = None
        self.busy, self.stuck, self.refused = busy, stuck, refused
        self.refusal = refusal or error("AccessDenied", 403)

    def list_event_source_mappings(self, EventSourceArn: str = "", Marker: str = "Publish") -> Any:  # noqa: N803
        """That of the queue, or a page of all."""
        queue = EventSourceArn.rpartition(":")[2] or Marker
        arn, following = f"{ACCOUNT}:{queue}", DELIVERIES[DELIVERIES.index(queue) + 1 :]
        mapping = {"UUID": queue, "State": self.states[queue], "EventSourceArn": arn}
        return {"EventSourceMappings": [mapping], "NextMarker": "".join(following[:1])}

    def update_event_source_mapping(self, *, UUID: str, Enabled: bool) -> None:  # noqa: N803
        if self.busy:
            self.busy -= 1
            raise InUse
        if UUID in self.refused:
            raise self.refusal
        self.asked.append((UUID, Enabled))
        self.states[UUID] = "Enabling" if Enabled else "Disabling"

    def get_event_source_mapping(self, *, UUID: str) -> Any:  # noqa: N803
        if self.asked_before_the_first_wait is None:
            self.asked_before_the_first_wait = list(self.asked)
        now = self.states[UUID]
        if UUID not in self.stuck:
            self.states[UUID] = {"Enabling": "Enabled", "Disabling": "Disabled"}.get(now, now)
        return {"State": now}


@pytest.fixture(autouse=True)
def slept(system: System, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the command: they take no time, but its clock counts them."""
    naps: list[float] = []
    monkeypatch.setattr("fanfold_cli.deliveries.switching.time.sleep", naps.append)
    monkeypatch.setattr("fanfold_cli.deliveries.switching.time.monotonic", lambda: sum(naps))
    return naps


def test_pause_disables_all_deliverers_and_waits_until_they_are_disabled() -> None:
    """PLAN too: it delivers to few followers by itself."""
    fake = FakeLambda()
    ran = run("pause", "--json", lambda_=fake)
    assert (ran.exit_code, fake.asked) == (0, [(queue, False) for queue in DELIVERIES])
    assert fake.states == dict.fromkeys(DELIVERIES, "Disabled")
    change = {"was": "Enabled", "state": "Disabled", "changed": True}
    assert ran.json == {"lanes": [{"lane": queue.lower(), **change} for queue in DELIVERIES]}


@pytest.mark.parametrize(
    ("arguments", "before", "is_changed", "outcome"),
    [
        ("pause --lane express", "Enabled", True, "is paused now."),
        ("resume", "Disabled", True, "is running now."),
        ("pause", "Disabled", False, "was paused already."),
        ("resume", "Enabled", False, "was running already."),
    ],
)
def test_only_the_chosen_lanes_that_must_change_are_switched(
    arguments: str, before: str, is_changed: bool, outcome: str
) -> None:
    fake = FakeLambda(before)
    command, *option = arguments.split()
    lanes = option[1:] or [queue.lower() for queue in DELIVERIES]
    yes = ["--yes"] if command == "resume" else []  # nobody has noted who paused
    ran = run(command, *option, *yes, lambda_=fake)
    assert (ran.exit_code, ran.stdout.splitlines()) == (0, [f"{lane} {outcome}" for lane in lanes])
    asked = [(lane.title(), command == "resume") for lane in lanes]
    assert fake.asked == (asked if is_changed else [])


def test_a_change_in_progress_is_waited_for(slept: list[float]) -> None:
    fake = FakeLambda("Enabling", busy=2)
    assert run("pause", "--lane", "bulk", lambda_=fake).exit_code == 0
    assert fake.asked == [("Bulk", False)]
    assert len(slept) >= 2


def test_all_lanes_are_asked_before_any_is_waited_for(slept: list[float]) -> None:
    """One that is stuck holds up no other, and its failure says how each of them is."""
    fake = FakeLambda(stuck={"Publish"})
    ran = run("pause", lambda_=fake)
    assert ran.exit_code == 1
    assert fake.asked_before_the_first_wait == [(queue, False) for queue in DELIVERIES]
    assert "publish is Disabling, express is paused, bulk is paused." in ran.said
    assert "Lambda was waited for 180 s; run the command again" in ran.said
    assert 180 < sum(slept) < 190


@pytest.mark.parametrize(
    "refusal", [error("AccessDenied", 403), EndpointConnectionError(endpoint_url="https://lambda")]
)
def test_a_lane_that_cannot_be_asked_keeps_no_other_from_being_asked_and_noted(
    refusal: Exception,
) -> None:
    fake = FakeLambda(refused={"Publish"}, refusal=refusal)
    ran = run("pause", "--why", "Restore", lambda_=fake)
    assert ran.exit_code == 1
    assert fake.asked == [("Express", False), ("Bulk", False)]
    assert "publish is running, express is Disabling, bulk is Disabling." in ran.said
    assert str(refusal) in ran.said
    assert run("pause", "--show", lambda_=fake).stdout.count(": Restore.") == 2


@pytest.mark.parametrize("hours", ["inf", "nan", "1e9", "337"])
def test_a_pause_is_for_14_days_at_most(hours: str) -> None:
    fake = FakeLambda()
    assert run("pause", "--hours", hours, lambda_=fake).exit_code == 2
    assert fake.asked == []
    assert run("pause", "--hours", "336", lambda_=fake).exit_code == 0


def test_a_resume_keeps_the_note_of_a_pause_that_was_made_while_it_waited(
    ann: Become, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeLambda()
    run("pause", "--lane", "bulk", *WHY, lambda_=fake)

    def pause_again(_seconds: float) -> None:
        system.clock.advance(1)
        again = Pause("user/ann", times.to_text(clock.now_ms()), "", "Again")
        pauses.note(system.sqs, system.url("Bulk"), again)

    monkeypatch.setattr("fanfold_cli.deliveries.switching.time.sleep", pause_again)
    ran = run("resume", "--lane", "bulk", "--yes", lambda_=fake)
    assert ran.exit_code == 0
    assert (
        "bulk was paused meanwhile by user/ann since 2026-11-20T18:00:01.123Z: Again." in ran.said
    )
    assert [each.why for each in pauses.noted(system.sqs, system.url("Bulk"))] == ["Again"]


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_lane_that_another_command_switches_meanwhile_is_not_called_as_it_was(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, other = ("Disabled", "Enabled") if command == "pause" else ("Enabled", "Disabled")
    fake = FakeLambda(wanted)
    fake.states["Bulk"] = other
    switch_another = partial(fake.states.update, Publish=other)
    monkeypatch.setattr("fanfold_cli.deliveries.switching.time.sleep", lambda _: switch_another())
    ran = run(command, *(["--yes"] if command == "resume" else []), lambda_=fake)
    assert (ran.exit_code, ran.stdout) == (1, "")
    states = {"Disabled": "paused", "Enabled": "running"}
    is_, was = states[wanted], states[other]
    assert f"publish is {was}, express is {is_}, bulk is {is_}. Another command has" in ran.said


def test_only_commands_that_show_notes_read_them(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    """A day on AWS has no right to."""
    fake = FakeLambda()
    switch(stack_with(lambda_=fake, sqs=Untagged(system)), names.PAUSABLE, DISABLED)
    assert fake.states == dict.fromkeys(DELIVERIES, "Disabled")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_an_interrupt_says_how_each_lane_is(
    command: str, monkeypatch: pytest.MonkeyPatch, system: System
) -> None:
    before, wanted = ("Enabled", "paused") if command == "pause" else ("Disabled", "running")
    fake = FakeLambda(before, stuck={"Bulk"})
    interrupt = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("fanfold_cli.deliveries.switching.time.sleep", interrupt)
    ran = run(command, *(["--yes"] if command == "resume" else []), lambda_=fake)
    assert (ran.exit_code, ran.stdout) == (130, "")
    between = "Disabling" if command == "pause" else "Enabling"
    states = f"publish is {wanted}, express is {wanted}, bulk is {between}."
    assert f"Interrupted: {states} Run the command again" in ran.said


# Who has paused


@pytest.fixture
def ann(monkeypatch: pytest.MonkeyPatch) -> Become:
    """Who runs the commands: ann, until another name is given."""

    def become(who: str) -> None:
        monkeypatch.setattr(Deployment, "caller", lambda _deployment: who)

    become("user/ann")
    return become


NO_TERMINAL = "there is no terminal to ask on"
WHY = ("--why", "Restore of following", "--hours", "2")
TOLD = f"by user/ann since {AT} until 2026-11-20T20:00:00.123Z: Restore of following."


def test_a_pause_keeps_who_when_why_and_until_when_and_show_only_reads(
    ann: Become, system: System
) -> None:
    fake = FakeLambda()
    assert run("pause", "--lane", "bulk", *WHY, lambda_=fake).exit_code == 0
    ann("user/bob")
    before = list(fake.asked)
    for _ in range(2):
        shown = run("pause", "--show", lambda_=fake)
        lines = ["publish is running.", "express is running.", f"bulk is paused {TOLD}"]
        assert (shown.exit_code, shown.stdout.splitlines()) == (0, lines)
    lanes = run("pause", "--show", "--json", lambda_=fake).json["lanes"]
    lasts = {"since": AT, "until": "2026-11-20T20:00:00.123Z"}
    assert lanes[2]["pauses"] == [{"who": "user/ann", **lasts, "why": "Restore of following"}]
    assert fake.asked == before
    system.clock.advance(3 * 3600)
    shown = run("pause", "--show", "--lane", "bulk", lambda_=fake)
    assert "until 2026-11-20T20:00:00.123Z, which is over: Restore" in shown.stdout


def test_the_only_user_who_paused_resumes_without_a_question_after_its_time(
    ann: Become, system: System
) -> None:
    fake = FakeLambda()
    run("pause", *WHY, lambda_=fake)
    system.clock.advance(2 * 3600)
    ran = run("resume", lambda_=fake)
    assert ran.exit_code == 0
    assert "publish is paused by user/ann since" in ran.said
    assert "paused" not in run("pause", "--show", lambda_=fake).stdout
    fake.states = dict.fromkeys(DELIVERIES, "Disabled")  # by Lambda's console
    assert "nobody has noted who paused, when" in run("pause", "--show", lambda_=fake).stdout


@pytest.mark.parametrize("how", ["another", "both", "early", "nobody", "unknown"])
def test_a_resume_asks_where_another_one_has_paused_or_before_the_time_is_over(
    ann: Become, how: str
) -> None:
    """Early even the same name: two people in one session of a role have one."""
    fake = FakeLambda("Disabled" if how == "nobody" else "Enabled")
    if how == "unknown":
        ann("")  # STS did not answer, neither then nor now
    if how != "nobody":
        run("pause", *WHY, lambda_=fake)
    if how in ("another", "both"):
        ann("user/bob")
    if how == "both":
        second = run("pause", lambda_=fake)
        assert f"bulk was paused already {TOLD}" in second.said
    ran = run("resume", lambda_=fake)
    assert (ran.exit_code, NO_TERMINAL in ran.said) == (1, True)
    assert ("The time of this pause is not over." in ran.stderr) is (how == "early")
    assert fake.states == dict.fromkeys(DELIVERIES, "Disabled")
    assert run("resume", "--yes", lambda_=fake).exit_code == 0
    assert fake.states == dict.fromkeys(DELIVERIES, "Enabled")
    assert run("resume", lambda_=fake).exit_code == 0, "nothing is paused any more"


def test_a_second_pause_of_the_same_name_keeps_the_reason_and_the_end_of_the_first_until_then(
    ann: Become, system: System
) -> None:
    fake = FakeLambda()
    pause, show = ("pause", "--lane", "bulk"), ("pause", "--show", "--lane", "bulk")
    run(*pause, *WHY, lambda_=fake)
    for _ in range(2):
        again = run(*pause, "--why", "deploy, no. 2", lambda_=fake)
        assert f"bulk was paused already by user/ann since {AT} until 2026-11-20T20" in again.said
    both = "until 2026-11-20T20:00:00.123Z: Restore of following + deploy_ no. 2."
    assert both in run(*show, lambda_=fake).stdout
    assert run(*pause, "--hours", "3", lambda_=fake).exit_code == 0
    longer = "until 2026-11-20T21:00:00.123Z: Restore of following + deploy_ no. 2."
    assert longer in run(*show, lambda_=fake).stdout
    system.clock.advance(3 * 3600)
    run(*pause, "--why", "deploy", lambda_=fake)
    shown = run(*show, lambda_=fake).stdout
    assert shown == "bulk is paused by user/ann since 2026-11-20T21:00:00.123Z: deploy.\n"


@pytest.mark.parametrize("lane", ["all", "publish"])
def test_a_resume_asks_again_where_somebody_has_paused_while_it_asked(
    ann: Become, monkeypatch: pytest.MonkeyPatch, lane: str
) -> None:
    """What was paused already, or what was running."""
    fake = FakeLambda()
    run("pause", "--lane", "all" if lane == "all" else "bulk", "--why", "deploy", lambda_=fake)
    asked: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        asked.append(question.removeprefix(f"{PLACE}: "))
        if len(asked) > 1:
            return not err
        ann("user/bob")
        assert run("pause", "--lane", lane, *WHY, lambda_=fake).exit_code == 0
        ann("user/cid")
        return err

    monkeypatch.setattr("fanfold_cli.terminal.has_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    ann("user/cid")
    ran = run("resume", lambda_=fake)
    assert (ran.exit_code, ran.said) == (1, "Nothing was changed.")
    first = "publish, express, bulk" if lane == "all" else "bulk"
    second = "publish, express, bulk" if lane == "all" else "publish, bulk"
    assert asked == [f"Resume {each} anyway?" for each in (first, second)]
    changed = ran.stderr.partition("This has changed meanwhile:")[2]
    assert f"by user/bob since {AT} until" in changed
    shown = run("pause", "--show", lambda_=fake).stdout
    assert "publish is paused" in shown
    assert "user/bob" in shown


class Untagged:
    """SQS without any right to the tags of queues."""

    def __init__(self, system: System) -> None:
        self.system = system

    def __getattr__(self, name: str) -> Any:
        if "tag" in name:
            raise error("AccessDenied", 403)
        return getattr(self.system.sqs, name)


def test_a_pause_that_cannot_be_noted_is_a_pause(system: System) -> None:
    fake = FakeLambda()
    ran = run("pause", lambda_=fake, sqs=Untagged(system))
    assert ran.exit_code == 0
    assert "The notes about pauses cannot be read at the queues: " in ran.said
    assert "The notes about pauses cannot be noted at the queues: " in ran.said
    assert fake.states == dict.fromkeys(DELIVERIES, "Disabled")


def test_a_note_has_only_what_a_tag_may_have_and_no_more_than_fits(
    ann: Become, system: System
) -> None:
    ann("assumed-role/" + "x" * 200 + "/ann,smith")
    fake = FakeLambda()
    run("pause", "--why", "it's #1, \N{LATIN SMALL LETTER U WITH DIAERESIS}" * 40, lambda_=fake)
    tags = system.sqs.list_queue_tags(QueueUrl=system.url("Bulk"))["Tags"]
    ((key, value),) = tags.items()
    assert (len(key), 250 < len(value) <= 256) == (128, True)
    assert key.endswith("/ann_smith")
    assert "it_s _1_ \N{LATIN SMALL LETTER U WITH DIAERESIS}it_s" in value
    assert run("resume", lambda_=fake).exit_code == 0, "it is known to be the same person"


def test_the_caller_on_aws_is_the_end_of_an_arn() -> None:
    identity = {"Arn": "arn:aws:sts::123456789012:assumed-role/Operator/ann"}
    sts = SimpleNamespace(get_caller_identity=lambda: identity)
    assert stack_with(sts=sts).caller() == "assumed-role/Operator/ann"
    assert stack_with(sts=SimpleNamespace(get_caller_identity=throttled)).caller() == ""


def test_a_list_of_deliveries_names_a_pause_and_what_to_do(ann: Become, system: System) -> None:
    fake, listing = FakeLambda(), ("fanout", "list")
    assert "paused" not in run(*listing, lambda_=fake).said
    run("pause", *WHY, lambda_=fake)
    said = run(*listing, lambda_=fake).said
    assert f"publish, express, bulk are paused {TOLD} Run `fanfold pause --show`" in said
    listed = run(*listing, "--json", lambda_=fake)
    assert [each["pauses"][0]["who"] for each in listed.json["paused"]] == ["user/ann"] * 3
    said = run(*listing, lambda_=fake, sqs=Untagged(system)).said
    assert "are paused; who paused, when and why could not be read." in said
    silent = SimpleNamespace(list_event_source_mappings=throttled)
    ran = run(*listing, "--json", lambda_=silent)
    assert (ran.exit_code, ran.json["paused"]) == (0, None), "the list is whole all the same"
    assert "0 deliveries open.\nWhether lanes are paused" in run(*listing, lambda_=silent).said
