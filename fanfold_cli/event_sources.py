"""What feeds the queues of a stack to its functions, and what those functions are told."""

from typing import Any

from fanfold import names
from fanfold.settings import Settings
from fanfold_cli.console import ExpectedError
from fanfold_cli.queues import arn_of
from fanfold_cli.stack import Deployment


def mapping_of(deployment: Deployment, queue: names.Queue) -> dict[str, Any]:
    """The one event source mapping of the queue, as Lambda tells it."""
    arn = arn_of(deployment, deployment.output(queue.url_output))
    found: list[dict[str, Any]] = deployment.client("lambda").list_event_source_mappings(
        EventSourceArn=arn
    )["EventSourceMappings"]
    if len(found) != 1:
        raise ExpectedError(
            f"The queue {queue.name.lower()} is fed to {len(found)} functions where there should "
            "be one: deploy the stack again."
        )
    return found[0]


def run_time_settings(deployment: Deployment) -> Settings:
    """The settings as the deployed functions have them, the stage's own among them."""
    function = mapping_of(deployment, names.PUBLISH)["FunctionArn"]
    answer = deployment.client("lambda").get_function_configuration(FunctionName=function)
    try:
        return Settings.from_env(answer["Environment"]["Variables"])
    except KeyError as error:
        raise ExpectedError(
            f"The functions are of another version than this command line: {error} Deploy again."
        ) from None
