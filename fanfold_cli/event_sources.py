"""The event source mappings of a stack's queues, and the settings of the functions behind them."""

from typing import Any

from fanfold import names
from fanfold.settings import Settings
from fanfold_cli.console import ExpectedError
from fanfold_cli.stack import Deployment


def mapping_of(deployment: Deployment, queue: names.Queue) -> dict[str, Any]:
    """The only event source mapping of the queue, as ListEventSourceMappings describes it."""
    arn = deployment.queue_arn(queue.url_output)
    found: list[dict[str, Any]] = deployment.client("lambda").list_event_source_mappings(
        EventSourceArn=arn
    )["EventSourceMappings"]
    if len(found) != 1:
        raise ExpectedError(
            f"The queue {queue.name.lower()} has {len(found)} event source mappings instead of "
            "one: deploy the stack again."
        )
    return found[0]


def run_time_settings(deployment: Deployment) -> Settings:
    """The settings of the deployed functions, which include those of the stage."""
    function = mapping_of(deployment, names.PUBLISH)["FunctionArn"]
    answer = deployment.client("lambda").get_function_configuration(FunctionName=function)
    try:
        return Settings.from_env(answer["Environment"]["Variables"])
    except KeyError as error:
        raise ExpectedError(
            "The version of the deployed functions differs from the version of this command line: "
            f"{error.args[0]} Deploy the stack again."
        ) from None
