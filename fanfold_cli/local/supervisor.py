"""Keep one local engine, then end its process group, Lambda workers included.

Run as `python -m fanfold_cli.local.supervisor PID_FILE COMMAND...`. It stops at SIGTERM, or when
the engine ends itself after its lifetime. Standard library only, because it runs for hours and
should stay small.
"""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType

from fanfold_cli.local.processes import end_group

# The end of the engine is noticed within this time.
WATCH_SECONDS = 0.5


def main(argv: list[str]) -> int:
    pid_file, command = Path(argv[0]), argv[1:]
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        # Renamed, because `up` reads the file as soon as it exists.
        draft = pid_file.with_suffix(".draft")
        draft.write_text(str(engine.pid))
        draft.replace(pid_file)
        while engine.poll() is None and not stopped.wait(WATCH_SECONDS):
            pass
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
