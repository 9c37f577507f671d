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
        self.native = {row["op"]: row["values"] for row in data["native"]}
        self.compared = 0

    def shown(self, name, side):
        number = self.native[name][side]
        return round(number) if number >= 100 else round(number, 1)

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
        for name, *cells in re.findall(r"^\| `(\w+)` \| ([\d.]+) ±.*? \| ([\d.]+) ±.*? \| ([\d.]+) ±", text, re.M):
            self.assertEqual([float(cell) for cell in cells], [self.shown(name, side) for side in ("base", "fix", "patched")])
            self.compared += 1
        self.assertGreaterEqual(self.compared, 16)
        self.assertNotRegex(text, "@[A-Z]+@")

    def test_cover_letter(self):
        text = (TOP / "patches/7.3/cover-letter.txt").read_text()
        for name, *numbers in re.findall(r"^  (\w+) +(\d+) +(\d+) +[-+]\d", text, re.M):
            self.compare(name, *numbers)
        for name, *numbers in re.findall(r"^  ([\d.]+) +F_OFD_\w+ +(\d+) +(\d+) ", text, re.M):
            self.compare(name, *numbers)
        self.assertGreaterEqual(self.compared, 8)
        for name, *cells in re.findall(r"^  (\w+) +([\d.]+) ns +([\d.]+) ns ", text, re.M):
            self.assertEqual([float(cell) for cell in cells],
                             [round(self.native[name][side], 1) for side in ("base", "patched")])
            self.compared += 1
        self.assertGreaterEqual(self.compared, 14)


if __name__ == "__main__":
    unittest.main()
