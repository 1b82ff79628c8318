"""The local engine: starts MiniStack on loopback for a limited time, and ends its processes."""

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

from fanfold_cli import aws
from fanfold_cli.local import processes
from fanfold_cli.local.home import EngineState, Home
from fanfold_cli.terminal import ExpectedError

LOOPBACK = "127.0.0.1"
# Lower ports are reserved for the system.
LOWEST_PORT = 1024
# Without the second, the engine runs, but its API refuses all tokens of its pools.
NEEDED = ("ministack", "cryptography")
HIGHEST_PORT = 65535

# The services that the stack and `cdk bootstrap` use. With all services the engine would also open
# an MQTT port on every interface.
SERVICES = (
    "apigateway,cloudformation,cloudwatch,cognito-idp,dynamodb,ecr,events,iam,kms,lambda,logs,"
    "s3,scheduler,sns,sqs,ssm,sts"
)

# The engine answers after about two seconds, but later on a loaded machine.
START_SECONDS = 60.0
# The longest that the supervisor takes to end the engine, and three more seconds for itself.
STOP_SECONDS = processes.GRACE_SECONDS + processes.FORCED_SECONDS + 3.0
POLL_SECONDS = 0.1
LOG_TAIL_LINES = 25


def start(home: Home, *, lifetime_seconds: float, port: int | None) -> EngineState:
    if not all(map(importlib.util.find_spec, NEEDED)):
        raise ExpectedError(
            "The local engine is not installed in this Python environment: install the development "
            "dependencies (`make setup`) and try again."
        )
    chosen = port or free_port()
    if not _can_bind(chosen):
        raise ExpectedError(
            f"Port {chosen} of {LOOPBACK} is taken: choose another with --port, or leave it out."
        )
    _make_empty(home)
    state = _spawn(home, lifetime_seconds, chosen)
    home.write_state(state)
    try:
        _wait_until_it_answers(state, home)
    except (ExpectedError, KeyboardInterrupt):
        stop(home, state)
        raise
    return state


def stop(home: Home, state: EngineState) -> None:
    """End the engine, its Lambda workers and its supervisor, and delete the engine's data."""
    if processes.is_alive(state.supervisor_pid, state.supervisor_mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.supervisor_pid, signal.SIGTERM)
        processes.wait_until_gone(state.supervisor_pid, state.supervisor_mark, STOP_SECONDS)
    # The supervisor ends this group, unless it was killed. Once the engine has ended, its number
    # may be another group's.
    if state.is_running():
        processes.end_group(state.pid)
    if processes.is_alive(state.supervisor_pid, state.supervisor_mark):
        processes.end_group(state.supervisor_pid, grace_seconds=0)
    if home.is_ours():
        _delete_data(home)
        home.state_file.unlink(missing_ok=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def environment(home: Home, port: int, access_key: str) -> dict[str, str]:
    """Variables that keep the engine on loopback, small, and writing only in its home.

    Lambda workers inherit them. Functions read settings from variables, so they must not contain
    variables that a developer has exported.
    """
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "USER")
    known = aws.local_environment(aws.LocalEndpoint(_url(port), access_key)).items()
    return {
        **{n: v for n, v in known if n in kept or n.startswith("AWS_") or n.lower() == "no_proxy"},
        "BIND_HOST": LOOPBACK,
        "MINISTACK_HOST": LOOPBACK,
        "MINISTACK_REGION": aws.LOCAL_REGION,
        "GATEWAY_PORT": str(port),
        "SERVICES": SERVICES,
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LAMBDA_EXECUTOR": "local",
        "COGNITO_EMAIL_ENABLED": "false",
        "DOCKER_HOST": f"unix://{home.data}/no-docker.sock",
        "STATE_DIR": str(home.data / "state"),
        "S3_DATA_DIR": str(home.data / "s3"),
        "TMPDIR": str(home.data / "tmp"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def log_tail(home: Home, lines: int = LOG_TAIL_LINES) -> str:
    try:
        return "\n".join(home.log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(There is no log.)"


def _make_empty(home: Home) -> None:
    home.claim()
    _delete_data(home)
    # For this user only: the engine stores the keys there that sign all tokens.
    home.data.mkdir(exist_ok=True)
    home.data.chmod(0o700)
    for path in (home.data / "tmp", home.data / "state", home.data / "s3"):
        path.mkdir(exist_ok=True)


def _delete_data(home: Home) -> None:
    for path in (home.data, home.deployed):
        shutil.rmtree(path, ignore_errors=True)


def _spawn(home: Home, lifetime_seconds: float, port: int) -> EngineState:
    pid_file, access_key = home.data / "engine.pid", secrets.token_hex(16)
    supervised = [sys.executable, "-P", "-m", "fanfold_cli.local.supervisor", str(pid_file)]
    guarded = [sys.executable, "-P", "-m", "fanfold_cli.local.guard", str(lifetime_seconds)]
    with home.log.open("wb") as log:
        supervisor = subprocess.Popen(
            [*supervised, *guarded],
            cwd=home.data / "tmp",
            env=environment(home, port, access_key),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        processes.wait_until(
            lambda: pid_file.exists() or supervisor.poll() is not None, START_SECONDS, POLL_SECONDS
        )
    except KeyboardInterrupt:
        supervisor.terminate()  # no state file names it yet
        raise
    if not pid_file.exists():
        raise ExpectedError(f"The engine did not start. Its log ends:\n{log_tail(home)}")
    pid = int(pid_file.read_text())
    now = datetime.now(UTC).replace(microsecond=0)
    return EngineState(
        pid=pid,
        pid_mark=processes.start_mark(pid) or "",
        supervisor_pid=supervisor.pid,
        supervisor_mark=processes.start_mark(supervisor.pid) or "",
        port=port,
        endpoint=_url(port),
        access_key=access_key,
        started_at=now.isoformat(),
        ends_at=(now + timedelta(seconds=lifetime_seconds)).isoformat(),
    )


def _wait_until_it_answers(state: EngineState, home: Home) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def answers() -> bool:
        if not state.is_running():
            raise ExpectedError(f"The engine died while starting. Its log ends:\n{log_tail(home)}")
        try:
            with opener.open(state.endpoint, timeout=2):
                return True
        except urllib.error.HTTPError:  # it answers with a refusal, because the request has no key
            return True
        except (urllib.error.URLError, OSError):
            return False

    if not processes.wait_until(answers, START_SECONDS, POLL_SECONDS):
        raise ExpectedError(
            f"The engine did not answer within {START_SECONDS:.0f} s: end other programs on this "
            f"machine, or try again. Its log ends:\n{log_tail(home)}"
        )


def _url(port: int) -> str:
    return f"http://{LOOPBACK}:{port}"


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
