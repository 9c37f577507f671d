# SPDX-License-Identifier: GPL-2.0
"""The README and the cover letter show the numbers of published/report.json."""
import json
import re
import unittest

from fixtures import HARNESS

TOP = HARNESS.parent


class Published(unittest.TestCase):
    def setUp(self):
        data = json.loads((TOP / "published/report.json").read_text())
        self.values = {row["op"]: row["values"] for row in data["bench"]}
        self.values.update((row["stress_ng"], row["values"]) for row in data["stress"])
        self.compared = 0

    def compare(self, name, base, patched):
        expected = ["%.0f" % self.values[name][side] for side in ("base", "patched")]
        self.assertEqual([base, patched], expected, name)
        self.compared += 1

    def test_readme(self):
        text = (TOP / "README.md").read_text()
        for name, *numbers in re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \|", text, re.M):
            self.compare(name, *numbers)
        for name, *numbers in re.findall(r"^\| stress-ng ([\d.]+) .*? \| (\d+) \| (\d+) \|", text, re.M):
            self.compare(name, *numbers)
        self.assertGreaterEqual(self.compared, 8)
        self.assertNotRegex(text, "@[A-Z]+@")

    def test_cover_letter(self):
        text = (TOP / "patches/7.3/cover-letter.txt").read_text()
        for name, *numbers in re.findall(r"^  (\w+) +(\d+) +(\d+) +[-+]\d", text, re.M):
            self.compare(name, *numbers)
        for name, *numbers in re.findall(r"^  ([\d.]+) +F_OFD_\w+ +(\d+) +(\d+) ", text, re.M):
            self.compare(name, *numbers)
        self.assertGreaterEqual(self.compared, 8)


if __name__ == "__main__":
    unittest.main()
