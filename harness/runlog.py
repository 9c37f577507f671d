# SPDX-License-Identifier: GPL-2.0
"""Read a stored run: its description, and the guest's protocol in verdict.log.

The guest is not trusted: a record missing, repeated, out of order or contradicting another
raises Lost.  What programs printed is framed by "| " and is judge.py's to understand.
"""
import re
from typing import NamedTuple

RUN_KEYS = ("side boot arch lane accel accel-note qemu cpu package version series config"
            " compiler").split()
NUMBER = r"[0-9]{1,15}"
NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"


class Lost(Exception):
    """The run proves nothing; the text says why."""


class Program(NamedTuple):
    name: str
    kind: str
    output: list
    how: str
    number: int

    def ending(self):
        return {"exit": "exit %d", "signal": "killed by signal %d",
                "timeout": "timeout after %d s"}[self.how] % self.number

    def succeeded(self):
        return (self.how, self.number) == ("exit", 0)


class Guest(NamedTuple):
    """What the guest claims."""
    programs: list
    complaints: list
    leaks_checked: bool


class Log:
    """The lines of verdict.log, taken one by one in the only order the protocol allows."""

    def __init__(self, lines):
        self.lines, self.at, self.running = lines, 0, ""

    def peek(self):
        return self.lines[self.at] if self.at < len(self.lines) else None

    def take(self, pattern, what):
        line = self.peek()
        if line is None:
            raise Lost("log ends before the " + what)
        match = re.fullmatch(pattern, line)
        if not match:
            raise Lost("expected the %s, found: %s" % (what, line[:60]))
        self.at += 1
        return match

    def take_all(self, prefix):
        start = self.at
        while self.peek() is not None and self.peek().startswith(prefix):
            self.at += 1
        return [line[len(prefix):] for line in self.lines[start:self.at]]


def read_log(rundir):
    path = rundir / "verdict.log"
    data = path.read_bytes() if path.exists() else b""
    if not data:
        raise Lost("no output at all")
    bad = re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", data)
    if bad:
        raise Lost("invalid byte 0x%02x at offset %d" % (data[bad.start()], bad.start()))
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise Lost("invalid byte 0x%02x at offset %d" % (data[error.start], error.start))
    last = lines.pop()
    return Log(lines + ([last + " (cut off)"] if last else []))


def read_plan(log):
    count, names = log.take(r"plan (%s)((?: %s)+)" % (NUMBER, NAME), "plan").groups()
    plan = names.split()
    if int(count) != len(plan) or len(set(plan)) != len(plan) or "kernel" in plan:
        raise Lost("the plan contradicts itself: %s%s" % (count, names))
    return plan


def read_program(log, plan, index):
    name = plan[index]
    if re.match("check |filelock-end ", log.peek() or ""):
        raise Lost("planned program %s never ran" % name)
    begin = log.take(r"begin (ktap|bench|stress) (%s) %s" % (NAME, NUMBER), "begin of " + name)
    if begin[2] != name:
        raise Lost("%s began %s" % (begin[2], "twice" if begin[2] in plan[:index] else
                   "where %s was planned" % name))
    log.running = name
    output = log.take_all("| ")
    end = log.take(r"end %s (exit|signal|timeout) (%s) %s" % (re.escape(name), NUMBER, NUMBER),
                   "end of " + name)
    log.running = ""
    return Program(name, begin[1], output, end[1], int(end[2]))


def read_complaints(log, word, none):
    """Lines "<word> text" and then "check <word>s N", where `none` may stand for 0."""
    texts = log.take_all(word + " ")
    count = log.take(r"check %ss (%s|%s)" % (word, NUMBER, none), "check of %ss" % word)[1]
    if not re.fullmatch(str(len(texts)) if texts else none, count):
        raise Lost("check %ss says %s, but %d listed" % (word, count, len(texts)))
    return texts, count


def read_guest(log, side):
    """Everything in the log, from start marker to end marker, or Lost."""
    log.take("filelock-guest 1", "start marker")
    release = log.take(r"kernel (\S+) (\S+)", "kernel release")[1]
    if "-%s-" % side not in release + "-":
        raise Lost("kernel %s is not the one of side %s" % (release, side))
    plan = read_plan(log)
    programs = [read_program(log, plan, index) for index in range(len(plan))]
    if log.peek() and log.peek().startswith("begin "):
        raise Lost("began twice or unplanned: " + log.peek()[:60])
    taint = log.take("check taint (%s)" % NUMBER, "check of taint")[1]
    splats, _ = read_complaints(log, "splat", "0")
    leaks, leak_word = read_complaints(log, "leak", "none|skipped")
    count = log.take("filelock-end 1 (%s)" % NUMBER, "end marker")[1]
    if int(count) != len(programs):
        raise Lost("end marker says %s programs, %d ran" % (count, len(programs)))
    if log.peek() is not None:
        raise Lost("data after the end marker: " + log.peek()[:60])
    tainted = ["taint " + taint] if int(taint) else []
    complaints = tainted + splats + ["leak: " + text for text in leaks]
    return Guest(programs, complaints, leak_word != "skipped")


def read_run(rundir):
    try:
        pairs = [line.partition(": ")[::2] for line in (rundir / "run").read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise Lost("unreadable: %s" % error)
    run = {key.strip(): value.strip() for key, value in pairs}
    bad = [key for key in RUN_KEYS if not run.get(key)]
    if bad or len(run) != len(pairs):
        raise Lost("run file " + ("lacks " + ", ".join(bad) if bad else "repeats a key"))
    return run


def read_text(path):
    return path.read_text(errors="replace") if path.exists() else ""


def panic_line(rundir):
    match = re.search(r"Kernel panic[^\r\n]*", read_text(rundir / "console.log"))
    return match[0] if match else ""


def first_complaint(rundir):
    """What the kernel complained about first, which a panic or a hang only follows from."""
    match = re.search(r"^\[[^\n]*?\] ((?:WARNING|BUG|UBSAN|INFO|Oops|kernel BUG)\b[^\r\n]*)",
                      read_text(rundir / "console.log"), re.M)
    return match[1] if match else ""


def cause_of_loss(rundir):
    killed = re.match(r"killed after (%s) s" % NUMBER, read_text(rundir / "status"))
    end = panic_line(rundir) or (
        "hung: host time limit after %s s" % killed[1] if killed else
        "".join(("QEMU: " + line for line in read_text(rundir / "qemu.log").splitlines()[:1])))
    return "; ".join(filter(None, (first_complaint(rundir), end)))
