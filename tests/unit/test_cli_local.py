"""The pure parts of `fanfold local`: hashes, environments, settings, and what it says."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fanfold import names
from fanfold_cli import aws
from fanfold_cli.console import ExpectedError
from fanfold_cli.local import assembly, cdk, engine, rollback
from fanfold_cli.local.home import Home
from fanfold_cli.main import app
from fanfold_cli.stack import Deployment

ENDPOINT = "http://127.0.0.1:4566"


def outputs() -> dict[str, str]:
    """Every output of the stack, each with its own name as its value."""
    tables = [table.output for table in names.TABLES]
    queues = [name for queue in names.QUEUES for name in (queue.url_output, queue.dlq_url_output)]
    known = [names.API_URL_OUTPUT, names.USER_POOL_ID_OUTPUT, names.USER_POOL_CLIENT_ID_OUTPUT]
    return {name: name for name in (*tables, *queues, *known)}


def write_assembly(directory: Path, template: dict[str, Any]) -> None:
    """A cloud assembly of one stack, as CDK writes it."""
    directory.mkdir(parents=True)
    artifact = {
        "type": "aws:cloudformation:stack",
        "properties": {"templateFile": "S.template.json", "stackName": "Fanfold-local"},
    }
    tree = {"type": "cdk:tree", "properties": {"file": "tree.json"}}
    manifest = {"artifacts": {"S": artifact, "Tree": tree}}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    (directory / "S.template.json").write_text(json.dumps(template))


def test_the_settings_are_read_from_the_outputs() -> None:
    settings = Deployment("us-east-1", ENDPOINT, outputs()).settings()
    assert settings.timelines_table == "TimelinesTable"
    assert settings.bulk_queue_url == "BulkQueueUrl"
    assert settings.bulk_dlq_url == "BulkDlqUrl"


def test_a_missing_output_is_named() -> None:
    with pytest.raises(ExpectedError, match="no output PostsTable"):
        Deployment("us-east-1", ENDPOINT, {}).output("PostsTable")


def test_the_api_url_has_no_slash_at_its_end() -> None:
    assert Deployment("us-east-1", None, {"ApiUrl": "https://a.example/"}).api_url == (
        "https://a.example"
    )


def test_a_local_client_ignores_the_profile_and_the_proxy_of_its_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    client = Deployment("us-east-1", ENDPOINT, {}).client("sqs")
    assert client.meta.endpoint_url == ENDPOINT
    assert client.meta.region_name == "us-east-1"


def test_programs_that_work_on_the_engine_cannot_reach_a_real_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "real")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "https://sqs.example")
    env = cdk.environment(ENDPOINT)
    assert env["AWS_ENDPOINT_URL"] == ENDPOINT
    assert env["AWS_ACCESS_KEY_ID"] == "test"
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_SQS"} & env.keys()


def test_the_engine_stays_on_loopback_and_writes_below_its_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIMELINES_TABLE", "exported by a developer")
    env = engine.environment(Home(tmp_path), 4566)
    assert env["BIND_HOST"] == "127.0.0.1"
    assert {"SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0"}.items() <= env.items()
    for directory in ("STATE_DIR", "S3_DATA_DIR", "TMPDIR"):
        assert Path(env[directory]).is_relative_to(tmp_path)
    assert "TIMELINES_TABLE" not in env


def test_the_stacks_of_an_assembly_are_read(tmp_path: Path) -> None:
    write_assembly(tmp_path / "cdk.out", {"Resources": {}})
    [stack] = assembly.read_stacks(tmp_path / "cdk.out")
    assert stack == assembly.SynthesizedStack("Fanfold-local", {"Resources": {}})


def test_the_content_hash_tells_a_changed_template_and_nothing_else() -> None:
    one = assembly.SynthesizedStack("S", {"a": 1, "b": 2})
    same = assembly.SynthesizedStack("S", {"b": 2, "a": 1})
    other = assembly.SynthesizedStack("S", {"a": 1, "b": 3})
    assert assembly.content_hash([one]) == assembly.content_hash([same])
    assert assembly.content_hash([one]) != assembly.content_hash([other])


def test_the_deployed_templates_are_read_back_by_the_name_of_their_stack(tmp_path: Path) -> None:
    assembly.save_deployed(tmp_path / "deployed", [assembly.SynthesizedStack("S", {"a": 1})])
    assert assembly.read_deployed(tmp_path / "deployed") == {"S": {"a": 1}}


@pytest.mark.parametrize("path", ["app.py", "infra/stack.py", "requirements.txt"])
def test_a_changed_source_changes_the_source_hash(tmp_path: Path, path: str) -> None:
    before = assembly.source_hash(tmp_path)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("new")
    assert assembly.source_hash(tmp_path) != before


@pytest.mark.parametrize(
    "path", ["docs/a.md", "tests/a.py", ".venv/a.py", "cdk.out/a", ".fanfold/a"]
)
def test_what_no_synthesis_reads_does_not_change_the_source_hash(tmp_path: Path, path: str) -> None:
    before = assembly.source_hash(tmp_path)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("new")
    assert assembly.source_hash(tmp_path) == before


def test_a_missing_node_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExpectedError, match=r"install Node\.js"):
        cdk.find_executable(tmp_path)


@pytest.mark.network
def test_a_taken_port_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ExpectedError, match="choose another with --port"):
            engine.start(Home(tmp_path), lifetime_seconds=1, port=taken.getsockname()[1])


def test_an_undo_differs_from_the_deployed_template_by_a_resource_that_is_nothing() -> None:
    deployed = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}, "Outputs": {}}
    marked = rollback.with_marker(deployed)
    assert marked["Outputs"] == {}
    assert marked["Resources"]["Queue"] == deployed["Resources"]["Queue"]
    assert marked["Resources"].keys() - deployed["Resources"].keys() == {rollback.MARKER}


def test_status_without_an_engine_is_one_json_object_and_exit_code_1(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["local", "status", "--json", "--home", str(tmp_path)])
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"running": False, "home": str(tmp_path)}


def test_down_without_an_engine_is_no_failure(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["local", "down", "--home", str(tmp_path / "none")])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "No engine is running" in result.stderr


def test_the_local_region_is_the_one_of_the_engine() -> None:
    assert aws.local_environment(ENDPOINT)["AWS_REGION"] == aws.LOCAL_REGION
