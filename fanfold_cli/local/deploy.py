"""`fanfold local up` and `down`: start the engine, deploy without losing data, end the engine."""

import fcntl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names
from fanfold_cli import aws
from fanfold_cli.local import assembly, context, engine, gaps
from fanfold_cli.local.cdk import Cdk, find_executable
from fanfold_cli.local.home import CHECKOUT, IS_CHECKOUT, EngineState, Home
from fanfold_cli.local.template import API_TYPE, entry_days, forgotten_days, lost_tables
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment, outputs_of
from fanfold_cli.terminal import ExpectedError, counted, interrupted_with, say

# A working day: enough for a developer, and a forgotten engine ends by itself.
LIFETIME_HOURS = 8.0


@dataclass
class Progress:
    """Prefixes each sentence with the seconds since the start."""

    began: float = field(default_factory=time.monotonic)

    def report(self, sentence: str) -> None:
        say(f"[{time.monotonic() - self.began:5.1f} s] {sentence}")

    @contextmanager
    def step(self, sentence: str, *, awaited: str) -> Iterator[None]:
        """Report the start of a step; a terminal shows a spinner until its end."""
        self.report(sentence)
        with waiting_for(awaited, is_said=True):
            yield


def bring_up(
    home: Home,
    *,
    lifetime_hours: float = LIFETIME_HOURS,
    port: int | None = None,
    fresh: bool = False,
    given: context.Values | None = None,
    app_directory: Path = CHECKOUT,
    foreign: Path | None = None,
    stays: bool = True,
) -> Deployment:
    """Start the engine unless it runs, deploy the app if it changed, and return the stack.

    The values `given` are added to those of the last deployment. A `foreign` app is the directory
    of another CDK app, with a `FollowTimeline`. If the engine `stays` on Ctrl-C, this says how to
    go on.
    """
    if foreign is None and not IS_CHECKOUT:
        foreign = Path.cwd()
    app_directory = foreign or app_directory
    if foreign is not None and not (foreign / "cdk.json").is_file():
        raise ExpectedError(f"There is no CDK app in {foreign}: it has no cdk.json.")
    find_executable(app_directory)

    def wanted() -> dict[str, str]:
        before = None if fresh else home.running()
        return context.merged(before.context if before else {}, given or {})

    if foreign is None:
        context.check(wanted(), app_directory)  # before anything is written
    home.claim()
    saying = interrupted_with(lambda: _what_stays(home, given or {})) if stays else nullcontext()
    with saying, _locked(home):
        progress = Progress()
        # The sources of a foreign app and the values that it takes are unknown: it is synthesized
        # every time, and its values are not checked.
        sources = None if foreign else assembly.source_hash(app_directory)
        values = wanted()
        state = _running_engine(
            home, progress, lifetime_hours=lifetime_hours, port=port, fresh=fresh
        )
        if values:
            progress.report(f"The stage differs in {', '.join(context.words(values))}.")
        if sources and (state.source_hash, state.context) == (sources, values):
            progress.report("Nothing changed since the last deployment: there is nothing to do.")
        else:
            cdk = Cdk(home, app_directory, state.local_endpoint, values, is_ours=foreign is None)
            with _showing_the_log(home, state):
                state = _deploy(home, state, cdk, progress)
            home.write_state(replace(state, source_hash=sources, context=values))
        return Deployment.local(home)


def _what_stays(home: Home, given: context.Values) -> str:
    """What an interrupt leaves; only a complete deployment saves the values `given`."""
    state = home.running()
    if state is None:
        return "no engine is running."
    up = home.command(" ".join(["up", *context.options(given)]))
    return (
        f"the engine (process {state.pid}) keeps running, with its data. "
        f"{up} goes on with the deployment, {home.command('down')} ends the engine."
    )


@contextmanager
def _showing_the_log(home: Home, state: EngineState) -> Iterator[None]:
    try:
        yield
    except (ExpectedError, ClientError, BotoCoreError) as error:
        if not state.is_running():
            raise ExpectedError(
                f"The engine died during the deployment. Its log ends:\n{engine.log_tail(home)}\n\n"
                f"Its data is lost. Run {home.command('up')} to start a new engine."
            ) from error
        if isinstance(error, ExpectedError):
            raise
        raise ExpectedError(
            f"The engine rejected a call: {error}\nIts log ends:\n{engine.log_tail(home)}\n\n"
            f"Run {home.command('up --fresh')}, which deletes the local data and starts a new "
            "engine."
        ) from error


def _deploy(home: Home, state: EngineState, cdk: Cdk, progress: Progress) -> EngineState:
    state = _bootstrap_and_synthesize(home, state, cdk, progress)
    stacks = assembly.read_stacks(home.assembly)
    synthesized = assembly.content_hash(stacks)
    if state.assembly_hash == synthesized:
        progress.report("The stack is the same as the deployed one: there is nothing to do.")
        return state
    _refuse_to_lose_data(home, stacks)
    _refuse_to_forget(home, stacks)
    # If this run stops before the gaps are closed, the next run must deploy again.
    state = replace(state, source_hash=None, assembly_hash=None)
    home.write_state(state)
    with progress.step("CDK deploys the stack.", awaited="CDK"):
        cdk.deploy()
    assembly.save_deployed(home.deployed, stacks)
    state = _complete(state, stacks, progress)
    return replace(state, assembly_hash=synthesized)


def take_down(home: Home) -> bool:
    """End the engine of this home; return whether one was running."""
    home.check()
    # Write nothing into an empty directory, not even the lock.
    if not home.is_ours():
        return False
    with _locked(home):
        state = home.read_state()
        if state is None:
            return False
        was_running = state.is_running()
        with waiting_for("the engine and its functions to end"):
            engine.stop(home, state)
        return was_running


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    with alone(home, "lock", "fanfold local"):
        yield


@contextmanager
def alone(home: Home, name: str, command: str) -> Iterator[None]:
    """Hold a lock file of this home; raises `ExpectedError` if another such command has it."""
    try:
        opened = (home.path / name).open("w")
    except OSError as error:
        raise ExpectedError(f"The home {home.path} cannot be used: {error.strerror}.") from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExpectedError(
                f"Another `{command}` is running in {home.path}: wait until it ends, or choose "
                "another directory with --home."
            ) from None
        yield


def _running_engine(
    home: Home, progress: Progress, *, lifetime_hours: float, port: int | None, fresh: bool
) -> EngineState:
    state = home.read_state()
    if state is not None and not state.is_running():
        progress.report(
            f"The engine that was started at {state.started_at} (process {state.pid}) has ended, "
            "and its data is lost."
        )
        with waiting_for("its data to be deleted"):
            engine.stop(home, state)
        state = None
    if state is not None and fresh:
        with progress.step("Stopping the old engine and deleting its data.", awaited="its end"):
            engine.stop(home, state)
        state = None
    if state is not None:
        if port not in (None, state.port):
            raise ExpectedError(
                f"The engine runs on port {state.port} already: run {home.command('down')} first, "
                "or leave --port out."
            )
        progress.report(
            f"The engine is running at {state.endpoint} (process {state.pid}); it ends by itself "
            f"at {state.ends_at}."
        )
        return state
    with progress.step("The engine starts.", awaited="the engine to answer"):
        state = engine.start(home, lifetime_seconds=lifetime_hours * 3600, port=port)
    progress.report(
        f"The engine answers at {state.endpoint}; it ends by itself at {state.ends_at}."
    )
    return state


def _bootstrap_and_synthesize(
    home: Home, state: EngineState, cdk: Cdk, progress: Progress
) -> EngineState:
    if state.bootstrapped:
        with progress.step("CDK synthesizes the stack.", awaited="CDK"):
            cdk.synthesize()
        return state
    # In parallel: the two steps are independent, and the start of CDK is slow.
    with (
        progress.step("CDK bootstraps the engine and synthesizes the stack.", awaited="CDK"),
        ThreadPoolExecutor(max_workers=2) as pool,
    ):
        bootstrap, synthesis = pool.submit(cdk.bootstrap), pool.submit(cdk.synthesize)
        bootstrap.result()
        state = replace(state, bootstrapped=True)
        home.write_state(state)
        progress.report("The engine is bootstrapped.")
        synthesis.result()
    progress.report("The stack is synthesized.")
    return state


def _refuse_to_lose_data(home: Home, stacks: list[assembly.SynthesizedStack]) -> None:
    new = {stack.name: stack.template for stack in stacks}
    changes = [
        change
        for name, deployed in assembly.read_deployed(home.deployed).items()
        for change in lost_tables(deployed, new.get(name, {}))
    ]
    if changes:
        what = "\n".join(change.sentence() for change in changes)
        raise ExpectedError(
            f"{what}\nThe engine would replace it and lose its data, so nothing was deployed, and "
            f"the old stack keeps running. Revert the change, or run {home.command('up --fresh')}, "
            "with the same values of -c if there are any: it deletes the local data and deploys "
            "the new stack."
        )


def _refuse_to_forget(home: Home, stacks: list[assembly.SynthesizedStack]) -> None:
    new = {stack.name: stack.template for stack in stacks}
    for name, deployed in assembly.read_deployed(home.deployed).items():
        if days := forgotten_days(entry_days(deployed), entry_days(new.get(name, {}))):
            raise ExpectedError(
                f"Entries have lived for {days:,} days in {name}, and this deploy would forget it: "
                "readers could see posts of publishers again whom they have unfollowed. So nothing "
                f"was deployed. Give -c longest_retention_days={days} too; in an app of your own, "
                f"longest_retention=Duration.days({days})."
            )


def _complete(
    state: EngineState, stacks: list[assembly.SynthesizedStack], progress: Progress
) -> EngineState:
    deployment = Deployment(aws.LOCAL_REGION, state.local_endpoint, {})
    outputs: dict[str, str] = {}
    for stack in stacks:
        cloudformation = deployment.client("cloudformation")
        described = cloudformation.describe_stacks(StackName=stack.name)["Stacks"][0]
        outputs |= outputs_of(described)
        physical = gaps.physical_ids(deployment.client, stack.name)
        outputs |= _reachable_api_url(state.endpoint, stack, physical, outputs)
        progress.report(f"The stack {stack.name} is deployed.")
        count = gaps.set_times_to_live(deployment.client("dynamodb"), stack.template, physical)
        progress.report(f"Set {counted(count, 'time to live', 'times to live')} by API.")
        gaps.let_browsers_call(deployment.client("apigatewayv2"), stack.template, physical)
    return replace(state, outputs=outputs)


def _reachable_api_url(
    endpoint: str,
    stack: assembly.SynthesizedStack,
    physical: dict[str, str],
    outputs: dict[str, str],
) -> dict[str, str]:
    # The output is an address on AWS, but the engine serves APIs below a path. The path leaves out
    # the stage `$default`, which the engine does not need and a shell would expand.
    on_aws = outputs.get(names.API_URL_OUTPUT, "")
    for logical_id, resource in stack.template.get("Resources", {}).items():
        if resource["Type"] == API_TYPE and physical[logical_id] in on_aws:
            url = f"{endpoint}/_aws/execute-api/{physical[logical_id]}"
            return {names.API_URL_OUTPUT: url}
    return {}
