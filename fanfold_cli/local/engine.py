"""The local engine: MiniStack on loopback, started detached with a lifetime, and ended whole."""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fanfold_cli import aws
from fanfold_cli.console import ExpectedError
from fanfold_cli.local import processes
from fanfold_cli.local.home import CHECKOUT, EngineState, Home

LOOPBACK = "127.0.0.1"
# The ones below are for the system alone.
LOWEST_PORT = 1024
HIGHEST_PORT = 65535

# What the stack and `cdk bootstrap` use. With the whole list the engine would also open an MQTT
# port on every interface.
SERVICES = (
    "apigateway,cloudformation,cloudwatch,cognito-idp,dynamodb,ecr,events,iam,kms,lambda,logs,"
    "s3,scheduler,sns,sqs,ssm,sts"
)

# It answers after about two seconds; a loaded machine gets far more.
START_SECONDS = 60.0
# What the supervisor may take at most to end the engine, and a little for itself.
STOP_SECONDS = processes.GRACE_SECONDS + processes.FORCED_SECONDS + 3.0
POLL_SECONDS = 0.1
LOG_TAIL_LINES = 25


def start(home: Home, *, lifetime_seconds: float, port: int | None) -> EngineState:
    """Start an engine in this home and wait until it answers."""
    if importlib.util.find_spec("ministack") is None:
        raise ExpectedError(
            "The local engine is not installed in this Python environment: install the development "
            "dependencies (`uv pip install -r requirements-dev.txt`) and try again."
        )
    chosen = port or free_port()
    if not _can_bind(chosen):
        raise ExpectedError(
            f"Port {chosen} of {LOOPBACK} is taken: choose another with --port, or leave it out."
        )
    _make_empty(home)
    supervisor, pid_file = _spawn(home, lifetime_seconds, chosen)
    state = _state(home, supervisor, pid_file, chosen, lifetime_seconds)
    home.write_state(state)
    try:
        _wait_until_it_answers(state, home)
    except ExpectedError:
        stop(home, state)
        raise
    return state


def stop(home: Home, state: EngineState) -> None:
    """End the engine of this state, its Lambda workers and its supervisor; nothing is left."""
    if processes.is_alive(state.supervisor_pid, state.supervisor_mark):
        _terminate(state.supervisor_pid)
        processes.wait_until_gone(state.supervisor_pid, state.supervisor_mark, STOP_SECONDS)
    # The supervisor does this itself, unless it was killed. Only a group that is still led by our
    # engine is ours: once its leader is gone, the number may belong to someone else.
    if state.is_running():
        processes.end_group(state.pid)
    if processes.is_alive(state.supervisor_pid, state.supervisor_mark):
        processes.end_group(state.supervisor_pid, grace_seconds=0)
    if home.is_ours():
        _delete_data(home)
        home.forget_state()


def free_port() -> int:
    """Return a port of loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def environment(home: Home, port: int) -> dict[str, str]:
    """What makes the engine stay on loopback, load little, and write only below its home."""
    endpoint = f"http://{LOOPBACK}:{port}"
    # A Lambda worker inherits this. What a developer exported must not reach the functions, which
    # read their settings from variables.
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "USER")
    temporary = str(home.data / "tmp")
    return {
        **_only(aws.local_environment(endpoint), kept, prefix="AWS_"),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
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
        "TMPDIR": temporary,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def log_tail(home: Home, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of the engine's log."""
    try:
        return "\n".join(home.log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(There is no log.)"


def _only(env: Mapping[str, str], names: tuple[str, ...], *, prefix: str) -> dict[str, str]:
    return {name: v for name, v in env.items() if name in names or name.startswith(prefix)}


def _make_empty(home: Home) -> None:
    home.claim()
    _delete_data(home)
    for path in (home.data / "tmp", home.data / "state", home.data / "s3"):
        path.mkdir(parents=True, exist_ok=True)


def _delete_data(home: Home) -> None:
    for path in (home.data, home.deployed):
        shutil.rmtree(path, ignore_errors=True)


def _spawn(home: Home, lifetime: float, port: int) -> tuple[subprocess.Popen[bytes], Path]:
    pid_file = home.data / "engine.pid"
    engine = [sys.executable, "-m", "ministack"]
    supervisor = [
        sys.executable,
        "-m",
        "fanfold_cli.local.supervisor",
        str(lifetime),
        str(pid_file),
    ]
    env = environment(home, port)
    # The supervisor is found in the checkout; the engine and its workers must not see it there,
    # so that a function only imports what its deployed archive holds.
    with home.log.open("wb") as log:
        process = subprocess.Popen(
            [*supervisor, os.fsdecode(home.data / "tmp"), *engine],
            cwd=CHECKOUT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, pid_file


def _state(
    home: Home,
    supervisor: subprocess.Popen[bytes],
    pid_file: Path,
    port: int,
    lifetime_seconds: float,
) -> EngineState:
    deadline = time.monotonic() + START_SECONDS
    while not pid_file.exists():
        if supervisor.poll() is not None or time.monotonic() > deadline:
            raise ExpectedError(f"The engine did not start. Its log ends:\n{log_tail(home)}")
        time.sleep(POLL_SECONDS)
    pid = int(pid_file.read_text())
    now = datetime.now(UTC).replace(microsecond=0)
    return EngineState(
        pid=pid,
        pid_mark=processes.start_mark(pid) or "",
        supervisor_pid=supervisor.pid,
        supervisor_mark=processes.start_mark(supervisor.pid) or "",
        port=port,
        endpoint=f"http://{LOOPBACK}:{port}",
        started_at=now.isoformat(),
        ends_at=(now + timedelta(seconds=lifetime_seconds)).isoformat(),
    )


def _wait_until_it_answers(state: EngineState, home: Home) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if not state.is_running():
            raise ExpectedError(f"The engine died while starting. Its log ends:\n{log_tail(home)}")
        try:
            with opener.open(f"{state.endpoint}/_ministack/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(POLL_SECONDS)
    raise ExpectedError(
        f"The engine did not answer within {START_SECONDS:.0f} s. Its log ends:\n{log_tail(home)}"
    )


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _terminate(pid: int) -> None:
    try:
        os.kill(pid, 15)
    except ProcessLookupError:
        return


def mark_bootstrapped(home: Home, state: EngineState) -> EngineState:
    """Remember that the engine has what `cdk bootstrap` makes."""
    known = replace(state, bootstrapped=True)
    home.write_state(known)
    return known
