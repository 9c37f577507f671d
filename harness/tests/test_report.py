# SPDX-License-Identifier: GPL-2.0
"""What report.py makes of a directory of runs."""
import json
import re
import shutil
import unittest

from fixtures import RUNS, RunCase, edit, kvm_runs, program

import comparison

DATA_KEYS = {"schema", "source", "accel", "accel_note", "unit", "qemu", "compiler", "sides",
             "selftests", "bench", "stress", "scaling", "native", "programs"}
SPLIT = "2389.50\t2390.00\t2391.25"
DEARER = "3399.50\t3400.00\t3401.25"


class ReportCase(RunCase):
    def good(self):
        for side in ("base", "patched"):
            for boot in (1, 2):
                self.copy(side, boot)

    def report(self, status, *arguments, **options):
        """Run report.py and keep what it wrote."""
        done, self.text, self.err = program("report.py", self.top, *arguments, **options)
        self.assertEqual(done, status, self.err + self.text)
        if (self.top / "report.json").exists():
            self.data = json.loads((self.top / "report.json").read_text())

    def row(self, section, **wanted):
        rows = [row for row in self.data[section]
                if all(row[key] == value for key, value in wanted.items())]
        self.assertEqual(len(rows), 1, wanted)
        return rows[0]

    def first_line(self):
        return self.text.splitlines()[0]


class Icount(ReportCase):
    def test_first_line_answers_the_question(self):
        self.good()
        self.report(0)
        self.assertEqual(
            self.first_line(),
            "patched against base: getlk_unlocked -46.1 %, setlk_pair -39.5 %, "
            "stress-ng 0.15.06 lockofd +35.1 %, stress-ng 0.19.02 lockofd +7.8 %; "
            "selftests base 5 pass 1 fail, patched 6 pass 0 fail; nothing slower.")

    def test_json_has_the_keys_of_the_schema(self):
        self.good()
        self.report(0)
        self.assertEqual(set(self.data), DATA_KEYS)
        self.assertEqual((self.data["schema"], self.data["accel"], self.data["unit"]),
                         (1, "tcg-icount", "instructions"))
        self.assertEqual([side["name"] for side in self.data["sides"]], ["base", "patched"])
        self.assertEqual(self.data["selftests"], {
            "base": {"pass": 5, "fail": 1, "skip": 0, "lost": 0},
            "patched": {"pass": 6, "fail": 0, "skip": 0, "lost": 0},
            "changes": [{"test": "ofdlocks", "base": "fail", "patched": "pass"}]})
        self.assertEqual(self.row("bench", op="setlk_pair"), {
            "op": "setlk_pair", "calls": 2, "n": 2,
            "values": {"base": 2896.0, "patched": 1753.0},
            "change_pct": {"patched": -39.47}, "verdict": {"patched": "faster"},
            "over_floor_change_pct": {"patched": -47.74}})
        self.assertIsNone(self.row("bench", op="floor")["over_floor_change_pct"]["patched"])
        self.assertEqual(self.row("stress", stress_ng="0.19.02")["kind"], "F_OFD_SETLK")
        self.assertEqual(self.row("scaling", op="getlk", locks=4096)["values"]["base"], 54083.0)
        self.assertEqual((self.data["native"], self.data["programs"]), ([], []))

    def test_text_fits_a_mail(self):
        self.good()
        self.report(0)
        self.assertLessEqual(max(map(len, self.text.splitlines()[1:])), 100)
        self.assertEqual(set(self.text) - set(map(chr, range(32, 127))) - {"\n"}, set())
        self.assertEqual(self.text, (self.top / "report.txt").read_text())
        for words in ("fail 2:2     pass  ofdlocks", "lockofd 0.15.06, F_OFD_GETLK",
                      "Counts are not time", "linux-source-7.3 7.3.4-1~bpo13+1"):
            self.assertIn(words, self.text)

    def test_ranges_that_touch_prove_nothing(self):
        self.good()
        edit(self.top / "patched-2/verdict.log", (SPLIT, SPLIT.replace("23", "32")),
             ("3290.00", "3255.00"), ("3291.25", "3256.25"), ("3289.50", "3254.50"))
        self.report(0)
        row = self.row("bench", op="setlk_split")
        self.assertEqual(row["verdict"]["patched"], "no difference proven")

    def test_less_than_one_percent_proves_nothing(self):
        self.good()
        for boot in (1, 2):
            edit(self.top / ("patched-%d/verdict.log" % boot),
                 (SPLIT, "3224.50\t3225.00\t3226.25"))
        self.report(0)
        row = self.row("bench", op="setlk_split")
        self.assertEqual((row["verdict"]["patched"], row["change_pct"]["patched"]),
                         ("no difference proven", -0.92))
        self.assertNotIn("the same ", self.text.partition("Made from")[0])

    def test_value_is_the_median_over_boots(self):
        for side in ("base", "patched"):
            for boot in (1, 2, 3):
                self.copy(side, boot)
        edit(self.top / "patched-1/verdict.log", (SPLIT, "99.00\t99.00\t99.00"))
        edit(self.top / "patched-2/verdict.log", (SPLIT, "2399.50\t2400.00\t2401.25"))
        self.report(0)
        self.assertEqual(self.row("bench", op="setlk_split")["values"]["patched"], 2390.0)
        self.assertRegex(self.text, r"2390 ±\d+%")

    def test_rejudging_gives_the_same_bytes(self):
        self.good()
        self.report(0)
        names = ("report.txt", "report.json", "report.svg")
        before = [(self.top / name).read_bytes() for name in names]
        self.report(0)
        self.assertEqual(before, [(self.top / name).read_bytes() for name in names])
        left = {path.name for path in self.top.iterdir() if path.is_file()} - set(names)
        self.assertEqual(left, set())

    def test_picture_names_sides_units_and_operations(self):
        self.good()
        self.report(0)
        picture = (self.top / "report.svg").read_text()
        for words in ("base", "patched", "instructions per operation", "getlk_unlocked",
                      "1753 (-39.5%)", "F_OFD_SETLK", "locks held on the file"):
            self.assertIn(words, picture)


class Slower(ReportCase):
    def slower(self, status, costs):
        self.good()
        for boot in (1, 2):
            edit(self.top / ("patched-%d/verdict.log" % boot), (SPLIT, DEARER))
        path = self.top / "costs"
        path.write_text("# operation\tlimit\twhy\n" + costs)
        self.report(status, "--known-costs", path)
        self.assertEqual(self.row("bench", op="setlk_split")["verdict"]["patched"], "slower")

    def test_not_in_known_costs(self):
        self.slower(1, "setlk_pair\t50\tanother one\n")
        self.assertIn("setlk_split on patched +4.5 %: NOT ALLOWED, not in known-costs", self.text)
        self.assertIn("; slower: setlk_split on patched +4.5 %.", self.first_line())

    def test_over_its_limit(self):
        self.slower(1, "setlk_split\t4\ttakes the second lock late\n")
        self.assertIn("NOT ALLOWED, limit 4 %: takes the second lock late", self.text)

    def test_inside_its_limit(self):
        self.slower(0, "setlk_split\t5\ttakes the second lock late\n")
        self.assertIn("allowed, limit 5 %: takes the second lock late", self.text)
        self.assertIn("+4.5 % (known cost).", self.first_line())

    def test_stress_counts_too(self):
        self.good()
        for boot in (1, 2):
            edit(self.top / ("patched-%d/verdict.log" % boot), ("770447.08", "500000.00"))
        self.report(1)
        self.assertIn("stress-0.15.06 lockofd on patched -12.3 %: NOT ALLOWED", self.text)

    def test_bad_known_costs(self):
        self.good()
        path = self.top / "costs"
        for text in ("setlk_split\t5\n", "setlk_split\tinf\twhy\n"):
            path.write_text(text)
            self.report(2, "--known-costs", path)
            self.assertEqual(self.err.count("\n"), 1)


class Tests(ReportCase):
    def test_failure_on_the_patched_side(self):
        self.good()
        edit(self.top / "patched-2/verdict.log", ("| ok 3", "| not ok 3"))
        self.report(1)
        self.assertIn("patched 4 pass 2 fail", self.first_line())
        self.assertIn("fail 1:2  ofdlocks: F_UNLCK test on locked file", self.text)

    def test_failure_on_both_sides_is_shown(self):
        self.good()
        for log in self.top.glob("*/verdict.log"):
            edit(log, ("| ok 3", "| not ok 3"))
        self.report(1)
        self.assertIn("fail 2:2  fail 2:2  ofdlocks: F_UNLCK test on locked file", self.text)

    def test_kernel_complaint_on_the_patched_side(self):
        self.good()
        edit(self.top / "patched-1/verdict.log", ("check taint 0", "check taint 512"))
        self.report(1)
        self.assertIn("kernel fails on patched", self.first_line())
        self.assertIn("kernel on patched: taint 512", self.text)

    def test_unlisted_skip(self):
        self.good()
        edit(self.top / "patched-1/verdict.log", ("| ok 3 ", "| ok 3 # SKIP "))
        self.report(1)
        self.assertIn("patched-1: unlisted skip: ofdlocks: F_UNLCK test on locked file", self.text)

    def test_new_program_is_one_row(self):
        self.good()
        for boot in (1, 2):
            edit(self.top / ("patched-%d/verdict.log" % boot),
                 ("plan 5 ofdlocks", "plan 6 new ofdlocks"), ("lock-end 1 5", "lock-end 1 6"),
                 ("begin ktap", "begin ktap new 9\n| 1..2\n| ok 1 a\n| ok 2 b\nend new exit 0 1\n"
                  "begin ktap"))
        self.report(0)
        self.assertRegex(self.text, r"absent +pass +new\n")
        self.assertNotIn("new: a", self.text)


class Incomplete(ReportCase):
    def test_lost_run(self):
        self.good()
        edit(self.top / "patched-2/verdict.log", ("filelock-end 1 5\n", ""))
        self.report(2)
        self.assertEqual(self.first_line(), "INCOMPLETE, proves nothing: patched-2 LOST (log ends "
                         "before the end marker).")
        self.assertEqual(self.data["selftests"]["patched"]["lost"], 1)
        picture = (self.top / "report.svg").read_text()
        self.assertIn("getlk_unlocked", picture)
        self.assertIn("INCOMPLETE", picture)

    def test_all_boots_of_a_side_lost(self):
        self.good()
        for boot in (1, 2):
            (self.top / ("patched-%d/verdict.log" % boot)).unlink()
        self.report(2)
        self.assertIn("no output at all); and 1 more.", self.first_line())

    def test_nothing_but_lost_runs(self):
        self.good()
        for log in self.top.glob("*/verdict.log"):
            log.unlink()
        self.report(2)
        self.assertIn("no numbers", (self.top / "report.svg").read_text())

    def test_missing_boot(self):
        self.good()
        shutil.rmtree(self.top / "patched-2")
        self.report(2)
        self.assertIn("patched-2 is missing", self.first_line())

    def test_failed_benchmark_leaves_a_hole(self):
        self.good()
        edit(self.top / "base-1/verdict.log", ("end bench exit 0", "end bench exit 1"))
        self.report(2)
        self.assertIn("base has no bench floor in every boot", self.text)

    def test_operation_missing_on_one_side(self):
        self.good()
        for boot in (1, 2):
            edit(self.top / ("patched-%d/verdict.log" % boot), ("| flock_pair", "| other_name"))
        self.report(2)
        self.assertIn("patched has no bench flock_pair in every boot", self.text)

    def test_program_left_out_of_one_boot(self):
        self.good()
        log = self.top / "patched-2/verdict.log"
        text = re.sub(r"begin ktap.*?end ofdlocks[^\n]*\n", "", log.read_text(), flags=re.S)
        log.write_text(text.replace("plan 5 ofdlocks", "plan 4").replace("end 1 5", "end 1 4"))
        self.report(2)
        self.assertIn("patched-2 did not run ofdlocks", self.first_line())

    def test_mixed_accelerators(self):
        self.good()
        edit(self.top / "patched-1/run", ("accel: tcg-icount", "accel: kvm"))
        self.report(2)
        self.assertIn("patched-1 has another accel", self.first_line())

    def test_run_of_another_side(self):
        self.good()
        edit(self.top / "patched-1/run", ("side: patched", "side: base"))
        self.report(2)
        self.assertIn("its run file is of another run: base-1", self.first_line())

    def test_no_numbers_without_icount(self):
        self.good()
        for run in self.top.glob("*/run"):
            edit(run, ("accel: tcg-icount", "accel: tcg"))
        self.report(2)
        self.assertIn("accelerator tcg gives no numbers", self.err)

    def test_no_base(self):
        self.copy("patched")
        self.report(2)
        self.assertIn("needs runs of base and of another side", self.err)


class Tools(ReportCase):
    def without(self, accel, *programs):
        """Run with a PATH that holds only the named programs."""
        tools = self.top / "tools"
        tools.mkdir()
        for name in programs:
            (tools / name).symlink_to(shutil.which(name))
        self.good()
        for run in self.top.glob("*/run"):
            edit(run, ("accel: tcg-icount", "accel: " + accel))
        self.report(2, env={"PATH": str(tools), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((self.text, self.err.count("\n")), ("", 1))

    def test_gnuplot_missing(self):
        self.without("tcg-icount")
        self.assertIn("gnuplot is needed", self.err)

    def test_ministat_missing(self):
        self.without("kvm", "gnuplot")
        self.assertIn("ministat is needed", self.err)


class Kvm(ReportCase):
    def setUp(self):
        super().setUp()
        kvm_runs(self.top)

    def test_ministat_decides(self):
        self.report(0)
        self.assertEqual(self.data["unit"], "ns")
        self.assertEqual({row["op"]: row["verdict"]["patched"] for row in self.data["bench"]},
                         {"floor": "no difference proven", "getlk_unlocked": "faster",
                          "setlk_pair": "no difference proven"})
        self.assertEqual(self.row("bench", op="setlk_pair")["n"], 5)
        self.assertIn("ministat(1)", self.text)
        self.assertNotIn("Counts are not time", self.text)

    def test_ranges_that_touch_may_still_be_proven(self):
        log = self.top / "patched-1/verdict.log"
        log.write_text(log.read_text().replace("133.25", "157.00"))
        self.report(0)
        self.assertEqual(self.row("bench", op="getlk_unlocked")["verdict"]["patched"], "faster")

    def test_four_boots_are_too_few(self):
        for side in ("base", "patched"):
            shutil.rmtree(self.top / (side + "-5"))
        self.report(2)
        self.assertIn("kvm needs 5 boots a side", self.first_line())


class ManySides(ReportCase):
    def setUp(self):
        super().setUp()
        self.good()
        for side, split in (("index", SPLIT), ("memcg", DEARER)):
            for boot in (1, 2):
                path = self.copy("patched", boot + 2).rename(self.top / ("%s-%d" % (side, boot)))
                edit(path / "run", ("side: patched", "side: " + side),
                     ("boot: %d" % (boot + 2), "boot: %d" % boot))
                edit(path / "verdict.log", ("4-patched", "4-" + side), (SPLIT, split))

    def test_every_side_is_compared_with_base(self):
        self.report(1)
        row = self.row("bench", op="setlk_split")
        self.assertEqual(row["verdict"], {"patched": "faster", "index": "faster",
                                          "memcg": "slower"})
        self.assertEqual([side["name"] for side in self.data["sides"]],
                         ["base", "patched", "index", "memcg"])
        self.assertIn("index against base: ", self.first_line())
        self.assertIn("slower: setlk_split on memcg +4.5 %.", self.first_line())
        self.assertLessEqual(max(map(len, self.text.splitlines()[1:])), 100)
        self.assertIn("~ = no difference proven", self.text)


class Units(unittest.TestCase):
    def test_more_is_better_only_for_stress(self):
        low, high = [100.0, 100.1], [120.0, 120.1]
        judged = [comparison.verdict_of(low, high, "tcg-icount", more) for more in (True, False)]
        self.assertEqual(judged, ["faster", "slower"])


class Program(ReportCase):
    def test_bad_usage_is_one_line(self):
        for arguments in ((), ("--no-such", "x"), (self.top / "nowhere",)):
            status, out, err = program("report.py", *arguments)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1))

    def test_help(self):
        status, text, _ = program("report.py", "--help")
        self.assertEqual(status, 0)
        self.assertIn("Exit status", text)


if __name__ == "__main__":
    unittest.main()
