"""The stack of a run: creates, recognizes and removes it, and never touches another."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from fanfold_cli.local.assembly import read_stacks
from fanfold_cli.local.cdk import find_executable
from fanfold_cli.local.home import CHECKOUT
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, counted, failing_with, say

# Stage and stack: `verify` is Fanfold-verify, `verify-anna` is Fanfold-verify-anna.
STACK_NAME = re.compile(r"Fanfold-(verify(?:-[a-z0-9]{1,20})?)")
# The tag of our stacks; its value is the run that created the stack.
TAG = "fanfold-aws-verify"

GONE = "DELETE_COMPLETE"
# A deployment takes about five minutes, and so does a removal.
DEPLOY_SECONDS = 30 * 60.0
REMOVE_SECONDS = 30 * 60.0
SYNTH_SECONDS = 300.0
# For CDK to end after a signal.
STOP_SECONDS = 15.0
POLL_SECONDS = 3.0
OUTPUT_TAIL_LINES = 30


def stage_of(name: str) -> str:
    """The stage of a stack of this name; raises `ExpectedError` for any other stack."""
    match = STACK_NAME.fullmatch(name)
    if match is None:
        raise ExpectedError(
            f"'{name}' is no stack of this command: name it Fanfold-verify, or Fanfold-verify-NAME "
            "with up to 20 lower-case letters and digits. It deploys, disturbs and deletes only "
            "that stack."
        )
    return match[1]


@dataclass(frozen=True)
class Found:
    """A stack of ours that exists."""

    id: str
    status: str
    run: str  # that created it


@dataclass(frozen=True)
class OwnStack:
    name: str
    cloudformation: Any

    def find(self) -> Found | None:
        """The stack, if it exists; raises `ExpectedError` if no run of this command created it."""
        with failing_with(f"The stack {self.name} cannot be read"):
            try:
                found = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]
            except ClientError as error:
                if "does not exist" in str(error):
                    return None
                raise
        if found["StackStatus"] == GONE:
            return None
        tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", [])}
        if TAG not in tags:
            raise ExpectedError(
                f"The stack {self.name} exists and was not made by this command (it has no tag "
                f"{TAG}), so it is left alone: choose another name, such as Fanfold-verify-2."
            )
        return Found(found["StackId"], found["StackStatus"], tags[TAG])

    def refuse_another(self) -> None:
        """Raise `ExpectedError` if the stack exists already: another run may be using it."""
        if found := self.find():
            raise ExpectedError(
                f"The stack {self.name} ({found.status}) exists: the run {found.run} made it, and "
                f"may be under way. Choose another name; or, if it is over, `{self.command}`."
            )

    def deploy(
        self, directory: Path, *, region: str, run: str, concurrency: int | None
    ) -> Deployment:
        """Synthesize and deploy; `directory` gets the assembly and CDK's log.

        `concurrency` is the account's concurrency that the stage may take.
        """
        executable = find_executable(CHECKOUT)
        assembly, log = directory / "cdk.out", directory / "cdk-deploy.log"
        say("Synthesizing the stage.")
        synthesize(stage_of(self.name), concurrency, assembly)
        # If another run has begun meanwhile, CDK would update its stack.
        self.refuse_another()
        (stack,) = [each for each in read_stacks(assembly) if each.name == self.name]
        # Direct, because the stack must have its tag from the beginning: a stack that only a change
        # set has created has none.
        how = ("--method", "direct", "--require-approval", "never", "--progress", "events")
        who = ("--tags", f"{TAG}={run}", "--no-notices", "--no-color", "--no-version-reporting")
        command = [executable, "deploy", self.name, "--app", str(assembly), *how, *who]
        with log.open("wb") as out:
            # In its own session, so that Ctrl-C reaches only us: we end CDK and remove the stack.
            deploying = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, "AWS_REGION": region, "CDK_DISABLE_CLI_TELEMETRY": "true"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._watch(deploying, total=len(stack.template.get("Resources", {})))
            finally:
                _end(deploying)
        if deploying.returncode != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-OUTPUT_TAIL_LINES:])
            raise ExpectedError(
                f"{tail}\n\n`cdk deploy` failed; its last lines are above. Is this account and "
                "region bootstrapped (npx cdk bootstrap), and may you deploy there?"
            )
        return Deployment.on_aws(self.name)

    def _watch(self, deploying: subprocess.Popen[bytes], *, total: int) -> None:
        end = time.monotonic() + DEPLOY_SECONDS
        with progress_bar("Deploying", total=total, unit="resources") as bar:
            while deploying.poll() is None:
                if time.monotonic() > end:
                    raise ExpectedError(
                        f"The deployment did not end within {DEPLOY_SECONDS / 60:.0f} minutes."
                    )
                statuses = self._statuses(self.name)
                bar.reach(sum(status == "CREATE_COMPLETE" for status in statuses.values()))
                time.sleep(POLL_SECONDS)

    def remove(self, run: str) -> bool:
        """Delete the stack if it exists, and wait; False if there was none.

        Raises `ExpectedError` if another run made it.
        """
        found = self.find()
        if found is None:
            return False
        if found.run != run:
            raise ExpectedError(
                f"The stack {self.name} was made by another run, {found.run}, so it is left alone."
            )
        said = f"The stack {self.name} cannot be deleted; run `{self.command}`"
        with failing_with(said):
            self.cloudformation.delete_stack(StackName=self.name)
        end = time.monotonic() + REMOVE_SECONDS
        total = len(self._statuses(found.id))
        with progress_bar("Removing", total=total, unit="resources") as bar:
            while True:
                # By id, because a deleted stack cannot be found by name.
                with failing_with(said):
                    described = self.cloudformation.describe_stacks(StackName=found.id)
                status = described["Stacks"][0]["StackStatus"]
                left = [name for name, state in self._statuses(found.id).items() if state != GONE]
                bar.reach(total - len(left))
                if status == GONE:
                    return True
                if status == "DELETE_FAILED" or time.monotonic() > end:
                    raise ExpectedError(
                        f"The stack {self.name} is in state {status}, and "
                        f"{counted(len(left), 'resource')} of it remain: "
                        f"{', '.join(sorted(left)[:10])}. Run `{self.command}` to try again; the "
                        "events of the stack in the CloudFormation console say why."
                    )
                time.sleep(POLL_SECONDS)

    @property
    def command(self) -> str:
        """The command that removes this stack."""
        return f"make aws-verify STACK={self.name} REMOVE=1"

    def _statuses(self, stack: str) -> dict[str, str]:
        """The state of each resource by logical id; empty if the stack cannot be read."""
        try:
            return {
                resource["LogicalResourceId"]: resource["ResourceStatus"]
                for resource in resources(self.cloudformation, stack)
            }
        except ClientError:  # it does not exist yet
            return {}


def resources(cloudformation: Any, stack: str) -> Iterator[Mapping[str, Any]]:
    """Every resource of a stack."""
    for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack):
        yield from page["StackResourceSummaries"]


def synthesize(stage: str, concurrency: int | None, assembly: Path) -> None:
    """Synthesize the stage with only the feature flags of cdk.json.

    Its other values, such as an issuer, are for other stages.
    """
    context = json.loads((CHECKOUT / "cdk.json").read_text())["context"]
    chosen = {name: value for name, value in context.items() if "@" in name or ":" in name}
    chosen["stage"] = stage
    if concurrency is not None:
        chosen["concurrency"] = concurrency
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=CHECKOUT,
        env={**os.environ, "CDK_OUTDIR": str(assembly), "CDK_CONTEXT_JSON": json.dumps(chosen)},
        capture_output=True,
        text=True,
        timeout=SYNTH_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ExpectedError(f"`{shlex.join(['python', 'app.py'])}` failed:\n{done.stderr}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
