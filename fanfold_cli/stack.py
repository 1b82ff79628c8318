"""A deployed Fanfold stack, on AWS or on the local engine: outputs, settings, clients, users."""

import os
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names
from fanfold.settings import Settings
from fanfold_cli import aws
from fanfold_cli.console import ExpectedError
from fanfold_cli.local.home import Home

# Far above what any password policy asks for; nobody types it.
PASSWORD_CHARS = 32


@dataclass(frozen=True)
class Signed:
    """A user of the pool with a token; `sub` is how the product knows the user."""

    user: str
    sub: str
    token: str


@dataclass(frozen=True)
class Deployment:
    """Where a stack is, what it gave out, and how to talk to it."""

    region: str
    endpoint: str | None
    outputs: Mapping[str, str]

    @classmethod
    def local(cls, home: Home) -> "Deployment":
        """The stack on the engine that is running in this home."""
        state = home.running()
        if state is None:
            raise ExpectedError(
                f"No local engine is running in {home.path}: start one with `fanfold local up`."
            )
        if not state.outputs:
            raise ExpectedError(
                "The engine is running, but nothing is deployed on it: run `fanfold local up`."
            )
        return cls(aws.LOCAL_REGION, state.endpoint, state.outputs)

    @classmethod
    def on_aws(cls, stack: str, region: str | None = None) -> "Deployment":
        """The stack of this name in the account of the user's own credentials."""
        chosen = region or os.environ.get("AWS_REGION") or boto3.session.Session().region_name
        if chosen is None:
            raise ExpectedError(
                "No AWS region is set: set AWS_REGION, or give your AWS profile one."
            )
        try:
            cloudformation = aws.client("cloudformation", None, chosen)
            found = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
        except (ClientError, BotoCoreError) as error:
            raise ExpectedError(f"The stack {stack} in {chosen} cannot be read: {error}") from error
        return cls(chosen, None, outputs_of(found))

    @classmethod
    def choose(
        cls, stack: str | None = None, *, region: str | None = None, home: Home | None = None
    ) -> "Deployment":
        """The named stack on AWS, or the local one when none is named."""
        if stack is not None:
            return cls.on_aws(stack, region)
        chosen = home or Home.choose()
        if chosen.running() is None:
            raise ExpectedError(
                f"No local engine is running in {chosen.path}: start one with `fanfold local up`, "
                "or name a stack on AWS with --stack."
            )
        return cls.local(chosen)

    @property
    def is_local(self) -> bool:
        """Say whether this is a local engine, where nothing costs and nothing is private."""
        return self.endpoint is not None

    @property
    def api_url(self) -> str:
        """The address that the HTTP routes begin at, without a slash at its end."""
        return self.output(names.API_URL_OUTPUT).rstrip("/")

    def output(self, name: str) -> str:
        """Return one output of the stack, or say that the stack lacks it."""
        try:
            return self.outputs[name]
        except KeyError:
            raise ExpectedError(
                f"The stack has no output {name}: it is of another version than this command line. "
                "Deploy it again."
            ) from None

    def settings(self) -> Settings:
        """The settings of the run time, as far as the outputs of the stack tell them."""
        tables = {table.setting: self.output(table.output) for table in names.TABLES}
        queues = {queue.url_setting: self.output(queue.url_output) for queue in names.QUEUES}
        dlqs = {queue.dlq_url_setting: self.output(queue.dlq_url_output) for queue in names.QUEUES}
        return Settings(**tables, **queues, **dlqs)  # type: ignore[arg-type]

    def client(self, service: str, attempts: int = aws.ATTEMPTS) -> Any:
        """Return a boto3 client that talks to this stack's region or engine."""
        return aws.client(service, self.endpoint, self.region, attempts)

    def sign_in(self, user: str) -> Signed:
        """Make the user if need be, and return a fresh access token of theirs.

        The access token, because a JWT authorizer accepts its `client_id` in place of an audience,
        on AWS and on the engine alike, and because it is the token that is meant for an API.
        """
        cognito = self.client("cognito-idp")
        pool = self.output(names.USER_POOL_ID_OUTPUT)
        try:
            self._create_user(cognito, pool, user)
            password = _password()
            cognito.admin_set_user_password(
                UserPoolId=pool, Username=user, Password=password, Permanent=True
            )
            answer = cognito.admin_initiate_auth(
                UserPoolId=pool,
                ClientId=self.output(names.USER_POOL_CLIENT_ID_OUTPUT),
                AuthFlow="ADMIN_USER_PASSWORD_AUTH",
                AuthParameters={"USERNAME": user, "PASSWORD": password},
            )
            known = cognito.admin_get_user(UserPoolId=pool, Username=user)
        except (ClientError, BotoCoreError) as error:
            raise ExpectedError(f"The user {user} cannot sign in: {error}") from error
        sub = next(a["Value"] for a in known["UserAttributes"] if a["Name"] == "sub")
        if "AuthenticationResult" not in answer:
            raise ExpectedError(
                f"The user {user} must answer {answer.get('ChallengeName')} first, which this "
                "command line cannot do."
            )
        return Signed(user, sub, answer["AuthenticationResult"]["AccessToken"])

    def token(self, user: str) -> str:
        """Make the user if need be, and return a fresh access token of theirs."""
        return self.sign_in(user).token

    def _create_user(self, cognito: Any, pool: str, user: str) -> None:
        # Cognito gives every user a random `sub`. The engine takes one from the caller, so that
        # a walk-through shows `alice` where AWS would show a UUID.
        chosen_sub = [{"Name": "sub", "Value": user}] if self.is_local else []
        try:
            cognito.admin_create_user(
                UserPoolId=pool,
                Username=user,
                UserAttributes=chosen_sub,
                MessageAction="SUPPRESS",
            )
        except cognito.exceptions.UsernameExistsException:
            return


def outputs_of(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the outputs of a stack as CloudFormation describes it."""
    return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}


def _password() -> str:
    kinds = (string.ascii_lowercase, string.ascii_uppercase, string.digits, "-_.!")
    required = [secrets.choice(kind) for kind in kinds]
    rest = [secrets.choice("".join(kinds)) for _ in range(PASSWORD_CHARS - len(required))]
    return "".join(required + rest)
