"""Keep one local engine for a lifetime, then end its process group, Lambda workers included.

Run as `python -m fanfold_cli.local.supervisor LIFETIME_SECONDS PID_FILE DIRECTORY COMMAND...`. It
stops at SIGTERM, when the lifetime is over, or when the engine ends. Standard library only, because
it runs for hours and should stay small.
"""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from fanfold_cli.local.processes import end_group

# The end of the engine is noticed within this time.
WATCH_SECONDS = 0.5


def main(argv: list[str]) -> int:
    lifetime, pid_file, directory, command = float(argv[0]), Path(argv[1]), argv[2], argv[3:]
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    engine = subprocess.Popen(
        command, cwd=directory, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        # Renamed, because `up` reads the file as soon as it exists.
        draft = pid_file.with_suffix(".draft")
        draft.write_text(str(engine.pid))
        draft.replace(pid_file)
        # Wall-clock time, so that the hours while a laptop sleeps count as well.
        ends_at = time.time() + lifetime
        while time.time() < ends_at and engine.poll() is None and not stopped.wait(WATCH_SECONDS):
            pass
        if time.time() >= ends_at:
            print(f"The engine's lifetime of {lifetime:.0f} s is over; it ends.", flush=True)
    finally:
        _reap_and_end(engine)
    return 0


def _reap_and_end(engine: subprocess.Popen[bytes]) -> None:
    # Reap the engine while its group ends; otherwise its zombie would keep the group alive.
    reaper = threading.Thread(target=engine.wait, daemon=True)
    reaper.start()
    end_group(engine.pid)
    reaper.join(timeout=1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
