#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare the selftests of a run with what the series so far should make of them.

usage: first_pass.py RUNDIR SUBJECTS NUMBER [TABLE]

SUBJECTS lists the patches of the series, NUMBER of which the run's kernel has.  TABLE
(harness/first-pass) has lines "test<TAB>patch<TAB>why": the patch that makes the test pass.
A test is a pattern, as of the shell; what no line names passes from base on.  A line that
names a program, own-<program> for one that the prefix itself contains, stands for all of it.
A test that skips/<lane> lists, and that skips, is not looked at.

Exit status: 0 as the table says; 1 otherwise; 2 the run is LOST or the table is wrong.
"""
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from judge import Arguments, judge, read_pairs


class BadTable(Exception):
    """The table does not fit the series or the tests."""


def read_table(path, subjects):
    """{pattern: number of the patch that makes it pass}, from 1."""
    table = {}
    for pattern, (subject, _) in read_pairs(Path(path), 3).items():
        if subjects.count(subject) != 1:
            raise BadTable("%s: not one patch of the series: %s" % (pattern, subject))
        table[pattern] = subjects.index(subject) + 1
    return table


def first_patch(table, test):
    found = {pattern: patch for pattern, patch in table.items() if fnmatchcase(test, pattern)}
    if len(found) > 1:
        raise BadTable("%s: more than one line: %s" % (test, ", ".join(found)))
    return next(iter(found.values()), 0)


def differences(tests, table, number):
    """What is not as the table says, a line each; tests: {name: (result, reason)}."""
    programs = {name for name in tests if ": " not in name}
    whole = {name: table[name] for name in programs & table.keys()}
    wrong, failing = [], set()
    for name in sorted(tests.keys() - programs):
        program, result = name.partition(": ")[0], tests[name][0]
        if program in whole:
            continue
        expected = "fail" if first_patch(table, name) > number else "pass"
        failing |= {program} if expected == "fail" else set()
        if result != expected:
            wrong.append("%s: %s, where the table says %s" % (name, result, expected))
    for name in sorted(programs):
        expected = "fail" if whole.get(name, 0) > number or name in failing else "pass"
        if tests[name][0] != expected:
            wrong.append("%s: %s, where the table says %s (%s)" % (
                name, tests[name][0], expected, tests[name][1]))
    return wrong


def without_skips(verdict):
    """The tests but for those that skip as listed, alone or with their program."""
    skips = Path(__file__).parent / "skips" / verdict.run["lane"]
    listed = read_pairs(skips, 2) if skips.exists() else {}
    return {name: test for name, test in verdict.tests.items() if test[0] != "skip"
            or not {name.removeprefix("own-"), name.removeprefix("own-").partition(": ")[0]} & listed.keys()}


def unused(tests, table):
    """Lines that name no test; own-... may name one that a prefix does not have yet."""
    if all(test.startswith("own-") or test == "kernel" for test in tests):
        return []
    return [pattern for pattern in table if not pattern.startswith("own-")
            and not any(fnmatchcase(test, pattern) for test in tests)]


def main():
    arguments = Arguments(__doc__)
    for name in ("rundir", "subjects"):
        arguments.add_argument(name)
    arguments.add_argument("number", type=int)
    arguments.add_argument("table", nargs="?", default=Path(__file__).parent / "first-pass")
    options = arguments.parse_args()
    verdict = judge(options.rundir)
    if verdict.lost:
        print("    LOST: " + verdict.lost)
        return 2
    try:
        table = read_table(options.table, Path(options.subjects).read_text().splitlines())
        tests = without_skips(verdict)
        names = unused(verdict.tests, table)
        if names:
            raise BadTable("no such test: " + ", ".join(names))
        wrong = differences(tests, table, options.number)
    except (BadTable, OSError, ValueError) as error:
        print("    error: %s" % error)
        return 2
    failing = sum(result == "fail" for result, _ in verdict.tests.values())
    print("\n".join(["    %s: %d tests, %d fail" % (
        "NOT as it should be" if wrong else "as it should be", len(verdict.tests), failing)]
                    + ["    " + line for line in wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
