# SPDX-License-Identifier: GPL-2.0
"""report.txt: one sentence, then tables in at most 100 columns, ready for a mail."""
import statistics
import textwrap

from comparison import UNPROVEN, change

WIDTH = 100
HEADLINE = ("getlk_unlocked", "setlk_pair")
LOCKOFD = ("lockofd is two jobs: until stress-ng 0.18 its loop asks (F_OFD_GETLK), from 0.19 it"
           " locks (F_OFD_SETLK) among all the locks it already holds.")
INSTRUCTIONS = ("Counts are not time: under -icount one guest instruction is 1 ns of virtual time,"
                " the same on every host and blind to caches and to the cost of entering the"
                " kernel. A rep string instruction counts once per iteration. No claim about wall"
                " clock time follows.")
OVER_FLOOR = ("over floor: the change of what is left after one floor (F_GETFD) is subtracted for"
              " each call an operation makes, two for a pair.")
CLOSE_LOCKED = ("close_locked: open, F_SETLK and close, minus open and close of that file; counted as"
                " one call.")
RULES = {
    "tcg-icount": "a change counts when the ranges of all boots are apart and the medians differ"
                  " by more than 1 %",
    "kvm": "a change counts when ministat(1) proves it at 95 % over boots",
    "native": "a change counts when ministat(1) proves it at 95 % over runs"}
NATIVE = ("This table is time: fs/locks.c in a user-mode Linux without SMP on %s, without system"
          " call and locked instructions, the best of 25 samples a run, the median of %d runs;"
          " ± is their standard deviation. \"fix\" is the first patch alone.")


def wrap(text, label="  "):
    return textwrap.fill(text, WIDTH, initial_indent=label, break_on_hyphens=False,
                         subsequent_indent=" " * len(label))


def percent(number):
    return "-" if number is None else "%+.1f%%" % number


def value(number):
    return "%.0f" % number if number >= 100 else "%.1f" % number


def spread(numbers, accel):
    """The relative standard deviation: of time always, else worth showing only above 2 %."""
    sd = statistics.stdev(numbers) / statistics.fmean(numbers) * 100 if len(numbers) > 1 else 0
    if accel == "native":
        return " ±%.1f%%" % sd
    return " ±%.0f%%" % sd if sd > 2 else ""


def render(heads, rows):
    """Columns of text, aligned to the right; the last one names the row, to the left."""
    widths = [max(map(len, column)) for column in zip(heads, *rows)]
    lines = [heads, ["-" * width for width in widths]] + rows
    widths[-1] = 0
    return ["  ".join("%*s" % pair for pair in zip(widths, line)) for line in lines]


# --- the sentence

def headline_ops(data, side):
    """The two operations that stand for the series, or those that changed most."""
    moved = [row for row in data["bench"] or data["native"] if row["verdict"].get(side, UNPROVEN) != UNPROVEN]
    moved.sort(key=lambda row: (row["op"] not in HEADLINE, -abs(row["change_pct"][side])))
    return ["%s %+.1f %%" % (row["op"], row["change_pct"][side]) for row in moved[:2]]


def side_clause(data, side):
    parts = headline_ops(data, side)
    rows = data["bench"] or data["native"]
    if rows and not parts:
        parts = ["%s in %d operations" % (UNPROVEN, len(rows))]
    for row in data["stress"]:
        proven = row["verdict"].get(side, UNPROVEN) != UNPROVEN
        parts.append("stress-ng %s %s %s" % (row["stress_ng"], row["job"], "%+.1f %%"
                     % row["change_pct"][side] if proven else UNPROVEN))
    return "%s against base: %s" % (side, ", ".join(parts) or "nothing measured")


def sentence(comparison, data, slower):
    if comparison.missing:
        more = len(comparison.missing) - 1
        return "INCOMPLETE, proves nothing: %s%s." % (
            comparison.missing[0], "; and %d more" % more if more else "")
    clauses = [side_clause(data, side) for side in comparison.others]
    clauses.append("selftests " + ", ".join(
        "%s %d pass %d fail" % (side, data["selftests"][side]["pass"],
                                data["selftests"][side]["fail"]) for side in comparison.sides))
    clauses += ["%s fails on %s" % (test, side) for side in comparison.sides
                for test in comparison.failures(side) if not comparison.is_selftest(test)]
    bad = ["%s on %s %+.1f %%%s" % (cost.name, cost.side, cost.pct, " (known cost)"
           if cost.allowed else "") for cost in slower]
    clauses.append("slower: " + ", ".join(bad) if bad else "nothing slower")
    return "; ".join(clauses) + "."


# --- the tables

def is_news(test, words, suite_words):
    """Worth a row: failed, or differs other than by its whole program being new."""
    if "fail" in words:
        return True
    new_program = ": " in test and words.count("absent") == suite_words.count("absent") > 0
    ran = set(words) - {"lost", "absent"} if new_program else set(words) - {"lost"}
    return len(ran) > 1


def tests_text(comparison):
    rows, reasons = [], []
    for test in comparison.tests():
        cells = [comparison.result(side, test) for side in comparison.sides]
        suite = [comparison.result(side, test.partition(": ")[0])[0] for side in comparison.sides]
        if is_news(test, [word for word, _, _ in cells], suite):
            rows.append(["fail %d:%d" % (times, len(comparison.boots(side))) if word == "fail"
                         else word for side, (word, times, _) in zip(comparison.sides, cells)]
                        + [test])
            reasons += ["%s on %s: %s" % (test, side, reason) for side, (word, _, reason)
                        in zip(comparison.sides, cells) if word in ("fail", "skip") and reason]
    if not rows:
        return ["no test fails, none differs"]
    rows.sort(key=lambda row: not any(cell.startswith("fail") for cell in row[:-1]))
    lines = render(comparison.sides + ["test (fail n:m = in n of m boots)"], rows)
    return [line[:WIDTH] for line in lines] + [wrap(reason) for reason in reasons]


def name_of(row):
    if "job" in row:
        return "%s %s, %s" % (row["job"], row["stress_ng"], row["kind"])
    return "%(op)s, %(locks)d held" % row if "locks" in row else row["op"]


def key_of(row):
    if "job" in row:
        return "stress", row["job"], row["stress_ng"]
    return ("scaling", row["op"], row["locks"]) if "locks" in row else ("bench", row["op"], 0)


def side_cells(row, side, costs, single):
    base, other = row["values"].get("base"), row["values"].get(side)
    verdict = row.get("verdict", {}).get(side, "")
    mark = "~" if verdict == UNPROVEN and not single else ""
    cells = [mark + percent(change(base, other) if base and other else None), costs[side]]
    if "over_floor_change_pct" in row:
        cells.append(percent(row["over_floor_change_pct"].get(side)))
    return cells + [verdict] if single and "verdict" in row else cells


def number_lines(comparison, rows, sides, single):
    """One table: base, then per side its change, value, over floor; ~ or a word as verdict."""
    heads = ["base"]
    for side in sides:
        heads += ["change", side] + ["over floor"] * ("over_floor_change_pct" in rows[0])
        heads += ["verdict"] * (single and "verdict" in rows[0])
    lines = []
    for row in rows:
        samples = comparison.samples[key_of(row)]
        costs = {side: value(row["values"][side]) + spread(samples[side], comparison.accel)
                 if side in samples else "-" for side in comparison.sides}
        lines.append([costs["base"]])
        for side in sides:
            lines[-1] += side_cells(row, side, costs, single)
        lines[-1].append(name_of(row))
    return render(heads + ["stress-ng job" if "job" in rows[0] else "operation"], lines)


def number_text(comparison, title, rows):
    """As many sides beside each other as fit."""
    others = comparison.others
    for size in range(len(others), 0, -1):
        groups = [others[at:at + size] for at in range(0, len(others), size)]
        tables = [number_lines(comparison, rows, group, size == 1) for group in groups]
        if max(len(line) for table in tables for line in table) <= WIDTH:
            break
    if size > 1:
        title += "; ~ = " + UNPROVEN
    return ["", title] + [line for table in tables for line in [""] + table]


def provenance(comparison, data):
    config = {side["name"]: side["config"][:12] for side in data["sides"]}
    same = len(set(config.values())) == 1
    facts = [
        ("kernel", "%(package)s %(version)s" % data["source"]),
        ("sides", "; ".join("%(name)s: series %(series)s" % side for side in data["sides"])),
        ("compiler", data["compiler"]),
        ("qemu", "%s, cpu %s" % (data["qemu"], comparison.first.get("cpu", ""))),
        ("accel", "%s: %s" % (data["accel"], data["accel_note"])),
        ("config", next(iter(config.values())) + " on every side" if same else
         "; ".join("%s %s" % pair for pair in config.items()) + " (they differ)"),
        ("boots", ", ".join("%s %d" % (side, len(comparison.boots(side)))
                            for side in comparison.sides)),
        ("verdicts", RULES.get(data["accel"], "no numbers with this accelerator"))]
    return ["", "Made from"] + [wrap(text, "  %-9s " % label) for label, text in facts]


def native_text(native, data):
    rows = data["native"]
    return number_text(native, "Nanoseconds per operation, less is better", rows) + [
        wrap(NATIVE % (native.first.get("cpu", ""), min(row["n"] for row in rows)))]


def text_of(comparison, data, slower, native=None):
    unit, lines = data["unit"], [sentence(comparison, data, slower), ""]
    if comparison.missing:
        lines += ["Incomplete"] + [wrap(text) for text in comparison.missing] + [""]
    lines += ["Tests that fail or differ"] + tests_text(comparison)
    problems = [(run.path.name, text) for run in comparison.verdicts for text in run.problems
                if not text.startswith("fail")]
    if problems:
        lines += ["", "Skips that are not as listed"] + [wrap("%s: %s" % p) for p in problems]
    if slower:
        lines += ["", "Slower than base"] + [wrap(
            "%s on %s %+.1f %%: %s, %s" % (cost.name, cost.side, cost.pct, "allowed"
            if cost.allowed else "NOT ALLOWED", cost.remark)) for cost in slower]
    if data["bench"]:
        lines += number_text(comparison, "%s per operation, less is better"
                             % unit.capitalize().replace("Ns", "ns"), data["bench"])
        lines += [wrap(OVER_FLOOR), wrap(CLOSE_LOCKED)]
    if data["stress"]:
        lines += number_text(comparison, "Operations per %ssecond, more is better"
                             % ("virtual " if unit == "instructions" else ""), data["stress"])
        lines += [wrap(LOCKOFD)]
    if data["scaling"]:
        lines += number_text(comparison, "%s per operation by locks held, less is better"
                             % unit.capitalize().replace("Ns", "ns"), data["scaling"])
    if data["native"]:
        lines += native_text(native or comparison, data)
    lines += provenance(comparison, data)
    if unit == "instructions":
        lines += ["", wrap(INSTRUCTIONS, "")]
    return "\n".join(lines) + "\n"
