# SPDX-License-Identifier: GPL-2.0
"""usage: interrupt.py FILE LINES COMMAND...

Run COMMAND as a terminal's foreground job, send it Ctrl-C once FILE has LINES lines.
Status: 0 if it then ended within 20 s, 1 if not or if it ended by itself.
"""
import os
import signal
import subprocess
import sys
import time


def lines(path):
    try:
        with open(path, encoding="ascii") as f:
            return len(f.readlines())
    except OSError:
        return 0


def main():
    path, count, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    job = subprocess.Popen(command, start_new_session=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    while lines(path) < count and job.poll() is None:
        time.sleep(0.1)
    if job.poll() is not None:
        return 1
    os.killpg(job.pid, signal.SIGINT)
    try:
        return 0 if job.wait(timeout=20) else 1
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return 1


if __name__ == "__main__":
    sys.exit(main())
