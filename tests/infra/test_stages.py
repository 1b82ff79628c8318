"""Stages are data; a wrong one is refused with a sentence."""

import platform
import re
import sys
from dataclasses import replace

import pytest

from fanfold.budgets import Budget
from infra.context import choose
from infra.stage_checks import StageError
from infra.stages import DEV, LOCAL, PROD, STAGES, VERIFY, Stage

WATCHED = {"alarm_email": "operators@example.com"}


def with_context(**context: object) -> Stage:
    return choose(context)


def test_dev_is_the_default_stage() -> None:
    assert with_context() == DEV


@pytest.mark.parametrize("name", ["dev", "local"])
def test_a_stage_is_chosen_by_its_name(name: str) -> None:
    assert with_context(stage=name) is not None
    assert with_context(stage=name) == STAGES[name]


def test_a_verify_stage_may_have_a_name_and_so_a_stack_of_its_own() -> None:
    assert with_context(stage="verify-anna") == replace(VERIFY, name="verify-anna")
    assert not VERIFY.keep_data


@pytest.mark.parametrize("name", ["verify-", "verify-Anna", "dev-anna", f"verify-{'a' * 21}"])
def test_no_other_stage_has_variants(name: str) -> None:
    with pytest.raises(StageError, match="There is no stage"):
        with_context(stage=name)


def test_an_unknown_stage_is_refused_with_the_known_names() -> None:
    with pytest.raises(StageError, match="There is no stage 'staging'; choose one of dev, prod"):
        with_context(stage="staging")


def test_prod_requires_a_choice_of_its_users() -> None:
    with pytest.raises(StageError, match=r"RSA.*jwt_issuer=.*jwt_audience=.*user_pool=true"):
        with_context(stage="prod")


def test_prod_has_a_pool_only_by_choice() -> None:
    assert not PROD.user_pool
    assert with_context(stage="prod", user_pool="true", **WATCHED).user_pool


def test_prod_may_have_an_issuer_of_ones_own() -> None:
    stage = with_context(
        stage="prod",
        jwt_issuer="https://id.example.com",
        jwt_audience="a, b",
        user_claim="email",
        **WATCHED,
    )
    assert stage.jwt_issuer == "https://id.example.com"
    assert stage.jwt_audience == ("a", "b")
    assert stage.user_claim == "email"


@pytest.mark.parametrize("context", [{"stage": "prod"}, {"stage": "dev", "keep_data": "true"}])
def test_a_stage_that_keeps_its_data_wants_somebody_who_hears_its_alarms(
    context: dict[str, str],
) -> None:
    context = {"user_pool": "true", **context}
    with pytest.raises(
        StageError, match=r"Nobody would hear .*alarm_email=.*alarms_unwatched=true"
    ):
        with_context(**context)
    for heard in (
        WATCHED,
        {"slack_workspace_id": "T0123", "slack_channel_id": "C0123"},
        {"alarms_unwatched": "true"},
    ):
        assert with_context(**context, **heard).keep_data


def test_a_stage_to_try_things_out_needs_nobody() -> None:
    for name in ("dev", "local"):
        assert with_context(stage=name).alarm_email is None


@pytest.mark.parametrize("claim", ["sub", "username"])
def test_with_the_stacks_own_pool_the_user_is_what_cognito_fixes(claim: str) -> None:
    assert with_context(user_claim=claim).user_claim == claim
    assert with_context(stage="local", user_claim=claim).user_claim == claim


def test_a_local_user_is_known_by_name_because_a_sub_cannot_be_chosen() -> None:
    assert with_context(stage="local").user_claim == "username"
    assert with_context(stage="dev").user_claim == "sub"


def test_cdk_json_may_have_typed_values() -> None:
    stage = with_context(
        stage="prod",
        jwt_issuer="https://id.example.com",
        jwt_audience=["a", "b"],
        bulk_concurrency=4,
        user_pool=False,
        **WATCHED,
    )
    assert (stage.jwt_audience, stage.bulk_concurrency) == (("a", "b"), 4)


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        ({"user_pool": "perhaps"}, "'user_pool' must be true or false, not 'perhaps'"),
        (
            {"contributor_insights": "throttled"},
            "'contributor_insights' must be true or false, not 'throttled'",
        ),
        ({"warm_write_units": "many"}, "'warm_write_units' must be a whole number"),
        ({"warm_write_units": "-1"}, "'warm_write_units' must be from 4000 to"),
        ({"backfill": "31"}, "'backfill' must be from 0 to 30, not 31"),
        ({"backfill": "-1"}, "'backfill' must be from 0 to 30, not -1"),
        ({"max_level": "-1"}, "'max_level' must be from 0 to 10, not -1"),
        ({"warm_write_units": "100"}, "'warm_write_units' must be from 4000 to"),
        (
            {"warm_write_units": "40001"},
            "'warm_write_units' is 40,001, above the 40,000 .* ask AWS .* -c write_quota=40001",
        ),
        (
            {"max_write_request_units": "60000", "write_quota": "50000"},
            "'max_write_request_units' is 60,000, above the 50,000 .* -c write_quota=60000",
        ),
        ({"write_quota": "39999"}, "'write_quota' must be from 40000 to"),
        ({"max_write_request_units": "99"}, "'max_write_request_units' must be from 100 to"),
        ({"bulk_concurrency": "1361"}, "'bulk_concurrency' must be from 2 to 1000, not 1361"),
        (
            {"bulk_concurrency": "137", "warm_write_units": "4000", "concurrency": "1000"},
            "'bulk_concurrency' is too high: At a write capacity of 4,000 .* at most 136 workers",
        ),
        ({"transport": "aiohttp"}, "'transport' must be one of libcurl, boto3, not 'aiohttp'"),
        ({"transport": ""}, "'transport' is empty"),
        ({"post_readers": "all"}, "'post_readers' must be one of users, publisher, not 'all'"),
        ({"follower_readers": "all"}, "'follower_readers' must be one of users, publisher, not"),
        ({"requests_per_second": "5"}, "'requests_per_second' must be from 10 to 100000, not 5"),
        ({"concurrency": "9"}, "'concurrency' must be from 10 to 100000, not 9"),
        (
            {"express_concurrency": "20"},
            r"'concurrency' is too low: .* express 20, .* Of 10 .* 8 are theirs.*concurrency=33\.",
        ),
        (
            {"stage": "prod", "concurrency": "20", "bulk_concurrency": "16"},
            r"too low: .*\(publish 2, express 2, bulk 16, relation 2\).* 16 are theirs",
        ),
        ({"express_concurrency": "1"}, "'express_concurrency' must be from 2 to 1000, not 1"),
        ({"relation_concurrency": "1001"}, "'relation_concurrency' must be from 2 to 1000"),
        ({"large_fanout_days": "0"}, "'large_fanout_days' must be from 1 to 13, not 0"),
        ({"large_fanout_days": "14"}, "'large_fanout_days' must be from 1 to 13, not 14"),
        ({"retention_days": "0"}, "'retention_days' must be from 1 to"),
        ({"longest_retention_days": "3651"}, "'longest_retention_days' must be from 0 to"),
        ({"concurrency": "9" * 5_000}, "'concurrency' must be a whole number"),
        ({"log_retention_days": "8"}, "'log_retention_days' must be one of 1, 3, 5, 7"),
        ({"user_claim": "two words"}, "'user_claim' must be the name of a claim"),
        ({"user_claim": ""}, "'user_claim' is empty"),
        ({"tags": "AWS:team=feed"}, "names do not begin with aws:"),
        ({"tags": "team=feed,Team=shop"}, "each tag once"),
        # Of an unset variable of a shell: it would bind nobody.
        ({"senders": ""}, "'senders' is empty"),
        ({"senders": " , "}, "'senders' is empty"),
        ({"user_claim": "email"}, "'user_claim' must be one of sub, username .* not 'email'"),
        ({"user_claim": "cognito:username"}, "'user_claim' must be one of sub, username"),
        ({"user_claim": "preferred_username"}, "'user_claim' must be one of sub, username"),
        ({"jwt_issuer": "https://id.example.com"}, "give -c user_pool=false beside 'jwt_issuer'"),
        ({"user_pool": "false", "jwt_issuer": "id.example.com"}, "'jwt_issuer' must be the https"),
        ({"user_pool": "false", "jwt_issuer": "https://id.example.com"}, "'jwt_audience' is missi"),
        *(
            (
                {"user_pool": "false", "jwt_issuer": issuer, "jwt_audience": "a"},
                f"an address on the internet, not '{re.escape(issuer)}': .*RSA",
            )
            for issuer in (
                "https://localhost:8443",
                "https://keycloak/realms/a",
                "https://login.corp.internal",
                "https://10.0.0.7/realms/a",
                "https://[fd00::7]/realms/a",
                "https://[fd00::7",
                "https://id.example.com:x/realms/a",
                "https://id.example.com:99999",
            )
        ),
        *(
            (
                {
                    "user_pool": "false",
                    "jwt_issuer": f"{scheme}://somebody:secret@id.example.com",
                    "jwt_audience": "a",
                },
                "that the tokens carry as `iss`, without a user's name or password.$",
            )
            for scheme in ("https", "http")
        ),
        (
            {
                "user_pool": "false",
                "jwt_issuer": "https://id.example.com",
                "jwt_audience": ",".join(f"app-{number}" for number in range(51)),
            },
            "'jwt_audience' names 51 .* API Gateway takes at most 50",
        ),
        (
            {
                "user_pool": "false",
                "jwt_issuer": "https://id.example.com/.well-known/openid-configuration",
                "jwt_audience": "a",
            },
            "without '/.well-known/openid-configuration'",
        ),
        ({"cors_origins": "https://a.example/path"}, "'cors_origins' must be origins"),
        ({"cors_origins": "*"}, "'cors_origins' must be origins"),
        ({"stage": "verify", "cors_origins": "*"}, "'cors_origins' must be origins"),
        ({"stage": "local", "cors_origins": "*,http://a.example"}, "'cors_origins' must be"),
        ({"alarm_email": "nobody"}, "'alarm_email' must be an e-mail address"),
        ({"slack_channel_id": "C0123"}, "Give 'slack_workspace_id' and 'slack_channel_id' both"),
        ({"slack_workspace_id": "T0123"}, "Give 'slack_workspace_id' and 'slack_channel_id' both"),
        ({"slack_workspace_id": "Ours", "slack_channel_id": "C0123"}, "'slack_workspace_id' must"),
        ({"slack_workspace_id": "T0123", "slack_channel_id": "#ours"}, "'slack_channel_id' must"),
        (
            {"stage": "local", "slack_workspace_id": "T0123", "slack_channel_id": "C0123"},
            "A local engine sends nothing to Slack",
        ),
    ],
)
def test_a_bad_value_is_refused_with_its_name(context: dict[str, str], sentence: str) -> None:
    with pytest.raises(StageError, match=sentence):
        with_context(**context)


def test_the_runtime_is_not_a_context_value() -> None:
    assert with_context(runtime="python3.9", architecture="x86_64") == DEV


def test_the_local_stage_is_dev_on_the_runtime_of_this_machine() -> None:
    own = ("user_claim", "cors_origins")
    fixed = ("runtime", "architecture", "wheel_platform", "metric_math", *own)
    same = {name: getattr(DEV, name) for name in fixed}
    assert replace(LOCAL, name="dev", **same) == DEV
    assert LOCAL.python_version == ".".join(map(str, sys.version_info[:2]))
    arm = platform.machine().lower() in ("aarch64", "arm64")
    assert LOCAL.architecture == ("arm64" if arm else "x86_64")
    assert LOCAL.wheel_platform.startswith("aarch64-" if arm else "x86_64-")


@pytest.mark.parametrize("stage", [DEV, PROD])
def test_aws_runs_one_python_on_arm(stage: Stage) -> None:
    assert (stage.python_version, stage.architecture) == ("3.14", "arm64")
    assert stage.wheel_platform.startswith("aarch64-manylinux")


@pytest.mark.parametrize(
    ("context", "capacity"),
    [
        ({}, 40_000),
        ({"warm_write_units": "20000"}, 20_000),
        ({"max_write_request_units": "30000"}, 30_000),
        ({"warm_write_units": "20000", "max_write_request_units": "30000"}, 30_000),
        ({"warm_write_units": "20000", "max_write_request_units": "5000"}, 5_000),
    ],
)
@pytest.mark.parametrize("name", ["dev", "local"])
def test_the_budget_divides_the_maximum_or_the_warm_throughput_or_the_quota(
    name: str, context: dict[str, str], capacity: int
) -> None:
    stage = with_context(stage=name, **context)
    assert stage.write_capacity == capacity
    assert stage.budget == Budget.of(capacity, concurrency=10)


def test_dev_fits_a_new_account_and_prod_asks_for_what_its_capacity_needs() -> None:
    dev, prod = (with_context(stage=name, user_pool="true", **WATCHED) for name in ("dev", "prod"))
    assert (dev.concurrency, dev.budget.all_workers) == (10, 8)
    assert (prod.concurrency, prod.budget) == (None, Budget.of(40_000))
    few = with_context(stage="prod", user_pool="true", concurrency="100", **WATCHED)
    assert few.budget == Budget.of(40_000, concurrency=100)


def test_a_stage_may_use_the_quota_that_aws_has_granted() -> None:
    stage = with_context(write_quota="60000", warm_write_units="60000")
    assert (stage.warm_write_units, stage.write_capacity) == (60_000, 60_000)
    assert with_context(write_quota="60000").write_capacity == 40_000


def test_a_lane_with_a_given_number_of_workers_keeps_its_rate() -> None:
    budget = with_context(
        concurrency="50",
        express_concurrency="12",
        bulk_concurrency="10",
        relation_concurrency="2",
    ).budget
    assert (budget.bulk.max_concurrency, budget.bulk.worker_rate) == (10, 3_400)
    assert (budget.express.max_concurrency, budget.express.worker_rate) == (12, 10_000)
    assert budget.relation.max_concurrency == 2


def test_contributor_insights_are_off_by_default() -> None:
    assert {stage.contributor_insights for stage in STAGES.values()} == {False}
    for name in ("dev", "local"):
        assert with_context(stage=name, contributor_insights="true").contributor_insights


def test_libcurl_is_the_default_transport() -> None:
    assert {stage.transport for stage in STAGES.values()} == {"libcurl"}
    for name in ("dev", "local"):
        assert with_context(stage=name, transport="boto3").transport == "boto3"


@pytest.mark.parametrize("key", ["retention_dayss", "max_follow", "jwtissuer"])
def test_a_misspelt_context_value_is_refused_with_a_suggestion(key: str) -> None:
    with pytest.raises(StageError, match=f"no context value '{key}'; did you mean "):
        choose({key: "7"})


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("first-deploy", "first_deploy"),
        ("firstDeploy", "first_deploy"),
        ("FIRST_DEPLOY", "first_deploy"),
        ("keep-date", "keep_data"),
        ("Stage", "stage"),
    ],
)
def test_a_context_value_in_another_spelling_is_not_ignored(key: str, meant: str) -> None:
    with pytest.raises(StageError, match=f"no context value '{key}'; did you mean '{meant}'"):
        choose({key: "true"})


def test_context_values_of_the_cdk_are_ignored() -> None:
    own = {
        "@aws-cdk/core:checkSecretUsage": True,
        "aws:cdk:bundling-stacks": [],
        "availability-zones:account=1:region=us-east-1": [],
        "acknowledged-issue-numbers": [1],
        "cdk-migrate": True,
    }
    assert choose(own) == choose({})


def test_a_stage_of_any_name_is_like_another() -> None:
    assert with_context(name="staging", like="dev") == replace(DEV, name="staging")
    like_prod = with_context(name="staging", like="prod", user_pool="true", **WATCHED)
    assert (like_prod.name, like_prod.keep_data) == ("staging", True)
    assert like_prod.stack_id == "Fanfold-staging"


@pytest.mark.parametrize(
    "context",
    [
        {"name": "staging"},
        {"like": "prod"},
        {"name": "staging", "like": "local"},
        {"name": "staging", "like": []},
        {"name": "staging", "like": "prod", "stage": "dev"},
    ],
)
def test_a_stage_of_ones_own_needs_a_name_and_a_model(context: dict[str, object]) -> None:
    with pytest.raises(StageError, match="-c name=staging -c like=prod"):
        with_context(**context)


def test_a_stage_of_ones_own_takes_no_known_name() -> None:
    for name in ("prod", "local", "verify-anna"):
        with pytest.raises(StageError, match=f"'{name}' is a stage already"):
            with_context(name=name, like="dev")


@pytest.mark.parametrize("name", ["1", "a b", "-a", "a_b", "a" * 51])
def test_a_name_of_a_stage_fits_into_names_of_stacks_and_metrics(name: str) -> None:
    with pytest.raises(StageError, match="'name' must be letters, digits and hyphens"):
        with_context(name=name, like="dev")


def test_a_stack_may_have_any_name() -> None:
    assert with_context(stage="dev", stack_name="Timelines").stack_id == "Timelines"
    with pytest.raises(StageError, match="'stack_name' must be letters"):
        with_context(stage="dev", stack_name="my stack")


def test_senders_are_given_with_commas_between_them() -> None:
    stage = with_context(senders="AROAEXAMPLEID=news-* tv, AIDAEXAMPLEID=*")
    assert stage.senders == ("AROAEXAMPLEID=news-* tv", "AIDAEXAMPLEID=*")


@pytest.mark.parametrize(
    "text", ["news", "arn:aws:iam::123456789012:role/news=*", "AROAEXAMPLEID=", "AROAEXAMPLEID=a#b"]
)
def test_a_sender_that_nothing_can_be_is_refused(text: str) -> None:
    with pytest.raises(StageError, match="'senders' must be like AROAEXAMPLEID=news"):
        with_context(senders=text)


def test_more_senders_than_the_environment_of_a_function_holds_are_refused() -> None:
    text = ",".join(f"AROAEXAMPLEID{number:03}=news-{number}-*" for number in range(80))
    with pytest.raises(StageError, match=r"'senders' has .* and may have 1,500"):
        with_context(senders=text)
