"""The HTTP API: routes, tokens, users and limits."""

import json
from collections.abc import Callable
from pathlib import Path

from fanfold import contract, names
from tests.infra.conftest import Synthesize
from tests.infra.template import Template, of_type

LIMITS = Path(__file__).parents[2] / "docs/limits.md"


def routes(template: Template) -> dict[str, Template]:
    return {
        route["RouteKey"]: route for route in of_type(template, "AWS::ApiGatewayV2::Route").values()
    }


def authorizer(template: Template) -> tuple[str, Template]:
    (found,) = of_type(template, "AWS::ApiGatewayV2::Authorizer").items()
    return found


def function_of(template: Template, route: Template) -> str:
    """The module of functions/ that answers this route."""
    integration = route["Target"]["Fn::Join"][1][1]["Ref"]
    uri = template["Resources"][integration]["Properties"]["IntegrationUri"]
    function = template["Resources"][uri["Fn::GetAtt"][0]]["Properties"]
    return str(function["Handler"]).split(".")[1]


def test_the_routes_are_those_of_the_contract_and_a_default(dev: Template) -> None:
    assert set(routes(dev)) == {route.key for route in contract.ROUTES} | {"$default"}


def test_every_route_has_its_function(template: Template) -> None:
    found = routes(template)
    for route in contract.ROUTES:
        assert function_of(template, found[route.key]) == route.door
    assert "$default" not in found or function_of(template, found["$default"]) == "api"


def test_every_route_requires_a_token(template: Template) -> None:
    id_, _ = authorizer(template)
    for route in routes(template).values():
        assert route["AuthorizationType"] == "JWT"
        assert route["AuthorizerId"] == {"Ref": id_}


def test_tokens_are_checked_against_the_pools_own_issuer_and_client(dev: Template) -> None:
    (pool,) = of_type(dev, "AWS::Cognito::UserPool")
    (client,) = of_type(dev, "AWS::Cognito::UserPoolClient")
    _, checked = authorizer(dev)
    issuer = checked["JwtConfiguration"]["Issuer"]["Fn::Join"]
    region = {"Ref": "AWS::Region"}
    assert issuer == ["", ["https://cognito-idp.", region, ".amazonaws.com/", {"Ref": pool}]]
    assert checked["JwtConfiguration"]["Audience"] == [{"Ref": client}]


def test_a_configured_issuer_is_used_unchanged(prod: Template) -> None:
    _, checked = authorizer(prod)
    assert checked["JwtConfiguration"] == {
        "Issuer": "https://issuer.example.com/",
        "Audience": ["timeline", "web"],
    }
    assert checked["IdentitySource"] == ["$request.header.Authorization"]


def test_with_a_configured_issuer_there_is_no_pool(prod: Template) -> None:
    assert not of_type(prod, "AWS::Cognito::UserPool")
    assert names.USER_POOL_ID_OUTPUT not in prod["Outputs"]
    assert names.USER_POOL_CLIENT_ID_OUTPUT not in prod["Outputs"]


def test_a_pool_of_prod_is_protected(synthesize: Callable[..., Template]) -> None:
    template = synthesize(stage="prod", user_pool="true", alarms_unwatched="true")
    (pool,) = of_type(template, "AWS::Cognito::UserPool").values()
    assert pool["DeletionProtection"] == "ACTIVE"
    assert names.USER_POOL_ID_OUTPUT in template["Outputs"]


def test_operators_create_the_pools_users_who_sign_in_without_a_client_secret(
    dev: Template,
) -> None:
    (pool,) = of_type(dev, "AWS::Cognito::UserPool").values()
    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    (client,) = of_type(dev, "AWS::Cognito::UserPoolClient").values()
    assert client["GenerateSecret"] is False
    flows = {"ALLOW_ADMIN_USER_PASSWORD_AUTH", "ALLOW_USER_PASSWORD_AUTH"}
    assert set(client["ExplicitAuthFlows"]) == flows | {"ALLOW_REFRESH_TOKEN_AUTH"}


def test_the_pools_users_cannot_change_their_address_or_names(dev: Template) -> None:
    (client,) = of_type(dev, "AWS::Cognito::UserPoolClient").values()
    # Without a list, a client may write every standard attribute; an empty list counts as none.
    assert client["WriteAttributes"] == ["locale"]


def test_an_address_counts_only_once_it_is_verified(dev: Template) -> None:
    (pool,) = of_type(dev, "AWS::Cognito::UserPool").values()
    assert pool["AutoVerifiedAttributes"] == ["email"]
    assert pool["UserAttributeUpdateSettings"] == {
        "AttributesRequireVerificationBeforeUpdate": ["email"]
    }


def test_nothing_that_would_replace_the_pool_is_set(dev: Template) -> None:
    (pool,) = of_type(dev, "AWS::Cognito::UserPool").values()
    fixed = {"AliasAttributes", "UsernameAttributes", "UsernameConfiguration", "Schema"}
    assert not fixed & set(pool)


def test_the_api_stage_is_the_default_one_and_throttled(template: Template) -> None:
    (stage,) = of_type(template, "AWS::ApiGatewayV2::Stage").values()
    assert stage["StageName"] == "$default"
    assert stage["AutoDeploy"] is True
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == 2_000
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == 1_000
    assert "| 2,000, and 1,000 at once" in LIMITS.read_text()


def test_a_stage_may_raise_the_request_limit(synthesize: Callable[..., Template]) -> None:
    template = synthesize(stage="dev", requests_per_second="12000")
    (stage,) = of_type(template, "AWS::ApiGatewayV2::Stage").values()
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == 12_000
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == 6_000


def test_the_access_log_needs_no_room_in_the_regions_resource_policy(template: Template) -> None:
    (group,) = [
        group
        for group in of_type(template, "AWS::Logs::LogGroup").values()
        if "LogGroupName" in group
    ]
    start, unique = group["LogGroupName"]["Fn::Join"][1]
    assert start == "/aws/vendedlogs/fanfold/Fanfold/"
    # What another stack of this name has left behind is another group.
    assert unique == {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    (stage,) = of_type(template, "AWS::ApiGatewayV2::Stage").values()
    logged_to = stage["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"][0]
    assert template["Resources"][logged_to]["Properties"] == group


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
    (stage,) = of_type(template, "AWS::ApiGatewayV2::Stage").values()
    logged = set(json.loads(stage["AccessLogSettings"]["Format"]).values())
    assert logged == LOGGED
    for variable in logged:
        for secret in ("authorization", "claims", "identity", "path", "header"):
            assert secret not in variable.lower()


def test_only_browsers_of_configured_origins_may_call(
    dev: Template, prod: Template, synthesize: Synthesize
) -> None:
    pool = synthesize(stage="prod", user_pool="true", alarms_unwatched="true")
    for template in (dev, pool):
        (closed,) = of_type(template, "AWS::ApiGatewayV2::Api").values()
        assert "CorsConfiguration" not in closed
    (opened,) = of_type(prod, "AWS::ApiGatewayV2::Api").values()
    assert opened["CorsConfiguration"]["AllowOrigins"] == ["https://app.example.com"]
    assert not opened["CorsConfiguration"].get("AllowCredentials")
    assert opened["CorsConfiguration"]["ExposeHeaders"] == ["retry-after", "apigw-requestid"]
    assert opened["CorsConfiguration"]["MaxAge"] == 2 * 60 * 60
    assert set(opened["CorsConfiguration"]["AllowMethods"]) == {"POST", "DELETE", "PUT", "GET"}


def test_nobody_without_a_token_runs_a_function(template: Template) -> None:
    """API Gateway answers preflights itself, unless a route or `$default` catches them."""
    found = routes(template)
    assert all(route["AuthorizationType"] == "JWT" for route in found.values())
    (api,) = of_type(template, "AWS::ApiGatewayV2::Api").values()
    assert ("$default" in found) is ("CorsConfiguration" not in api)


def test_every_browser_of_this_machine_may_call_a_local_engine(synthesize: Synthesize) -> None:
    (api,) = of_type(synthesize(stage="local"), "AWS::ApiGatewayV2::Api").values()
    assert api["CorsConfiguration"]["AllowOrigins"] == ["*"]
    assert not api["CorsConfiguration"].get("AllowCredentials")
    (api,) = of_type(
        synthesize(stage="local", cors_origins="http://localhost:5173"), "AWS::ApiGatewayV2::Api"
    ).values()
    assert api["CorsConfiguration"]["AllowOrigins"] == ["http://localhost:5173"]
