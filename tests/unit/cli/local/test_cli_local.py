"""`fanfold local` without an engine: hashes, environments, settings, and messages."""

import json
import socket
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from fanfold_cli import aws
from fanfold_cli.app import app
from fanfold_cli.local import assembly, cdk, deploy, engine, home
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError

ENDPOINT = aws.LocalEndpoint("http://127.0.0.1:4566", "the key")


def test_the_api_url_is_read_from_the_outputs_and_a_missing_one_is_named() -> None:
    stack = Deployment("us-east-1", None, {"ApiUrl": "https://a.example/"})
    assert stack.api_url == "https://a.example"
    with pytest.raises(ExpectedError, match="no output PostsTable"):
        stack.output("PostsTable")


def test_a_local_client_ignores_the_profile_and_the_region_of_its_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    meta = Deployment("us-east-1", ENDPOINT, {}).client("sqs").meta
    assert (meta.endpoint_url, meta.region_name) == (ENDPOINT.url, "us-east-1")


def test_programs_that_use_the_engine_cannot_reach_a_real_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "real")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "https://sqs.example")
    env = cdk.environment(ENDPOINT)
    assert (env["AWS_ENDPOINT_URL"], env["AWS_ACCESS_KEY_ID"]) == (ENDPOINT.url, "the key")
    assert env["AWS_REGION"] == aws.LOCAL_REGION
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_SQS"} & env.keys()


def test_the_engine_stays_on_loopback_and_writes_below_its_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIMELINES_TABLE", "exported by a developer")
    env = engine.environment(Home(tmp_path), 4566, "the key")
    closed = {"BIND_HOST": "127.0.0.1", "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0"}
    assert closed.items() <= env.items()
    for directory in ("STATE_DIR", "S3_DATA_DIR", "TMPDIR"):
        assert Path(env[directory]).is_relative_to(tmp_path)
    assert "TIMELINES_TABLE" not in env


def test_a_deployment_that_forgets_how_long_entries_have_lived_is_refused(tmp_path: Path) -> None:
    def lived(days: int) -> list[assembly.SynthesizedStack]:
        variables = {"TIMELINES_TABLE": {"Ref": "Timelines"}, "RETENTION_DAYS": str(days)}
        function = {
            "Type": "AWS::Lambda::Function",
            "Properties": {"Environment": {"Variables": variables}},
        }
        return [assembly.SynthesizedStack("S", {"Resources": {"F": function}})]

    home = Home(tmp_path)
    deploy._refuse_to_forget(home, lived(7))
    assembly.save_deployed(home.deployed, lived(30))
    deploy._refuse_to_forget(home, lived(30))
    with pytest.raises(ExpectedError, match=r"30 days in S.*nothing.*longest_retention_days=30"):
        deploy._refuse_to_forget(home, lived(7))


SOURCES = (
    "app.py",
    "cdk.json",
    "cdk.context.json",
    "infra/stack.py",
    "fanfold/aws/new.py",
    "functions/api.py",
    "requirements.txt",
    "requirements-dev.txt",
    "package-lock.json",
)
IGNORED = ("engine.log", "tests/a.py", "fanfold_cli/a.py", "infra/__pycache__/a.pyc", "infra/.#a")


def test_the_source_hash_changes_only_with_files_that_a_synthesis_may_read(tmp_path: Path) -> None:
    def hash_with(name: str) -> str:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("new")
        return assembly.source_hash(tmp_path)

    empty = assembly.source_hash(tmp_path)
    assert {hash_with(name) for name in IGNORED} == {empty}
    hashes = [empty, *(hash_with(name) for name in SOURCES)]
    # A link to nothing is a source by its target, and stops nothing.
    link = tmp_path / "infra/gone.py"
    for target in ("nowhere", "elsewhere"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / target)
        hashes.append(assembly.source_hash(tmp_path))
    (tmp_path / "elsewhere").write_text("new")
    hashes.append(assembly.source_hash(tmp_path))
    assert len(set(hashes)) == len(hashes)
    assert {hash_with(name) for name in IGNORED} == {hashes[-1]}


def test_a_source_that_cannot_be_read_is_named_before_an_engine_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").touch()
    refusal = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "read_bytes", Mock(side_effect=refusal))
    monkeypatch.setattr(engine, "start", lambda *_, **__: pytest.fail("It was started."))
    with pytest.raises(ExpectedError, match=r"app\.py cannot be read: Permission denied"):
        assembly.source_hash(tmp_path)
    with pytest.raises(ExpectedError, match="cannot be read: Permission denied"):
        deploy.bring_up(Home(tmp_path / "home"))


def test_a_missing_node_is_answered_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExpectedError, match=r"install Node\.js"):
        cdk.find_executable(tmp_path)


@pytest.mark.network
def test_a_port_in_use_is_refused_with_the_option_to_change(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ExpectedError, match="choose another with --port"):
            engine.start(Home(tmp_path), lifetime_seconds=1, port=taken.getsockname()[1])


def test_without_an_engine_status_is_a_failure_and_down_is_none(tmp_path: Path) -> None:
    def local(*words: str) -> Result:
        return CliRunner().invoke(app, ["local", *words, "--home", str(tmp_path / "none")])

    status, down, as_json = local("status", "--json"), local("down"), local("down", "--json")
    assert status.exit_code == 1
    assert json.loads(status.stdout) == {"running": False, "home": str(tmp_path / "none")}
    assert (down.exit_code, down.stdout) == (0, "")
    assert "No engine is running" in down.stderr
    assert as_json.exit_code == 0
    assert json.loads(as_json.stdout) == {"ended": False, "home": str(tmp_path / "none")}


def test_the_advice_to_start_an_engine_keeps_the_home_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "my home"
    advice = f"start one with `fanfold local up --home '{given}'`"
    for command in (["fanout", "list"], ["token", "--user", "ada"], ["local", "env"]):
        result = CliRunner().invoke(app, [*command, "--home", str(given)])
        assert advice in str(result.exception)
        assert "--stack" not in str(result.exception) or command[0] != "local"
    status = CliRunner().invoke(app, ["local", "status", "--home", str(given)])
    assert f"`fanfold local up --home '{given}'`" in status.stderr
    given.mkdir()
    (given / "file").touch()
    result = CliRunner().invoke(app, ["fanout", "list", "--home", str(given)])
    assert "is not a home of the local engine" in str(result.exception)
    monkeypatch.setattr(home, "DEFAULT", tmp_path)
    assert Home(tmp_path).command("up --fresh") == "`fanfold local up --fresh`"
