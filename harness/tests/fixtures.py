# SPDX-License-Identifier: GPL-2.0
"""Stored runs, and variants made from them by small edits in a temporary directory."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent
HARNESS = TESTS.parent
RUNS = TESTS / "runs"
sys.path.insert(0, str(HARNESS))


def program(name, *arguments, **options):
    """Run a harness program: (exit status, stdout, stderr)."""
    done = subprocess.run([sys.executable, str(HARNESS / name), *map(str, arguments)],
                          capture_output=True, encoding="utf-8", **options)
    return done.returncode, done.stdout, done.stderr


def edit(path, *changes):
    """Each change is (old, new); old must be there exactly once."""
    text = path.read_bytes().decode()
    for old, new in changes:
        assert text.count(old) == 1, "%d times in %s: %r" % (text.count(old), path, old)
        text = text.replace(old, new)
    path.write_bytes(text.encode())


def kvm_runs(top):
    """Five boots a side under KVM, from kvm.values, in top/<side>-<boot>."""
    for line in (RUNS / "kvm.values").read_text().splitlines():
        if not line.startswith("#"):
            side, op, *boots = line.split("\t")
            for boot, number in enumerate(boots, 1):
                add_to_kvm_run(top / ("%s-%d" % (side, boot)), op, number)


def add_to_kvm_run(path, op, number):
    """Put one operation's time into the run, which keeps nothing else of a good run."""
    side, boot = path.name.split("-")
    row = "| %s\t0\t%d\t7\t2000\t%s\t%s\t%s\n" % (op, 1 + op.endswith("_pair"), *[number] * 3)
    if not path.exists():
        shutil.copytree(RUNS / "good" / ("%s-1" % side), path)
        edit(path / "run", ("accel: tcg-icount", "accel: kvm"), ("boot: 1", "boot: " + boot))
        (path / "verdict.log").write_text(
            "filelock-guest 1\nkernel 7.3.4-%s x86_64\nplan 1 bench\nbegin bench bench 120\n"
            "| lock_bench\t1\n| op\tlocks\tcalls\tsamples\tloops\tns_min\tns_median\tns_max\n"
            "| lock_bench\tend\nend bench exit 0 8100\ncheck taint 0\ncheck splats 0\n"
            "check leaks skipped\nfilelock-end 1 1\n" % side)
    edit(path / "verdict.log", ("| lock_bench\tend\n", row + "| lock_bench\tend\n"))


class RunCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)

    def copy(self, side, boot=1, *changes):
        """A boot of a good side under self.top, with changes to its verdict.log."""
        path = self.top / ("%s-%d" % (side, boot))
        shutil.copytree(RUNS / "good" / ("%s-1" % side), path)
        edit(path / "run", ("boot: 1", "boot: %d" % boot))
        edit(path / "verdict.log", *changes)
        return path


if __name__ == "__main__":
    kvm_runs(Path(sys.argv[1]))
