"""A deployed Fanfold stack, on AWS or on the local engine: outputs, settings, clients, users."""

import getpass
import math
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names
from fanfold.settings import Settings
from fanfold.stores import Stores
from fanfold_cli import aws
from fanfold_cli.local.home import Home
from fanfold_cli.terminal import ExpectedError, failing_with, say
from fanfold_cli.users.sign_in import sign_in

# On loopback, where a closed port refuses immediately.
LISTEN_SECONDS = 1.0


@dataclass(frozen=True)
class Deployment:
    """The outputs of a stack, and how to reach it; `endpoint` is None on AWS."""

    region: str
    endpoint: aws.LocalEndpoint | None
    outputs: Mapping[str, str]
    home: Home | None = field(default=None, kw_only=True)  # of its local engine
    stack: str = field(default="", kw_only=True)  # on AWS, its name and its account
    account: str = field(default="", kw_only=True)
    is_protected: bool = field(default=False, kw_only=True)  # from deletion, like `prod`
    updated_ms: float = field(default=math.inf, kw_only=True)  # its last deploy; infinite: unknown

    @classmethod
    def local(cls, home: Home, alternative: str = "") -> "Deployment":
        """The stack on the engine of this home; an error also suggests the `alternative`."""
        state = home.running()
        if state is None:
            home.check()  # before the advice to make it a home
            raise ExpectedError(
                f"No local engine is running in {home.path}: start one with "
                f"{home.command('up')}{alternative}."
            )
        if not state.outputs:
            raise ExpectedError(
                f"The engine is running, but nothing is deployed on it: run {home.command('up')}."
            )
        return cls(aws.LOCAL_REGION, state.local_endpoint, state.outputs, home=home)

    @classmethod
    def on_aws(cls, stack: str) -> "Deployment":
        """The stack of this name in the account of the user's credentials."""
        region = aws_region()
        with failing_with(f"The stack {stack} in {region} cannot be read"):
            cloudformation = aws.client("cloudformation", None, region)
            found = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
        deployed = found.get("LastUpdatedTime") or found.get("CreationTime")
        return cls(
            region,
            None,
            outputs_of(found),
            stack=found["StackName"],  # `stack` may be an ARN
            account=found["StackId"].split(":")[4],
            is_protected=found.get("EnableTerminationProtection", False),
            updated_ms=deployed.timestamp() * 1000 if deployed else math.inf,
        )

    @classmethod
    def choose(cls, stack: str | None, home: str | None) -> "Deployment":
        """The named stack on AWS, or the local stack in this directory if none is named."""
        if stack is not None:
            return cls.on_aws(stack)
        return cls.local(Home.choose(home), ", or name a stack on AWS with --stack")

    @classmethod
    def to_change(cls, stack: str | None, home: str | None) -> "Deployment":
        """The chosen stack, named on stderr: for a command that changes something there.

        A sign-in is a change, too: it creates the user, and sets a new password.
        """
        chosen = cls.choose(stack, home)
        say(f"On {chosen.place}:")
        return chosen

    @property
    def is_local(self) -> bool:
        return self.endpoint is not None

    @property
    def place(self) -> str:
        """The name of the stack in questions and files."""
        if self.is_local:
            return f"the local engine in {(self.home or Home.choose()).path}"
        return place_of(self.stack, self.account, self.region)

    def has_ended(self) -> bool:
        """Whether this is a local engine and nothing listens at its address."""
        if self.endpoint is None:
            return False
        address = urlsplit(self.endpoint.url)
        try:
            socket.create_connection((address.hostname, address.port), LISTEN_SECONDS).close()
        except OSError as error:  # other errors: it is too busy to answer
            return isinstance(error, ConnectionRefusedError)
        return False

    def check_running(self) -> None:
        """Raise `ExpectedError` if this is a local engine that has ended."""
        if self.has_ended():
            raise ExpectedError(f"The local engine has ended: start it with {self.up_command}.")

    @property
    def api_url(self) -> str:
        """The base URL of the HTTP API, without a trailing slash."""
        return self.output(names.API_URL_OUTPUT).rstrip("/")

    def output(self, name: str) -> str:
        """The value of an output; raises `ExpectedError` if the stack has none of this name."""
        try:
            return self.outputs[name]
        except KeyError:
            raise ExpectedError(
                f"The stack has no output {name}, so its version differs from the version of this "
                "command line: deploy it again."
            ) from None

    def settings(self) -> Settings:
        """The settings in the outputs of the stack; the others have their defaults."""
        tables = {table.setting: self.output(table.output) for table in names.TABLES}
        queues = {queue.url_setting: self.output(queue.url_output) for queue in names.QUEUES}
        dlqs = {queue.dlq_url_setting: self.output(queue.dlq_url_output) for queue in names.QUEUES}
        return Settings(**tables, **queues, **dlqs)  # type: ignore[arg-type]

    def stores(self, settings: Settings | None = None, attempts: int = aws.ATTEMPTS) -> Stores:
        """The stores of its tables, with these settings or `settings()`."""
        return Stores(self.client("dynamodb", attempts), settings or self.settings())

    def client(self, service: str, attempts: int = aws.ATTEMPTS) -> Any:
        return aws.client(service, self.endpoint, self.region, attempts)

    def caller(self) -> str:
        """Who runs this command: the end of their ARN, such as `user/ann`, or the local user name.

        Empty if unknown.
        """
        if self.is_local:
            try:
                return getpass.getuser()
            except (KeyError, OSError):  # a user without a name, as in a container
                return ""
        try:
            arn = str(self.client("sts").get_caller_identity()["Arn"])
        except (ClientError, BotoCoreError):
            return ""
        return arn.split(":", 5)[5]

    def queue_arn(self, output: str) -> str:
        """The ARN of the queue whose URL is in this output."""
        answer = self.client("sqs").get_queue_attributes(
            QueueUrl=self.output(output), AttributeNames=["QueueArn"]
        )
        return str(answer["Attributes"]["QueueArn"])

    def event_source_mapping(self, queue: names.Queue) -> dict[str, Any]:
        """The queue's only mapping, as ListEventSourceMappings describes it."""
        found: list[dict[str, Any]] = self.client("lambda").list_event_source_mappings(
            EventSourceArn=self.queue_arn(queue.url_output)
        )["EventSourceMappings"]
        if len(found) != 1:
            raise ExpectedError(
                f"The queue {queue.lane} has {len(found)} event source mappings instead of "
                "one: deploy the stack again."
            )
        return found[0]

    def _variables(self) -> dict[str, str]:
        """The environment of PLAN."""
        function = self.event_source_mapping(names.PUBLISH)["FunctionArn"]
        answer = self.client("lambda").get_function_configuration(FunctionName=function)
        variables: dict[str, str] = answer["Environment"]["Variables"]
        return variables

    def service_names(self) -> dict[names.Function, str]:
        """The dimension `service` of the metrics of each function that completes deliveries."""
        prefix = self._variables().get(names.SERVICE_NAME, "").removesuffix(names.PLAN.name)
        return {each: prefix + each.name for each in (names.PLAN, names.DELIVER, names.SWEEP)}

    def run_time_settings(self) -> Settings:
        """The settings of the deployed functions, including those of the stage."""
        variables = self._variables()
        try:
            return Settings.from_env(variables)
        except KeyError as error:
            raise ExpectedError(
                "The version of the deployed functions differs from the version of this command "
                f"line: {error.args[0]} Deploy the stack again."
            ) from None

    def token(self, user: str) -> str:
        """A fresh access token of the user; see `sign_in`."""
        return sign_in(self, user).token

    @property
    def up_command(self) -> str:
        """The command that starts the local engine again, quoted."""
        return (self.home or Home.choose()).command("up")

    def delete_user(self, user: str) -> None:
        """Delete the user from the pool, if there is one; raises `ExpectedError`."""
        cognito = self.client("cognito-idp")
        missing = suppress(cognito.exceptions.UserNotFoundException)
        with failing_with(f"The user {user} cannot be deleted"), missing:
            pool = self.output(names.USER_POOL_ID_OUTPUT)
            cognito.admin_delete_user(UserPoolId=pool, Username=user)


def aws_region() -> str:
    """The region of the user's environment or profile; raises `ExpectedError` if there is none."""
    region: str | None = os.environ.get("AWS_REGION") or aws.own_session().region_name
    if region is None:
        raise ExpectedError(
            "No AWS region is set: set AWS_REGION, or set a region in your AWS profile."
        )
    return region


def place_of(stack: str, account: str, region: str) -> str:
    """The name of a stack on AWS in questions and files."""
    return f"{stack} (account {account}, {region})"


def outputs_of(described: Mapping[str, Any]) -> dict[str, str]:
    """The outputs of a stack, from an answer of DescribeStacks."""
    return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}
