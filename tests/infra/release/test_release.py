"""What a release holds for those without CDK, judged as AWS would."""

import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest

from infra import release
from infra.settings.stages import DEV, PROD
from tests.infra.template import Template, functions, of_type, only, resources
from tests.infra.test_rules import linted

pytestmark = pytest.mark.thorough

MARKS = [each.mark for parameters in release.RELEASED.values() for each in parameters if each.mark]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    release.write(directory)
    return directory


@pytest.fixture(params=["dev", "prod"])
def plain(request: pytest.FixtureRequest, released: Path) -> Template:
    return template_for(released, request.param)


def template_for(released: Path, kind: str) -> Template:
    (path,) = released.glob(f"*-{kind}.template.json")
    found: Template = json.loads(path.read_text())
    return found


def test_a_template_needs_nothing_of_cdk_and_uses_its_parameters_in_place_of_marks(
    plain: Template,
) -> None:
    text = json.dumps(plain)
    for word in ("hnb659fds", "BootstrapVersion", "cdk-", "aws:asset", *MARKS):
        assert word not in text
    assert "Rules" not in plain
    text = json.dumps({**plain, "Parameters": {}})
    for name in plain["Parameters"]:
        assert f'{{"Ref": "{name}"}}' in text or f"${{{name}}}" in text, name


def test_a_template_keeps_what_cfn_lint_asks_for(plain: Template) -> None:
    assert {rule for rule, _ in linted(plain)} <= {"W3005"}  # accepted: tests/infra/test_rules.py


def test_what_is_built_is_what_cdk_would_deploy(
    plain: Template, dev: Template, prod: Template
) -> None:
    """The same resources, but for those of choices that are no parameters."""
    deployed = prod if "JwtIssuer" in plain["Parameters"] else dev
    for kind in ("AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue", "AWS::Lambda::Function"):
        assert resources(plain, kind).keys() == resources(deployed, kind).keys()
    for module, function in functions(plain).items():
        assert function["Runtime"] == functions(deployed)[module]["Runtime"]
        assert function["Code"] == {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}}
        name = function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        assert name == {"Fn::Sub": f"fanfold-${{Name}}-{module}"}


def test_metrics_and_alarms_speak_of_the_same_name(plain: Template) -> None:
    watched = [
        dimension["Value"]
        for alarm in of_type(plain, "AWS::CloudWatch::Alarm").values()
        for dimension in alarm.get("Dimensions", ())
        if dimension["Name"] == "service"
    ]
    assert watched
    assert all("${Name}" in each["Fn::Sub"] for each in watched)


def test_stacks_of_both_kinds_have_names_of_their_own(released: Path) -> None:
    """Whoever leaves the default would otherwise have one's alarms watch the other's metrics."""
    for kind in ("dev", "prod"):
        assert template_for(released, kind)["Parameters"]["Name"]["Default"] == kind


def test_no_audience_is_empty(released: Path) -> None:
    """CloudFormation matches each of a list; without one, tokens for any service would pass."""
    allowed = template_for(released, "prod")["Parameters"]["JwtAudience"]["AllowedPattern"]
    assert re.fullmatch(allowed, "my-app")
    assert not re.fullmatch(allowed, "")
    assert not re.fullmatch(allowed, " ")


def test_prod_takes_its_issuer_and_keeps_its_data(released: Path) -> None:
    template = template_for(released, "prod")
    assert only(template, "AWS::ApiGatewayV2::Authorizer")["JwtConfiguration"] == {
        "Issuer": {"Ref": "JwtIssuer"},
        "Audience": {"Ref": "JwtAudience"},
    }
    for table in resources(template, "AWS::DynamoDB::GlobalTable").values():
        assert table["DeletionPolicy"] == "RetainExceptOnCreate"
        (replica,) = table["Properties"]["Replicas"]
        assert replica["DeletionProtectionEnabled"] == {"Fn::If": ["IsProtected", True, False]}
    assert template["Parameters"]["Protected"]["Default"] == "false"


def test_the_code_is_that_of_the_functions_readable_by_lambda_and_named_by_its_content(
    released: Path,
) -> None:
    (path,) = released.glob("*.zip")
    with zipfile.ZipFile(path) as archive:
        held = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert {"functions/plan.py", "fanfold/names.py"} <= held.keys()
    assert all(mode & 0o444 == 0o444 for mode in held.values())
    assert hashlib.sha256(path.read_bytes()).hexdigest()[:12] in path.name
    for kind in ("dev", "prod"):
        key = template_for(released, kind)["Parameters"]["CodeKey"]
        assert key["Default"] == path.name


def test_the_sums_are_those_of_all_files(released: Path) -> None:
    lines = (released / release.SUMS).read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert sums == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in released.iterdir()
        if path.name != release.SUMS
    }


def test_made_again_the_code_is_the_same_and_nothing_old_is_left(
    released: Path, tmp_path: Path
) -> None:
    (first,) = released.glob("*.zip")
    (tmp_path / first.name.replace(first.stem[-12:], "0" * 12)).write_bytes(b"")
    release.write_code(tmp_path, "0.1.0", DEV)
    (second,) = tmp_path.iterdir()
    assert (second.name, second.read_bytes()) == (first.name, first.read_bytes())


def test_without_a_checkout_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="made in a checkout"):
        release.write(tmp_path / "dist")


def test_the_stages_are_those_of_the_app() -> None:
    assert [stage.keep_data for stage in release.RELEASED] == [DEV.keep_data, PROD.keep_data]
