"""Keep one local engine for a lifetime, then end its whole process group, Lambda workers included.

Run as `python -m fanfold_cli.local.supervisor LIFETIME_SECONDS PID_FILE DIRECTORY COMMAND...`. It
stops at SIGTERM, when the lifetime is over, or when the engine ends. Standard library only: it
lives for hours.
"""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from fanfold_cli.local.processes import end_group

# How often the engine is looked at; its end is noticed within this time.
WATCH_SECONDS = 0.5


def main(argv: list[str]) -> int:
    """Start the engine in its own process group, wait, and leave nothing of it behind."""
    lifetime, pid_file, directory, command = float(argv[0]), Path(argv[1]), argv[2], argv[3:]
    over = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        over.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    engine = subprocess.Popen(
        command, cwd=directory, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        # Written whole or not at all, because `up` waits for it.
        draft = pid_file.with_suffix(".draft")
        draft.write_text(str(engine.pid))
        draft.replace(pid_file)
        # Wall-clock time, so that the hours a laptop sleeps count as well.
        ends_at = time.time() + lifetime
        while time.time() < ends_at and engine.poll() is None and not over.wait(WATCH_SECONDS):
            pass
        if time.time() >= ends_at:
            print(f"The engine's lifetime of {lifetime:.0f} s is over; it ends.", flush=True)
    finally:
        _reap_and_end(engine)
    return 0


def _reap_and_end(engine: subprocess.Popen[bytes]) -> None:
    # The engine must be reaped while its group is ended: a zombie would keep the group alive.
    reaper = threading.Thread(target=engine.wait, daemon=True)
    reaper.start()
    end_group(engine.pid)
    reaper.join(timeout=1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
