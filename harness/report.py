#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare the stored runs <side>-<n> under DIR and write DIR/report.{txt,json,svg}.

Values are medians over boots: instructions (accel tcg-icount) or ns (kvm, native) per
operation, and operations per second for stress-ng.  Every side is compared with the side
"base".  Runs of "make native" beside DIR become a table of the report if they are of the same
series.  report.txt is printed too.  Needs gnuplot, and where time is measured ministat.

Exit status: 0 nothing to object to; 1 a test failed on a side other than base, a skip was not
as listed, or an operation is slower than known-costs allows; 2 a run is LOST or incomplete, or
something needed is missing.
"""
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import judge
from comparison import TIMED, Unusable, build, compare, same_series
from report_svg import draw
from report_text import text_of


class Cost(NamedTuple):
    """Something found slower, and what known-costs says to it."""
    name: str
    side: str
    pct: float
    allowed: bool
    remark: str


def known_costs(path):
    limits = {}
    for name, (limit, why) in judge.read_pairs(path, 3).items():
        if not re.fullmatch(judge.DECIMAL, limit):
            raise ValueError("%s: %s: limit is not a number" % (path, name))
        limits[name] = (float(limit), why)
    return limits


def slower_than_base(data, limits):
    named = [(row["op"], row) for row in data["bench"]]
    named += [("native " + row["op"], row) for row in data["native"]]
    named += [("stress-%(stress_ng)s %(job)s" % row, row) for row in data["stress"]]
    found = []
    for name, row in named:
        limit, why = limits.get(name, (0, ""))
        remark = "limit %g %%: %s" % (limit, why) if why else "not in known-costs"
        found += [Cost(name, side, row["change_pct"][side],
                       abs(row["change_pct"][side]) <= limit, remark)
                  for side, verdict in row["verdict"].items() if verdict == "slower"]
    return found


def status_of(comparison, slower):
    if comparison.missing:
        return 2
    failed = any(comparison.failures(side) for side in comparison.others)
    skips = any(not problem.startswith("fail: ")
                for run in comparison.verdicts for problem in run.problems)
    return int(failed or skips or not all(cost.allowed for cost in slower))


def require(*programs):
    for program in programs:
        if not shutil.which(program):
            raise Unusable("%s is needed and not installed" % program)


def write(top, files):
    """All files under a temporary name first, then each renamed over the old one."""
    with tempfile.TemporaryDirectory(dir=top, prefix=".report") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        for name in files:
            os.replace(Path(folder) / name, top / name)


def native_runs(top, comparison):
    """The runs of "make native" beside TOP, if they fit, and a line that says why they do not."""
    folder = top.resolve().parent / "native"
    if comparison.accel == "native" or not folder.is_dir():
        return None, ""
    native = compare(folder, None)
    why = native.missing[0] if native.missing else same_series(comparison, native)
    return (None, "%s was left out: %s (make native)" % (folder.name, why)) if why else (native, "")


def report(top, skips_file, costs_file):
    require("gnuplot")
    comparison = compare(top, skips_file)
    native, left_out = native_runs(top, comparison)
    if native or comparison.accel in TIMED:
        require("ministat")
    data = build(comparison)
    if native:
        data["native"] = build(native)["native"]
    slower = slower_than_base(data, known_costs(costs_file))
    text = text_of(comparison, data, slower, native)
    files = {"report.txt": text, "report.json": json.dumps(data, indent=1) + "\n"}
    if data["bench"] or not data["native"]:
        files["report.svg"] = draw(data, bool(comparison.missing))
    write(top, files)
    sys.stdout.write(text)
    if left_out:
        print(left_out, file=sys.stderr)
    return status_of(comparison, slower)


def main():
    here = Path(__file__).resolve().parent
    arguments = judge.Arguments(__doc__)
    arguments.add_argument("dir", metavar="DIR", type=Path)
    arguments.add_argument("--skips", metavar="FILE", help="default: skips/<lane> beside this")
    arguments.add_argument("--known-costs", metavar="FILE", type=Path, default=here / "known-costs")
    options = arguments.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        return report(options.dir, options.skips, options.known_costs)
    except (Unusable, OSError, ValueError) as error:
        arguments.exit(2, "report.py: %s\n" % error)


if __name__ == "__main__":
    sys.exit(main())
