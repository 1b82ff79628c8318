"""The HTTP API: the routes of the contract, each behind a verified token."""

import json
from collections.abc import Mapping
from typing import Final

from aws_cdk import Duration, Fn, Stack
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from fanfold import contract

from .embedding.surroundings import Domain
from .functions import keep_for_days
from .identity import Identity
from .settings.stages import CONSTRUCT, Stage
from .tables import removal_policy

# The burst limit as a share of the requests a second: an account's quotas are 5,000 and 10,000.
BURST_SHARE: Final = 0.5

# How long a browser caches the answer to a preflight; without it, each poll is two requests. This
# is Chrome's maximum.
PREFLIGHT_AGE: Final = Duration.hours(2)

# One permission covers all log groups with this prefix. Any other group is added by name to the
# region's resource policy of at most 5,120 characters; when it is full, deploys fail.
VENDED_LOGS: Final = "/aws/vendedlogs/"
# Without tokens and callers' addresses, and with the route's pattern instead of a path with ids.
ACCESS_LOG: Final = {
    "requestId": "$context.requestId",
    "requestTime": "$context.requestTime",
    "routeKey": "$context.routeKey",
    "status": "$context.status",
    "protocol": "$context.protocol",
    "responseLength": "$context.responseLength",
    "responseLatency": "$context.responseLatency",
    "integrationLatency": "$context.integrationLatency",
    "integrationError": "$context.integrationErrorMessage",
    "authorizerError": "$context.authorizer.error",
    "error": "$context.error.message",
}


class HttpDoor(Construct):
    """An HTTP API whose routes all require a token of the identity's issuer."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: Stage,
        identity: Identity,
        doors: Mapping[str, lambda_.IFunction],
        default_door: str,
        domain: Domain | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id_)
        self._domain = domain
        # Where a DNS record of the domain points; None without a domain.
        self.domain: gateway.DomainName | None = None
        behind = {
            # One permission for all routes: with one for each, three timelines in one stack would
            # have more than its 500 resources.
            name: integrations.HttpLambdaIntegration(
                f"{name.title()}Integration", function, scope_permission_to_route=False
            )
            for name, function in doors.items()
        }
        self.api = gateway.HttpApi(
            self,
            "Api",
            create_default_stage=False,
            default_authorizer=authorizers.HttpJwtAuthorizer(
                "Token", identity.issuer, jwt_audience=list(identity.audience)
            ),
            # The route `$default`: the function answers an unknown path with a problem document.
            # The route would also catch preflights, which have no token. Without it, API Gateway
            # answers them itself, at no cost:
            # https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-cors.html
            default_integration=None if stage.cors_origins else behind[default_door],
            cors_preflight=_cors(stage),
            disable_execute_api_endpoint=None if domain is None else not domain.default_endpoint,
        )
        for route in contract.ROUTES:
            self.api.add_routes(
                path=route.path,
                methods=[gateway.HttpMethod[route.method]],
                integration=behind[route.door],
            )
        deployed = self._add_stage(stage, key)
        if domain is not None:
            self.domain = _place(self, domain, deployed)

    @property
    def url(self) -> str:
        """The base URL of the routes, without a slash at the end."""
        if self._domain is not None:
            return f"https://{self._domain.name}"
        return self.api.api_endpoint

    def _add_stage(self, stage: Stage, key: kms.IKey | None) -> gateway.HttpStage:
        log_group = logs.LogGroup(
            self,
            "AccessLogs",
            log_group_name=_log_group_name(self),
            encryption_key=key,
            removal_policy=removal_policy(stage),
        )
        keep_for_days(log_group, stage.log_retention_days)
        deployed = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=gateway.ThrottleSettings(
                rate_limit=stage.requests_per_second,
                burst_limit=int(BURST_SHARE * stage.requests_per_second),
            ),
        )
        resource = deployed.node.default_child
        assert isinstance(resource, gateway.CfnStage)
        resource.access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=log_group.log_group_arn, format=json.dumps(ACCESS_LOG)
        )
        return deployed


def _place(scope: HttpDoor, domain: Domain, stage: gateway.HttpStage) -> gateway.DomainName:
    placed = gateway.DomainName(
        scope,
        "Domain",
        domain_name=domain.name,
        certificate=domain.certificate,
        security_policy=gateway.SecurityPolicy.TLS_1_2,
        mtls=domain.mtls,
    )
    gateway.ApiMapping(scope, "Mapping", api=scope.api, domain_name=placed, stage=stage)
    return placed


def _log_group_name(scope: Construct) -> str:
    """A name that a deleted stack of the same name has not left behind.

    A stack may hold several timelines. That of the app's own stack has a name without suffix.
    """
    stack = Stack.of(scope)
    stack_uuid = Fn.select(2, Fn.split("/", stack.stack_id))
    first = f"{stack.node.path}/{CONSTRUCT}/"
    which = "" if scope.node.path.startswith(first) else f"/{scope.node.addr[2:10]}"
    return f"{VENDED_LOGS}fanfold/{stack.stack_name}/{stack_uuid}{which}"


def _cors(stage: Stage) -> gateway.CorsPreflightOptions | None:
    if not stage.cors_origins:
        return None
    methods = dict.fromkeys(route.method for route in contract.ROUTES)
    return gateway.CorsPreflightOptions(
        allow_origins=list(stage.cors_origins),
        allow_methods=[gateway.CorsHttpMethod[method] for method in methods],
        allow_headers=["authorization", "content-type", "idempotency-key", contract.REQUEST_AGE],
        # Otherwise, the browser hides them from the page.
        expose_headers=["retry-after", "apigw-requestid"],
        max_age=PREFLIGHT_AGE,
    )
