"""Take a failed deployment back without losing data, which the engine's own rollback would."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from fanfold_cli.console import ExpectedError
from fanfold_cli.local.template import Template

CREATION_FAILED = "CREATE_FAILED"
UPDATE_FAILED = "UPDATE_FAILED"
DONE = "UPDATE_COMPLETE"

# An update of the engine takes milliseconds.
TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.1

MARKER = "UndoneUpdate"


def undo_failures(
    cloudformation: Any, stacks: Iterable[str], deployed: Mapping[str, Template]
) -> list[str]:
    """Bring every stack that failed to a state which the engine deploys on; return their names.

    A stack that failed to come to be holds nothing, so it is deleted. On a stack whose update
    failed the deployed template is put back; the engine refuses a direct update of it, but takes a
    change set.
    """
    undone = []
    for stack in stacks:
        status = _status(cloudformation, stack)
        if status == CREATION_FAILED:
            cloudformation.delete_stack(StackName=stack)
            _wait(cloudformation, stack)
        elif status == UPDATE_FAILED:
            _put_back(cloudformation, stack, deployed[stack])
        else:
            continue
        undone.append(stack)
    return undone


def with_marker(template: Template) -> dict[str, Any]:
    """Return the template with a resource that is nothing.

    After a failed update the engine still compares with the old template, and it does not execute
    a change set without a difference. The next deployment removes the resource.
    """
    marker = {MARKER: {"Type": "AWS::CloudFormation::WaitConditionHandle"}}
    return {**template, "Resources": {**template["Resources"], **marker}}


def _put_back(cloudformation: Any, stack: str, template: Template) -> None:
    name = f"undo-{time.time_ns()}"
    cloudformation.create_change_set(
        StackName=stack,
        ChangeSetName=name,
        ChangeSetType="UPDATE",
        TemplateBody=json.dumps(with_marker(template)),
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    cloudformation.execute_change_set(StackName=stack, ChangeSetName=name)
    status = _wait(cloudformation, stack)
    if status != DONE:
        raise ExpectedError(
            f"The stack {stack} is {status} after a failed update, and its old template could not "
            "be put back: run `fanfold local up --fresh` to begin anew, which throws the local "
            "data away."
        )


def _wait(cloudformation: Any, stack: str) -> str | None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (status := _status(cloudformation, stack) or "").endswith("_IN_PROGRESS"):
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    return status


def _status(cloudformation: Any, stack: str) -> str | None:
    try:
        found = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except ClientError:
        # CloudFormation has no other answer for a stack that is not there.
        return None
    status: str = found[0]["StackStatus"]
    return status
