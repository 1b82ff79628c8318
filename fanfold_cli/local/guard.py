"""The engine's process: MiniStack for a limited time, for callers who know the key of its home.

MiniStack itself serves the AWS APIs to everybody who reaches its port, including pages in a browser
and other users of this machine, and runs functions as processes of the user who started it.

Run as `python -m fanfold_cli.local.guard LIFETIME_SECONDS`, as the leader of its process group. The
key comes in AWS_ACCESS_KEY_ID, because all users can read the arguments of a process.
"""

import functools
import json
import os
import re
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

# Other names may be made to resolve to this machine (DNS rebinding).
NAMES = {"127.0.0.1", "localhost", "[::1]"}
# Browsers add these headers to the requests of pages, and pages cannot prevent it.
OF_BROWSERS = {"origin", "sec-fetch-site"}
# The HTTP API has its own authorization. The engine would pass paths of another form to other
# services.
HTTP_API = re.compile(r"/_aws/execute-api/\w+/.*", re.DOTALL)
# The key in an AWS signature. The engine does not verify signatures.
CREDENTIAL = re.compile(r"Credential=([^/]+)/")
AUTHORIZATION = "AWS4-HMAC-SHA256 Credential={key}/"
# The end of the lifetime is noticed within this time.
WATCH_SECONDS = 0.5


def refusal(request: Message, is_known: Callable[[str], bool]) -> str | None:
    """Why the engine refuses this request, an ASGI scope; None if it serves it.

    `is_known` says whether an access key id is the home's, or that of a role assumed with it.
    """
    if request["type"] != "http":
        return "This engine speaks only HTTP."
    headers = [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in request["headers"]
    ]
    hosts = {re.sub(r":\d*$", "", value.lower()) for name, value in headers if name == "host"}
    if not hosts or hosts - NAMES:
        return "This engine answers only at 127.0.0.1 and localhost."
    if HTTP_API.fullmatch(request["path"]):
        return None
    if any(name in OF_BROWSERS for name, _ in headers):
        return "Pages may call only the HTTP API of this engine."
    signed = " ".join(value for name, value in headers if name == "authorization")
    if any(map(is_known, CREDENTIAL.findall(signed))):
        return None
    return "This engine requires its key: `fanfold local env` prints it for a shell."


def guarded(app: App, is_known: Callable[[str], bool]) -> App:
    async def guard(scope: Message, receive: Receive, send: Send) -> None:
        why = None if scope["type"] == "lifespan" else refusal(scope, is_known)
        if why is None:
            await app(scope, receive, send)
        elif scope["type"] == "http":
            # An error of AWS's JSON protocols, without CORS headers, so that no page can read it.
            body = json.dumps({"__type": "AccessDeniedException", "message": why}).encode()
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
            ]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        else:
            await send({"type": "websocket.close"})

    return guard


class _OwnKey(urllib.request.BaseHandler):
    """Adds the key to the engine's requests to itself, such as for the public keys of its pools."""

    def __init__(self, authority: str, key: str) -> None:
        self.authority, self.key = authority, key

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        if request.host == self.authority:
            request.add_unredirected_header("Authorization", AUTHORIZATION.format(key=self.key))
        return request


def main(argv: list[str]) -> None:
    # Nothing else has the engine in its process.
    from ministack import app as engine  # type: ignore[import-untyped]
    from ministack.core import lambda_runtime  # type: ignore[import-untyped]
    from ministack.services import dynamodb, sts  # type: ignore[import-untyped]

    key = os.environ["AWS_ACCESS_KEY_ID"]
    own = _OwnKey(f"127.0.0.1:{os.environ['GATEWAY_PORT']}", key)
    urllib.request.install_opener(urllib.request.build_opener(own))
    engine.app = guarded(engine.app, lambda given: given == key or given in sts._sessions)
    # Otherwise the functions' key would be the number of their account.
    credentials_of = lambda_runtime.execution_credentials
    lambda_runtime.execution_credentials = lambda config: {
        **credentials_of(config),
        "AWS_ACCESS_KEY_ID": key,
    }
    # The engine checks the grammar of a condition again for every item of a query, which takes two
    # thirds of its time: 0.3 s for 10,000 edges, in the one process that serves all functions. The
    # check depends only on its arguments, two strings.
    dynamodb._condition_syntax_error = functools.lru_cache(dynamodb._condition_syntax_error)
    threading.Thread(target=_end_after, args=(float(argv[0]),), daemon=True).start()
    sys.argv = ["ministack"]
    engine.main()


def _end_after(lifetime: float) -> None:
    """End this process and its functions, even if the supervisor was killed."""
    # Wall-clock time, so that the hours while a laptop sleeps count as well.
    end = time.time() + lifetime
    while time.time() < end:
        time.sleep(WATCH_SECONDS)
    print(f"The engine's lifetime of {lifetime:.0f} s is over; it ends.", flush=True)
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
