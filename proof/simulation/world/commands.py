"""The commands of `fanfold`, run on the tables and queues of a run.

Only clock, clients and threads are replaced; output goes to the run's trace. Calls of commands fail
like those of functions, and any call may be the last: the process is killed, or gets Ctrl-C.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import typer
from botocore.exceptions import ClientError

from fanfold import clock, names
from fanfold.doctor.findings import Report
from fanfold_cli import aws, kept_file
from fanfold_cli.audit import audit
from fanfold_cli.commands import doctor, fanout, pause
from fanfold_cli.deliveries import fanouts
from fanfold_cli.dlq import dropping, letters, move_tasks, redriving
from fanfold_cli.follows import doctor_report, seeding
from fanfold_cli.stack import Deployment, place_of
from fanfold_cli.terminal import ExpectedError
from proof.simulation.clients.spans import Span
from proof.simulation.world.aws_clients import BotoClient, UnthreadedTransport, running
from proof.simulation.world.lambdas import dlq_url, queue_url, settings
from proof.simulation.world.scheduler import Crash, Patch, patched
from proof.simulation.world.world import World

# During faults, the share of commands that are cut short, and after how many calls.
CUT_SHORT = 0.4
CALLS = 12
TAGGING = frozenset({"list_queue_tags", "tag_queue", "untag_queue"})
# The stack of a run.
NAMED: Any = {"stack": "simulated", "account": "0"}
PLACE = place_of(**NAMED, region="simulated")

Command = Callable[..., object]  # called with the name of a stack


@dataclass
class Process:
    """A run of a command, which may end early, before or after the effect of its `last_call`."""

    world: World
    random: Random
    last_call: int = 0  # 0 for a command that is not cut short
    calls: int = 0
    is_dead: bool = False
    # The messages that it sent: the queue's URL, and the body.
    sent: list[tuple[str, str]] = field(default_factory=list)

    def before(self) -> bool:
        """Count a call; return whether it is the last. Raises `Crash` if the process is dead."""
        if self.is_dead:
            raise Crash
        self.calls += 1
        return self.calls == self.last_call

    def end(self) -> None:
        """Kill the command, or interrupt it by Ctrl-C."""
        self.world.faults.injected["command cut short"] += 1
        if self.random.random() < 0.5:
            raise KeyboardInterrupt
        self.is_dead = True
        raise Crash


@dataclass(eq=False)
class OperatorClient(BotoClient):
    """A client of one process."""

    process: Process | None = None

    def _try(self, operation: str, **request: Any) -> Any:
        process = self.process
        assert process
        is_last = process.before()
        if is_last and process.random.random() < 0.5:
            process.end()
        answer = self._answer(operation, request)
        if is_last:
            process.end()
        return answer

    def _answer(self, operation: str, request: dict[str, Any]) -> Any:
        process = self.process
        assert process
        if operation == "list_message_move_tasks":  # the model has none
            return {"Results": []}
        if operation == "start_message_move_task":  # so the command moves the messages itself
            raise ClientError({"Error": {"Code": "UnknownOperation"}}, operation)
        if operation in TAGGING:
            return self._tag(operation, process.world.queue_tags, request)
        if self.service == "sqs":
            process.world.letters.before(operation, request, process.sent)
        answer = super()._try(operation, **request)
        if operation == "send_message_batch":
            failed = {entry["Id"] for entry in answer.get("Failed", ())}
            process.sent += [
                (request["QueueUrl"], entry["MessageBody"])
                for entry in request["Entries"]
                if entry["Id"] not in failed
            ]
        return answer

    @staticmethod
    def _tag(operation: str, tags: dict[str, dict[str, str]], request: dict[str, Any]) -> Any:
        """The model has no tags of queues."""
        mine = tags.setdefault(request["QueueUrl"], {})
        mine.update(request.get("Tags", {}))
        for key in request.get("TagKeys", ()):
            mine.pop(key, None)
        return {"Tags": dict(mine)} if operation == "list_queue_tags" else {}


@dataclass(frozen=True)
class Lambda:
    """Lambda's API of event source mappings and functions."""

    world: World

    @property
    def exceptions(self) -> Any:
        return self.world.sqs.exceptions  # it refuses no change

    def list_event_source_mappings(self, *, EventSourceArn: str) -> Any:  # noqa: N803 - AWS's name
        queue = EventSourceArn.rpartition(":")[2]
        mapping = self.world.triggers.get_event_source_mapping(UUID=queue)
        return {"EventSourceMappings": [{**mapping, "FunctionArn": queue}]}

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, str]:  # noqa: N803
        return self.world.triggers.get_event_source_mapping(UUID=UUID)

    def update_event_source_mapping(self, *, UUID: str, Enabled: bool) -> None:  # noqa: N803
        if Enabled:
            self.world.triggers.resume({UUID})
        else:
            self.world.triggers.pause({UUID})

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        del FunctionName
        own = replace(settings(), channel_threshold=self.world.channels.stage.threshold)
        return {"Environment": {"Variables": own.to_env()}}


class CloudWatch:
    """Takes metrics, and forgets them."""

    def put_metric_data(self, **_metrics: Any) -> None:
        running.world.scheduler.sleep(running.world.faults.seconds())


@dataclass(frozen=True)
class Simulated(Deployment):
    """The stack of a run, as one process reaches it."""

    process: Process | None = None

    def caller(self) -> str:
        return "operator"  # so that each may resume what another has paused

    def client(self, service: str, attempts: int = aws.ATTEMPTS) -> Any:
        assert self.process
        if service == "lambda":
            return Lambda(self.process.world)
        if service == "cloudwatch":
            return CloudWatch()
        return OperatorClient(service, attempts, process=self.process)


# Stacks by the name of the command, which is that of its task.
_stacks: dict[str, Simulated] = {}


class InTurn:
    """An executor without threads."""

    def __init__(self, _count: int = 0) -> None: ...

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def map(self, run: Callable[..., Any], *over: Iterable[Any]) -> Iterator[Any]:
        return iter([run(*each) for each in zip(*over, strict=False)])

    def shutdown(self, *, cancel_futures: bool) -> None:
        del cancel_futures


class NoBar:
    """A progress bar that nobody sees."""

    def advance(self, _count: int) -> None: ...

    def reach(self, _count: int, *, total: int | None = None) -> None:
        del total


def _keep(report: Report) -> None:
    running.world.examined = report


@contextmanager
def no_progress_bar(_what: str, *, total: int | None, unit: str) -> Iterator[NoBar]:
    del total, unit
    yield NoBar()


def outputs() -> Mapping[str, str]:
    """The outputs of the stack that name its tables and queues."""
    tables = {table.output: table.name for table in names.TABLES}
    urls = {queue.url_output: queue_url(queue) for queue in names.QUEUES}
    return {**tables, **urls, **{queue.dlq_url_output: dlq_url(queue) for queue in names.QUEUES}}


@contextmanager
def installed() -> Iterator[None]:
    """For a while, run commands in virtual time, without threads and a terminal."""
    patches: list[Patch] = [
        *((module, "time", clock) for module in (pause, redriving, move_tasks)),
        *((module, "ThreadPoolExecutor", InTurn) for module in (doctor, seeding)),
        *(
            (module, "progress_bar", no_progress_bar)
            for module in (audit, doctor, fanout, dropping, letters, redriving, seeding)
        ),
        *((module, "waiting_for", lambda _what: nullcontext()) for module in (fanout, pause)),
        (audit, "Boto3Transport", UnthreadedTransport),
        (typer, "echo", lambda text="", **_: running.world.note("says", text)),
        # Instead of drawing the report as a table, keep it for the checks.
        (doctor_report, "show", _keep),
        (fanouts, "draw", lambda _rows: None),
        (Deployment, "choose", lambda stack, _home: _stacks[stack]),
    ]
    numbers = count()
    with tempfile.TemporaryDirectory() as folder:

        def path(what: str) -> Path:
            return Path(folder) / f"{what}-{next(numbers)}.jsonl"

        with patched([*patches, (kept_file, "default_path", path)]):
            yield


def run(world: World, random: Random, command: Command) -> int | None:
    """Run a command; return its exit code, or None if it was killed.

    A failure without a sentence is a violation.
    """
    is_cut_short = world.faults.are_on and random.random() < CUT_SHORT
    process = Process(world, random, random.randint(1, CALLS) if is_cut_short else 0)
    task = world.scheduler.current
    task.work = Span(world.clock.now_ms())
    stack = f"{task.name} {task.number}"
    _stacks[stack] = Simulated("simulated", None, outputs(), process, **NAMED)
    code: int | None = 0
    try:
        command(stack=stack)
        task.work.ended_ms = world.clock.now_ms()
    except typer.Exit as ended:
        code = ended.exit_code
    except ExpectedError as error:
        world.note("says", error)
        code = 1
    except (Crash, KeyboardInterrupt):
        code = None
    except Exception as error:  # noqa: BLE001 - the command line would show a traceback
        world.observer.violations.append(f"{task.name}: a command failed with {error!r}.")
        code = 1
    finally:
        del _stacks[stack]
    world.note(f"exit code {code}")
    return code


def repeat(world: World, random: Random, command: Command, *, times: int = 8) -> bool:
    """Run a command until it succeeds, as its failures advise."""
    for _ in range(times):
        if run(world, random, command) == 0:
            return True
        world.scheduler.sleep(random.uniform(1, 30))
    return False
