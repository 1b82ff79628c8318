"""Take a failed update back without losing data, which the engine's own rollback would."""

import json
import time
from collections.abc import Mapping
from typing import Any

from fanfold_cli.console import ExpectedError
from fanfold_cli.template import Template

FAILED = "UPDATE_FAILED"
DONE = "UPDATE_COMPLETE"

# An update of the engine takes milliseconds.
TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.1

MARKER = "UndoneUpdate"


def undo_failed_updates(cloudformation: Any, deployed: Mapping[str, Template]) -> list[str]:
    """Put the deployed template back on every stack whose update failed; return their names.

    The engine refuses a direct update of such a stack, but takes a change set.
    """
    undone = []
    for stack, template in deployed.items():
        if _status(cloudformation, stack) == FAILED:
            _put_back(cloudformation, stack, template)
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
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (status := _status(cloudformation, stack)).endswith("_IN_PROGRESS"):
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    if status != DONE:
        raise ExpectedError(
            f"The stack {stack} is {status} after a failed update, and its old template could not "
            "be put back: run `fanfold local up --fresh` to begin anew, which throws the local "
            "data away."
        )


def _status(cloudformation: Any, stack: str) -> str:
    status: str = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
    return status
