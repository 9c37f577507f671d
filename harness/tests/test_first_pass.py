# SPDX-License-Identifier: GPL-2.0
"""The table of which patch makes which test pass, compared with stored runs."""
import re
import unittest

from fixtures import HARNESS, RunCase, program

SUBJECTS = "one\ntwo\nthree\n"
OK = ("| ok 3 F_UNLCK test on locked file\n", "| not ok 3 F_UNLCK test on locked file\n")
TEST = "ofdlocks: F_UNLCK test on locked file"


class FirstPass(RunCase):
    def setUp(self):
        super().setUp()
        self.run_dir = self.copy("patched", 1)
        self.subjects = self.top / "subjects"
        self.subjects.write_text(SUBJECTS)

    def fails(self):
        log = self.run_dir / "verdict.log"
        log.write_text(re.sub(r"end ofdlocks exit 0", "end ofdlocks exit 1", log.read_text().replace(*OK)))

    def judged(self, table, number):
        path = self.top / "table"
        path.write_text(table)
        status, text, _ = program("first_pass.py", self.run_dir, self.subjects, number, path)
        return status, text

    def test_passes_as_without_a_line(self):
        self.assertEqual(self.judged("", 0)[0], 0)

    def test_passes_from_the_patch_on(self):
        self.assertEqual(self.judged(TEST + "\ttwo\twhy\n", 2)[0], 0)

    def test_passes_too_early(self):
        status, text = self.judged(TEST + "\ttwo\twhy\n", 1)
        self.assertEqual(status, 1)
        self.assertIn(TEST + ": pass, where the table says fail", text)

    def test_fails_before_the_patch(self):
        self.fails()
        self.assertEqual(self.judged("ofdlocks: F_UNLCK test on*\ttwo\twhy\n", 1)[0], 0)

    def test_fails_too_late(self):
        self.fails()
        status, text = self.judged(TEST + "\ttwo\twhy\n", 2)
        self.assertEqual(status, 1)
        self.assertIn(TEST + ": fail, where the table says pass", text)

    def test_line_for_a_whole_program(self):
        self.fails()
        self.assertEqual(self.judged("ofdlocks\tthree\twhy\n", 2)[0], 0)
        self.assertEqual(self.judged("ofdlocks\tthree\twhy\n", 3)[0], 1)

    def skips(self, test):
        log = self.run_dir / "verdict.log"
        log.write_text(log.read_text().replace("| ok 3 " + test + "\n", "| ok 3 " + test + " # SKIP no reason\n"))

    def test_unlisted_skip(self):
        self.skips("F_UNLCK test on locked file")
        status, text = self.judged("", 0)
        self.assertEqual(status, 1)
        self.assertIn("skip, where the table says pass", text)

    def test_listed_skip(self):
        log = self.run_dir / "verdict.log"
        log.write_text(log.read_text().replace("F_UNLCK test on locked file", "global.pid_namespaces").replace("ofdlocks", "getlk"))
        self.skips("global.pid_namespaces")
        self.assertEqual(self.judged("", 0)[0], 0)

    def test_no_such_test(self):
        status, text = self.judged("ofdlocks: gone\ttwo\twhy\n", 2)
        self.assertEqual(status, 2)
        self.assertIn("no such test: ofdlocks: gone", text)

    def test_no_such_patch(self):
        status, text = self.judged(TEST + "\tfour\twhy\n", 2)
        self.assertEqual(status, 2)
        self.assertIn("not one patch of the series: four", text)

    def test_two_lines_for_a_test(self):
        status, text = self.judged(TEST + "\ttwo\twhy\nofdlocks: F_UNLCK test*\ttwo\twhy\n", 2)
        self.assertEqual(status, 2)
        self.assertIn("more than one line", text)

    def test_lost_run(self):
        (self.run_dir / "verdict.log").write_text("filelock-guest 1\n")
        status, text = self.judged("", 0)
        self.assertEqual(status, 2)
        self.assertIn("LOST", text)

    def test_stored_table_names_patches_of_the_series(self):
        patches = sorted((HARNESS.parent / "patches/7.3").glob("*.patch"))
        subjects = [re.sub(r"\n[ \t]", " ", re.search(r"^Subject: \[PATCH [\d/]+\] (.*(?:\n[ \t].*)*)", p.read_text(), re.M)[1])
                    for p in patches]
        for line in (HARNESS / "first-pass").read_text().splitlines():
            if not line.startswith("#"):
                self.assertIn(line.split("\t")[1], subjects)


if __name__ == "__main__":
    unittest.main()
