# SPDX-License-Identifier: GPL-2.0
"""All runs of one results directory as a comparison, and report.json's content made from it.

Values are medians over boots.  Under tcg-icount a change counts when the ranges of all boots
are apart and the medians differ by more than 1 %; where time is measured (kvm, native) ministat
decides at 95 %.  A native boot's value is the best of its samples.
"""
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

import judge

SCALING = ("getlk", "own_pair", "other_pair")
SAME_EVERYWHERE = ("arch", "lane", "accel", "qemu", "cpu", "package", "version", "compiler")
BOOTS_NEEDED = {"tcg-icount": 1, "kvm": 5, "native": 5}
UNITS = {"tcg-icount": "instructions", "kvm": "ns", "native": "ns"}
TIMED = ("kvm", "native")
UNPROVEN = "no difference proven"


class Unusable(Exception):
    """Nothing can be reported; the text is the one line that says why."""


class Comparison:
    """All runs of a directory, judged, and what of them does not fit together."""

    def __init__(self, runs):
        self.runs = runs
        self.sides = sorted(runs, key=lambda side: (side != "base", side != "patched", side))
        self.others = self.sides[1:]
        self.verdicts = [run for side in self.sides for run in runs[side].values()]
        readable = [run for run in self.verdicts if run.run]
        self.first = readable[0].run if readable else {}
        self.accel = self.first.get("accel", "")
        self.unit = UNITS.get(self.accel, "")
        self.missing = []
        self.samples, self.calls, self.kinds = {}, {}, {}

    def boots(self, side):
        return [run for run in self.runs[side].values() if not run.lost]

    def tests(self):
        return list(dict.fromkeys(test for run in self.verdicts for test in run.tests))

    def is_selftest(self, test):
        program = test.partition(": ")[0]
        return any(p.kind == "ktap" and p.name == program
                   for run in self.verdicts for p in run.programs)

    def result(self, side, test):
        """The worst result of all boots, how often it came, and a reason."""
        found = [run.tests[test] for run in self.boots(side) if test in run.tests]
        for word in ("fail", "skip", "pass"):
            reasons = [reason for result, reason in found if result == word]
            if reasons:
                return word, len(reasons), reasons[0]
        return ("absent" if self.boots(side) else "lost"), 0, ""

    def failures(self, side):
        return [test for test in self.tests() if self.result(side, test)[0] == "fail"]

    def description(self, side):
        return next((run.run for run in self.runs[side].values() if run.run), {})


def find_runs(top, skips_file):
    runs = {}
    for path in sorted(top.iterdir()) if top.is_dir() else []:
        match = re.fullmatch(r"([a-z][\w.-]*)-([1-9][0-9]{0,4})", path.name, re.A)
        if match and path.is_dir():
            verdict = judge.judge(path, skips_file)
            where = (verdict.run.get("side", match[1]), verdict.run.get("boot", match[2]))
            if where != (match[1], match[2]):
                verdict = judge.Verdict(path)
                verdict.lost = "its run file is of another run: %s-%s" % where
            runs.setdefault(match[1], {})[int(match[2])] = verdict
    if "base" not in runs or len(runs) < 2:
        raise Unusable("%s: needs runs of base and of another side" % top)
    return {side: dict(sorted(boots.items())) for side, boots in runs.items()}


def check_complete(comparison):
    most = max(max(boots) for boots in comparison.runs.values())
    for run in comparison.verdicts:
        if run.lost:
            comparison.missing.append("%s LOST (%s)" % (run.path.name, run.lost))
        for key in SAME_EVERYWHERE if run.run else ():
            if run.run[key] != comparison.first[key]:
                comparison.missing.append("%s has another %s" % (run.path.name, key))
    for side, boots in comparison.runs.items():
        absent = sorted(set(range(1, most + 1)) - set(boots))
        comparison.missing += ["%s-%d is missing" % (side, n) for n in absent]
        comparison.missing += different_programs(comparison, side)
    needed = BOOTS_NEEDED.get(comparison.accel, 0)
    if most < needed:
        comparison.missing.append("%s needs %d boots a side" % (comparison.accel, needed))


def different_programs(comparison, side):
    """Every boot of a side runs the same programs, and no side fewer than the base.

    Those of a side's own tree, where another's run as well, are own-<program>."""
    plans = {run.path.name: {program.name for program in run.programs}
             for run in comparison.boots(side)}
    expected = set().union(*plans.values(), *(
        {program.name for program in run.programs if not program.name.startswith("own-")}
        for run in comparison.boots("base")))
    return ["%s did not run %s" % (name, ", ".join(sorted(expected - plan)))
            for name, plan in plans.items() if plan != expected]


def numbers_of(run):
    """Yield (key, value, calls, kind) of one boot; key is (section, name, locks or version)."""
    for program in run.programs:
        if run.tests[program.name][0] != "pass":
            continue
        if program.kind == "bench":
            rows = judge.bench_rows(program)
            if any(row.op in SCALING for row in rows):
                rows = [row for row in rows if row.op != "floor"]  # bench has it already
            for row in rows:
                scaling = row.op in SCALING
                key = ("scaling", row.op, row.locks) if scaling else ("bench", row.op, 0)
                best = row.low if run.run["accel"] == "native" else row.median
                yield key, best, row.calls, ""
        elif program.kind == "stress":
            for job, rate in judge.stress_rates(program).items():
                kind = run.run.get(program.name, "kind unknown")
                yield ("stress", job, program.name.replace("stress-", "", 1)), rate, 1, kind


def collect(comparison):
    """Fill samples {key: {side: [value of each boot]}}."""
    for side in comparison.sides:
        for run in comparison.boots(side):
            seen = set()
            for key, number, calls, kind in numbers_of(run):
                if comparison.calls.setdefault(key, calls) != calls or key in seen:
                    comparison.missing.append("%s contradicts on %s" % (run.path.name, key[1]))
                seen.add(key)
                comparison.kinds.setdefault(key, kind)
                comparison.samples.setdefault(key, {}).setdefault(side, []).append(number)
    if comparison.samples and not comparison.unit:
        raise Unusable("accelerator %s gives no numbers" % comparison.accel)
    for key, by_side in comparison.samples.items():
        for side in comparison.sides:
            boots = len(comparison.boots(side))
            if len(by_side.get(side, [])) != boots and boots:
                comparison.missing.append("%s has no %s %s in every boot" % (side, *key[:2]))


def change(base, other):
    return (other / base - 1) * 100 if base else None


def ministat_proves(base, other):
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("base", "other")]
        for path, numbers in zip(files, (base, other)):
            Path(path).write_text("".join("%r\n" % number for number in numbers))
        done = subprocess.run(["ministat", "-A", "-c", "95", *files], capture_output=True,
                              text=True, env={**os.environ, "LC_ALL": "C"})
    if "No difference proven at 95.0% confidence" in done.stdout:
        return False
    if "Difference at 95.0% confidence" in done.stdout:
        return True
    raise Unusable("ministat: " + (done.stderr.strip() or "answer not understood"))


def verdict_of(base, other, accel, more_is_better):
    if accel in TIMED:
        proven = min(len(base), len(other)) >= 3 and ministat_proves(base, other)
    else:
        apart = max(base) < min(other) or max(other) < min(base)
        medians = statistics.median(base), statistics.median(other)
        proven = apart and abs(change(*medians)) > 1
    if not proven:
        return UNPROVEN
    rises = statistics.fmean(other) > statistics.fmean(base)
    return "faster" if rises == more_is_better else "slower"


def compared(comparison, key):
    """values, change_pct and verdict of one measured operation."""
    by_side = comparison.samples[key]
    values = {side: round(statistics.median(numbers), 2) for side, numbers in by_side.items()}
    others = [side for side in comparison.others if side in values and "base" in values]
    return {
        "n": min(len(by_side.get(side, [])) for side in comparison.sides),
        "values": values,
        "change_pct": {s: round(change(values["base"], values[s]), 2) for s in others},
        "verdict": {s: verdict_of(by_side["base"], by_side[s], comparison.accel,
                                  key[0] == "stress") for s in others}}


def over_floor_changes(row, floor):
    """A side's cost above `calls` floors against the base's, where both are above zero."""
    over = {side: cost - row["calls"] * floor[side]
            for side, cost in row["values"].items() if side in floor}
    return {side: round(change(over["base"], over[side]), 2)
            if min(over["base"], over[side]) > 0 else None
            for side in row["change_pct"] if side in over and "base" in over}


def bench_section(comparison):
    rows = []
    for key in comparison.samples:
        if key[0] == "bench":
            rows.append({"op": key[1], "calls": comparison.calls[key],
                         **compared(comparison, key)})
    floor = next((row["values"] for row in rows if row["op"] == "floor"), {})
    for row in rows:
        row["over_floor_change_pct"] = over_floor_changes(row, floor)
    return rows


def native_section(comparison):
    return [{"op": key[1], "calls": comparison.calls[key], **compared(comparison, key)}
            for key in comparison.samples if key[0] == "bench"]


def stress_section(comparison):
    return [{"job": key[1], "stress_ng": key[2], "kind": comparison.kinds[key],
             **compared(comparison, key)}
            for key in comparison.samples if key[0] == "stress"]


def scaling_section(comparison):
    keys = sorted((key for key in comparison.samples if key[0] == "scaling"),
                  key=lambda key: (SCALING.index(key[1]), key[2]))
    return [{"op": key[1], "locks": key[2], "values": compared(comparison, key)["values"]}
            for key in keys]


def selftests_section(comparison):
    counts, changes = {}, []
    for side in comparison.sides:
        results = [comparison.result(side, test)[0] for test in comparison.tests()
                   if comparison.is_selftest(test)]
        counts[side] = {word: results.count(word) for word in ("pass", "fail", "skip")}
        counts[side]["lost"] = len(comparison.runs[side]) - len(comparison.boots(side))
    for test in comparison.tests():
        row = {side: comparison.result(side, test)[0] for side in comparison.sides}
        if len(set(row.values()) - {"lost"}) > 1:
            changes.append({"test": test, **row})
    return {**counts, "changes": changes}


def build(comparison):
    first = comparison.first
    described = {side: comparison.description(side) for side in comparison.sides}
    return {
        "schema": 1,
        "source": {"package": first.get("package", ""), "version": first.get("version", "")},
        "accel": comparison.accel, "accel_note": first.get("accel-note", ""),
        "unit": comparison.unit,
        "qemu": first.get("qemu", ""), "compiler": first.get("compiler", ""),
        "sides": [{"name": side, "series": run.get("series", ""),
                   "config": run.get("config", "")} for side, run in described.items()],
        "selftests": selftests_section(comparison),
        "bench": [] if comparison.accel == "native" else bench_section(comparison),
        "stress": stress_section(comparison),
        "scaling": scaling_section(comparison),
        "native": native_section(comparison) if comparison.accel == "native" else [],
        "programs": []}


def same_series(comparison, native):
    """Why runs of another lane are not about the same sides; empty if they are."""
    for key in ("package", "version", "compiler"):
        if comparison.first.get(key) != native.first.get(key):
            return "another " + key
    for side in comparison.sides:
        mine, theirs = (c.description(side).get("series") if side in c.runs else None
                        for c in (comparison, native))
        if mine != theirs:
            return "another series" if theirs else "no side " + side
    return ""


def compare(top, skips_file):
    comparison = Comparison(find_runs(top, skips_file))
    check_complete(comparison)
    collect(comparison)
    return comparison
