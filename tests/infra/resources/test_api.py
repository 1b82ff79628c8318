"""The HTTP API: routes, tokens, users and limits."""

import json
from pathlib import Path

from fanfold import contract
from infra.settings.context import choose
from tests.infra.template import Template, of_type, only, synthesized

LIMITS = Path(__file__).parents[3] / "docs/limits.md"
API, STAGE = "AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage"
POOL, CLIENT = "AWS::Cognito::UserPool", "AWS::Cognito::UserPoolClient"


def routes(template: Template) -> dict[str, Template]:
    found = of_type(template, "AWS::ApiGatewayV2::Route").values()
    return {route["RouteKey"]: route for route in found}


def function_of(template: Template, route: Template) -> str:
    """The module of functions/ that answers this route."""
    integration = route["Target"]["Fn::Join"][1][1]["Ref"]
    uri = template["Resources"][integration]["Properties"]["IntegrationUri"]
    function = template["Resources"][uri["Fn::GetAtt"][0]]["Properties"]
    return str(function["Handler"]).split(".")[1]


def test_the_routes_are_those_of_the_contract_and_each_has_its_function(template: Template) -> None:
    found = {key: function_of(template, route) for key, route in routes(template).items()}
    default = found.pop("$default", "api")
    assert found == {route.key: route.door for route in contract.ROUTES}
    assert default == "api"


def test_every_route_requires_a_token(template: Template) -> None:
    (id_,) = of_type(template, "AWS::ApiGatewayV2::Authorizer")
    for route in routes(template).values():
        assert route["AuthorizationType"] == "JWT"
        assert route["AuthorizerId"] == {"Ref": id_}


def test_nobody_without_a_token_runs_a_function(template: Template) -> None:
    """API Gateway answers preflights itself, unless a route or `$default` catches them."""
    assert ("$default" in routes(template)) is ("CorsConfiguration" not in only(template, API))


def test_operators_create_the_pools_users_who_sign_in_without_a_client_secret(
    dev: Template,
) -> None:
    assert only(dev, POOL)["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    client = only(dev, CLIENT)
    assert client["GenerateSecret"] is False
    flows = {"ALLOW_ADMIN_USER_PASSWORD_AUTH", "ALLOW_USER_PASSWORD_AUTH"}
    assert set(client["ExplicitAuthFlows"]) == flows | {"ALLOW_REFRESH_TOKEN_AUTH"}


def test_the_pools_users_cannot_change_their_address_or_names(dev: Template) -> None:
    # Without a list, a client may write every standard attribute; an empty list counts as none.
    assert only(dev, CLIENT)["WriteAttributes"] == ["locale"]


def test_the_api_stage_is_the_default_one_and_throttled(template: Template) -> None:
    stage = only(template, STAGE)
    assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == 2_000
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == 1_000
    assert "| 2,000, and 1,000 at once" in LIMITS.read_text()


# What API Gateway knows of a request without its caller: its route's pattern in the place of a path
# with ids, times, sizes, and its own words about what failed.
LOGGED = {
    f"$context.{name}"
    for name in (
        "requestId", "requestTime", "routeKey", "status", "protocol", "responseLength",
        "responseLatency", "integrationLatency", "integrationErrorMessage", "authorizer.error",
        "error.message",
    )
}  # fmt: skip


def test_the_access_log_is_json_without_tokens_callers_or_ids(template: Template) -> None:
    logged = set(json.loads(only(template, STAGE)["AccessLogSettings"]["Format"]).values())
    assert logged == LOGGED
    for secret in ("authorization", "claims", "identity", "path", "header"):
        assert not [variable for variable in logged if secret in variable.lower()]


def test_only_browsers_of_configured_origins_may_call(
    dev: Template, prod: Template, pooled: Template
) -> None:
    for template in (dev, pooled):
        assert "CorsConfiguration" not in only(template, API)
    opened = only(prod, API)["CorsConfiguration"]
    assert opened["AllowOrigins"] == ["https://app.example.com"]
    assert not opened.get("AllowCredentials")
    assert opened["ExposeHeaders"] == ["retry-after", "apigw-requestid"]
    assert opened["MaxAge"] == 2 * 60 * 60
    assert set(opened["AllowMethods"]) == {"POST", "DELETE", "PUT", "GET"}


def test_every_browser_of_this_machine_may_call_a_local_engine() -> None:
    opened = only(synthesized(stage="local"), API)["CorsConfiguration"]
    assert opened["AllowOrigins"] == ["*"]
    assert not opened.get("AllowCredentials")
    named = choose({"stage": "local", "cors_origins": "http://localhost:5173"})
    assert named.cors_origins == ("http://localhost:5173",)
