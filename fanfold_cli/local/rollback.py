"""Roll a failed deployment back without losing data, which the engine's own rollback deletes."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from fanfold_cli.console import ExpectedError
from fanfold_cli.local import processes
from fanfold_cli.local.template import Template

CREATION_FAILED = "CREATE_FAILED"
UPDATE_FAILED = "UPDATE_FAILED"
DONE = "UPDATE_COMPLETE"

# An update of the engine takes milliseconds.
TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.1

MARKER = "UndoneUpdate"


def roll_back_failures(
    cloudformation: Any, stacks: Iterable[str], deployed: Mapping[str, Template]
) -> list[str]:
    """Make every failed stack deployable again; return the names of these stacks.

    A stack whose creation failed holds no data and is deleted. A stack whose update failed gets its
    deployed template back, by a change set because the engine refuses a direct update then.
    """
    rolled_back = []
    for stack in stacks:
        status = _status(cloudformation, stack)
        if status == CREATION_FAILED:
            cloudformation.delete_stack(StackName=stack)
            _wait(cloudformation, stack)
            rolled_back.append(stack)
        elif status == UPDATE_FAILED:
            _restore(cloudformation, stack, deployed[stack])
            rolled_back.append(stack)
    return rolled_back


def with_marker(template: Template) -> dict[str, Any]:
    """Return the template with one more resource, which does nothing.

    After a failed update the engine still compares with the old template, and it does not execute
    a change set without a difference. The next deployment removes the resource.
    """
    marker = {MARKER: {"Type": "AWS::CloudFormation::WaitConditionHandle"}}
    return {**template, "Resources": {**template["Resources"], **marker}}


def _restore(cloudformation: Any, stack: str, template: Template) -> None:
    name = f"rollback-{time.time_ns()}"
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
            "be restored: run `fanfold local up --fresh`, which deletes the local data and starts "
            "a new engine."
        )


def _wait(cloudformation: Any, stack: str) -> str | None:
    """Wait while an operation of the stack is in progress; return the status after that."""

    def is_settled() -> bool:
        return not (_status(cloudformation, stack) or "").endswith("_IN_PROGRESS")

    processes.wait_until(is_settled, TIMEOUT_SECONDS, POLL_SECONDS)
    return _status(cloudformation, stack)


def _status(cloudformation: Any, stack: str) -> str | None:
    try:
        found = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except ClientError:
        # CloudFormation answers with a validation error if there is no such stack.
        return None
    status: str = found[0]["StackStatus"]
    return status
