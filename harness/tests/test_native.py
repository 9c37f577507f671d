# SPDX-License-Identifier: GPL-2.0
"""Runs of "make native": a report of their own, and a table in that of "make compare"."""
import json
import shutil
import unittest

from fixtures import RUNS, RunCase, edit, kvm_runs, program


class Native(RunCase):
    def setUp(self):
        super().setUp()
        self.compared = self.top / "compared"
        self.native = self.top / "native"
        self.native.mkdir()
        kvm_runs(self.native)
        for run in self.native.iterdir():
            edit(run / "run", ("accel: kvm", "accel: native"), ("lane: perf", "lane: native"))
        for side in ("base", "patched"):
            shutil.copytree(RUNS / "good" / (side + "-1"), self.compared / (side + "-1"))

    def report(self, folder):
        status, text, errors = program("report.py", folder)
        self.errors = errors
        return status, text

    def test_own_report(self):
        status, text = self.report(self.native)
        self.assertEqual(status, 0, text)
        self.assertIn("getlk_unlocked -19", text.splitlines()[0])
        self.assertRegex(text, r"162 ±1\.5%")
        data = json.loads((self.native / "report.json").read_text())
        self.assertEqual((data["unit"], data["bench"]), ("ns", []))
        self.assertEqual({row["op"] for row in data["native"]}, {"floor", "getlk_unlocked", "setlk_pair"})

    def test_best_of_the_samples(self):
        for run in self.native.glob("*-?"):
            log = run / "verdict.log"
            log.write_text("".join(
                line.replace("\t2000\t", "\t2000\t1.0\t", 1).rsplit("\t", 1)[0] + "\n"
                if line.startswith("| setlk_pair") else line
                for line in log.read_text().splitlines(keepends=True)))
        self.report(self.native)
        data = json.loads((self.native / "report.json").read_text())
        row = next(row for row in data["native"] if row["op"] == "setlk_pair")
        self.assertEqual(row["values"], {"base": 1.0, "patched": 1.0})

    def test_slower_is_found(self):
        for n in range(1, 6):
            log = self.native / ("patched-%d" % n) / "verdict.log"
            log.write_text(log.read_text().replace("| floor\t0\t1\t7\t2000\t82", "| floor\t0\t1\t7\t2000\t92")
                           .replace("\t82.", "\t92.").replace("\t81.83\t81.83\t81.83", "\t91.83\t91.83\t91.83"))
        status, text = self.report(self.native)
        self.assertEqual(status, 1, text)
        self.assertIn("native floor on patched", text)

    def test_lost_run(self):
        log = self.native / "patched-3/verdict.log"
        log.write_text(log.read_text().replace("filelock-end 1 1\n", ""))
        status, text = self.report(self.native)
        self.assertEqual(status, 2)
        self.assertIn("patched-3 LOST", text.splitlines()[0])

    def test_four_runs_are_not_enough(self):
        for side in ("base", "patched"):
            shutil.rmtree(self.native / (side + "-5"))
        status, text = self.report(self.native)
        self.assertEqual(status, 2)
        self.assertIn("native needs 5 boots a side", text.splitlines()[0])

    def test_table_beside_compare(self):
        _, text = self.report(self.compared)
        self.assertIn("Nanoseconds per operation", text)
        data = json.loads((self.compared / "report.json").read_text())
        self.assertEqual(len(data["native"]), 3)
        self.assertEqual(data["unit"], "instructions")

    def test_another_series_is_left_out(self):
        for n in range(1, 6):
            run = self.native / ("patched-%d" % n) / "run"
            run.write_text(run.read_text().replace("series: 7.3", "series: 7.3-other", 1))
        _, text = self.report(self.compared)
        self.assertNotIn("Nanoseconds per operation", text)
        self.assertIn("native was left out: another series", self.errors)

    def test_lost_native_is_left_out(self):
        (self.native / "base-2/verdict.log").write_text("")
        _, text = self.report(self.compared)
        self.assertNotIn("Nanoseconds per operation", text)
        self.assertIn("native was left out: base-2 LOST", self.errors)


if __name__ == "__main__":
    unittest.main()
