#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Judge stored runs: print a verdict for each RUNDIR.

A run directory holds what one boot left behind: run, console.log, verdict.log, status.
The skips file has lines "test name<TAB>reason"; without --skips it is skips/<lane> beside
this program.  A listed name covers the test of that name, or every test of that program.

Exit status: 0 every test passed or skipped as listed; 1 a test failed, skipped without
being listed, or ran although listed; 2 a run is LOST (neither pass nor fail) or unreadable.
"""
import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

from runlog import NAME, NUMBER, Lost, cause_of_loss, panic_line, read_guest, read_log, read_run

DECIMAL = NUMBER + r"(?:\.[0-9]{1,9})?"
BENCH_HEADER = "op\tlocks\tcalls\tsamples\tloops\tns_min\tns_median\tns_max"
BENCH_ROW = r"(%s)\t%s\t(%s)" % (NAME, "\t".join(["(%s)" % NUMBER] * 4),
                                 ")\t(".join([DECIMAL] * 3))
STRESS_ROW = (r"stress-ng: (?:metrc|info): +\[[0-9]+\] +(%s) +(%s)(?: +%s){3} +(%s) +%s(?: .*)?"
              % (NAME, NUMBER, DECIMAL, DECIMAL, DECIMAL))
DIRECTIVE = re.compile(r"(.*?)\s*#\s*(SKIP|XFAIL|XPASS|TODO|error)\b:?\s*(.*)", re.I)


class BadOutput(Exception):
    """A benchmark's or stressor's output that must not be taken for numbers."""


class Row(NamedTuple):
    op: str
    locks: int
    calls: int
    samples: int
    loops: int
    low: float
    median: float
    high: float


class Verdict:
    """tests: {name: (pass|fail|skip, reason)}; problems: what makes the exit status 1."""

    def __init__(self, path):
        self.path, self.lost, self.run = Path(path), "", {}
        self.tests, self.programs, self.problems = {}, [], []

    def record(self, name, result, reason=""):
        if self.tests.get(name, ("",))[0] != "fail":
            self.tests[name] = (result, reason)

    def status(self):
        return 2 if self.lost else 1 if self.problems else 0


def split_result(ok, text):
    """KTAP's text after the number: (result, description, reason)."""
    text = text.strip()
    text = text[2:] if text.startswith("- ") else text
    match = DIRECTIVE.fullmatch(text)
    if not match:
        description, _, reason = text.partition(" #  ")
        return "pass" if ok else "fail", description.strip(), reason.strip()
    description, word, reason = match.groups()
    skipped = word.upper() == "SKIP"
    # kselftest.h's skip and xfail helpers print the description behind the directive.
    return "skip" if skipped else "pass" if ok else "fail", description or reason, reason


class Ktap:
    """One program's KTAP: its plans, its tests [(number, name, result, reason)], its faults."""

    def __init__(self, program):
        self.plans, self.tests, self.faults = [], [], []
        self.skip_reason, self.subtest_failed = None, False
        for line in program.output:
            self.read(line, program.name)
        if self.subtest_failed:
            self.faults.append("a failed subtest belongs to no test")

    def read(self, line, program):
        plan = re.fullmatch(r"1\.\.(%s)(?:\s+#\s*SKIP\b\s*(.*))?" % NUMBER, line)
        test = re.fullmatch(r"(not )?ok (%s)(?:\s(.*))?" % NUMBER, line)
        if plan:
            self.plans.append(int(plan[1]))
            self.skip_reason = plan[2]
            self.faults += ["plan after the first result"] if self.tests else []
        elif test:
            self.add(program, int(test[2]), *split_result(not test[1], test[3] or ""))
        elif re.match(r"\s+not ok [0-9]+", line) and not re.search(r"# *(SKIP|XFAIL)\b", line):
            self.subtest_failed = True
        elif line.startswith("Bail out!"):
            self.faults.append(line)
        elif re.match(r"(not )?ok\b", line):
            self.faults.append("malformed result: " + line[:40])

    def add(self, program, number, result, description, reason):
        if self.subtest_failed and result == "pass":
            result, reason = "fail", "a subtest failed"
        self.subtest_failed = False
        self.skip_reason = reason if result == "skip" else self.skip_reason
        name = "%s: %s" % (program, description or "test %d" % number)
        self.tests.append((number, name, result, reason))


def judge_ktap(program, verdict):
    ktap = Ktap(program)
    for _, name, result, reason in ktap.tests:
        verdict.record(name, result, reason)
    results = [result for _, _, result, _ in ktap.tests]
    failed, passed = results.count("fail"), results.count("pass")
    gave_up = (program.how, program.number) == ("exit", 4)
    faults = ktap.faults + ([] if gave_up else plan_faults(ktap))
    all_skipped = program.succeeded() and ktap.skip_reason is not None and not passed
    if (gave_up or all_skipped) and not faults and not failed:
        return verdict.record(program.name, "skip", ktap.skip_reason or program.ending())
    if failed:
        faults.append("%d of %d tests failed" % (failed, len(results)))
    if not passed:
        faults.append("nothing passed")
    if not program.succeeded():
        faults.append(program.ending())
    verdict.record(program.name, "fail" if faults else "pass", "; ".join(faults))


def plan_faults(ktap):
    numbers, names = [test[0] for test in ktap.tests], [test[1] for test in ktap.tests]
    if len(ktap.plans) != 1:
        return ["%d plans" % len(ktap.plans) if ktap.plans else "no plan"]
    if ktap.plans[0] != len(numbers):
        return ["planned %d tests, ran %d" % (ktap.plans[0], len(numbers))]
    if sorted(numbers) != list(range(1, len(numbers) + 1)):
        return ["test numbers repeat or leave the plan"]
    repeated = [name for name in names if names.count(name) > 1]
    return ["test name used twice: " + repeated[0].partition(": ")[2]] if repeated else []


def bench_rows(program):
    lines = program.output
    if lines[:2] != ["lock_bench\t1", BENCH_HEADER]:
        raise BadOutput("no lock_bench header")
    if lines[-1] != "lock_bench\tend":
        raise BadOutput("output cut off: no lock_bench end")
    matches = [re.fullmatch(BENCH_ROW, line) for line in lines[2:-1]]
    if not all(matches):
        raise BadOutput("not a row of numbers: " + lines[2 + matches.index(None)][:50])
    rows = [Row(m[1], *map(int, m.groups()[1:5]), *map(float, m.groups()[5:])) for m in matches]
    if not rows or len({row[:2] for row in rows}) != len(rows):
        raise BadOutput("an operation is listed twice" if rows else "no operation")
    for row in rows:
        if not (0 < row.low <= row.median <= row.high and row.calls and row.samples and row.loops):
            raise BadOutput("impossible numbers for " + row.op)
    return rows


def stress_rates(program):
    """Bogo operations a second of real time, by stressor."""
    found = [re.fullmatch(STRESS_ROW, line) for line in program.output]
    rows = [match.groups() for match in found if match]
    if not rows:
        raise BadOutput("no metrics line: 0 operations")
    if len({name for name, _, _ in rows}) != len(rows):
        raise BadOutput("a stressor is listed twice")
    for name, operations, rate in rows:
        if int(operations) == 0 or float(rate) == 0:
            raise BadOutput("%s did 0 operations" % name)
    return {name: float(rate) for name, _, rate in rows}


def judge_numbers(program, verdict):
    try:
        if not program.succeeded():
            raise BadOutput(program.ending())
        (bench_rows if program.kind == "bench" else stress_rates)(program)
        verdict.record(program.name, "pass")
    except BadOutput as error:
        verdict.record(program.name, "fail", str(error))


def read_pairs(path, fields):
    """Lines of tab-separated fields, by the first; # starts a comment line."""
    pairs = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != fields or not all(parts) or parts[0] in pairs:
            raise ValueError("%s:%d: bad or repeated line" % (path, number))
        pairs[parts[0]] = parts[1:]
    return pairs


def check_skips(verdict, skips):
    for name, (result, reason) in verdict.tests.items():
        listed = name in skips or name.partition(": ")[0] in skips
        if result == "fail":
            verdict.problems.append("fail: %s (%s)" % (name, reason or "not ok"))
        elif result == "skip" and not listed:
            verdict.problems.append("unlisted skip: %s (%s)" % (name, reason or "no reason"))
        elif result == "pass" and name in skips:
            verdict.problems.append("listed as skip but ran: %s" % name)


def judge(path, skips_file=None):
    """Read one run directory; ValueError or OSError only for a bad skips file."""
    verdict, log = Verdict(path), None
    try:
        verdict.run = read_run(verdict.path)
        log = read_log(verdict.path)
        guest = read_guest(log, verdict.run["side"])
    except Lost as error:
        running = log and log.running and log.running + " was running"
        verdict.lost = "; ".join(filter(None, (str(error), running, cause_of_loss(verdict.path))))
        return verdict
    verdict.programs = guest.programs
    for program in guest.programs:
        (judge_ktap if program.kind == "ktap" else judge_numbers)(program, verdict)
    complaints = guest.complaints + list(filter(None, [panic_line(verdict.path)]))
    verdict.record("kernel", "fail" if complaints else "pass", "; ".join(complaints))
    if not guest.leaks_checked and verdict.run["lane"] == "debug":
        verdict.record("kernel: leaks", "skip", "no leak check in a debug kernel")
    skips = Path(skips_file or Path(__file__).parent / "skips" / verdict.run["lane"])
    check_skips(verdict, read_pairs(skips, 2) if skips_file or skips.exists() else {})
    return verdict


def describe(verdict):
    if verdict.lost:
        return "%s: LOST: %s" % (verdict.path, verdict.lost)
    results = [result for result, _ in verdict.tests.values()]
    head = "%s: %s (%d pass, %d fail, %d skip)" % (
        verdict.path, "FAIL" if verdict.problems else "pass",
        *map(results.count, ("pass", "fail", "skip")))
    return "\n  ".join([head] + verdict.problems)


class Arguments(argparse.ArgumentParser):
    """Help is the docstring; bad usage is one line and status 2."""

    def __init__(self, text):
        super().__init__(description=text,
                         formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message):
        self.exit(2, "%s: %s (see --help)\n" % (self.prog, message))


def main():
    arguments = Arguments(__doc__)
    arguments.add_argument("rundir", nargs="+", metavar="RUNDIR")
    arguments.add_argument("--skips", metavar="FILE")
    options = arguments.parse_args()
    try:
        verdicts = [judge(path, options.skips) for path in options.rundir]
    except (OSError, ValueError) as error:
        arguments.error(str(error))
    for verdict in verdicts:
        print(describe(verdict))
    return max(verdict.status() for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
