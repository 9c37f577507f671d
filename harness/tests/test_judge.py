# SPDX-License-Identifier: GPL-2.0
"""What judge.py says of good, broken and lying runs."""
import shutil
import unittest

from fixtures import RUNS, RunCase, edit, program

import judge

OFDLOCKS_END = "end ofdlocks exit 0 12\n"
PLAN = "plan 5 ofdlocks bench scaling stress-0.15.06 stress-0.19.02"
LAST = "filelock-end 1 5\n"
STRESS = "lockofd         1540894      2.00      0.50      1.49    770447.08     774299.32"


class JudgeCase(RunCase):
    def judged(self, *changes, skips=None):
        return judge.judge(self.copy("patched", 1, *changes), self.skips_file(skips))

    def skips_file(self, text):
        if text is None:
            return None
        path = self.top / "skips"
        path.write_text(text)
        return path

    def assert_lost(self, verdict, *words):
        self.assertEqual(verdict.status(), 2)
        for word in words:
            self.assertIn(word, verdict.lost)

    def assert_fails(self, verdict, test, reason):
        self.assertEqual(verdict.lost, "")
        self.assertEqual(verdict.tests.get(test), ("fail", reason))
        self.assertEqual(verdict.status(), 1)


class StoredRuns(JudgeCase):
    def test_a_good_run_passes(self):
        verdict = judge.judge(RUNS / "good/patched-1")
        self.assertEqual(verdict.problems, [])
        self.assertEqual(verdict.status(), 0)
        self.assertEqual(set(verdict.tests.values()), {("pass", "")})
        self.assertIn("ofdlocks: set OFD read lock on first fd", verdict.tests)
        self.assertIn("kernel", verdict.tests)

    def test_four_planned_five_ran(self):
        self.assert_fails(judge.judge(RUNS / "good/base-1"), "ofdlocks",
                          "planned 4 tests, ran 5; exit 1")

    def test_truncated_log(self):
        self.assert_lost(judge.judge(RUNS / "truncated"), "ends before the end of bench",
                         "bench was running")

    def test_panic_is_quoted(self):
        self.assert_lost(judge.judge(RUNS / "panic"), "ofdlocks was running",
                         "Kernel panic - not syncing: Fatal exception")

    def test_complaint_before_the_panic_is_quoted(self):
        self.assert_lost(judge.judge(RUNS / "panic"), "ofdlocks was running; BUG: kernel NULL")

    def test_hang_names_the_limit(self):
        self.assert_lost(judge.judge(RUNS / "hang"), "ofdlocks was running",
                         "hung: host time limit after 90 s")

    def test_no_output_at_all(self):
        self.assert_lost(judge.judge(RUNS / "no-output"), "no output at all",
                         "hung: host time limit after 90 s")


class Protocol(JudgeCase):
    def test_empty_log(self):
        path = self.copy("patched")
        (path / "verdict.log").write_text("")
        self.assert_lost(judge.judge(path), "no output at all")

    def test_no_start_marker(self):
        self.assert_lost(self.judged(("filelock-guest 1\n", "")), "expected the start marker")

    def test_no_end_marker(self):
        self.assert_lost(self.judged((LAST, "")), "ends before the end marker")

    def test_end_marker_without_newline(self):
        self.assert_lost(self.judged((LAST, LAST.strip())), "cut off")

    def test_end_marker_with_wrong_count(self):
        self.assert_lost(self.judged((LAST, "filelock-end 1 4\n")), "says 4 programs, 5 ran")

    def test_data_after_the_end_marker(self):
        self.assert_lost(self.judged((LAST, LAST + "check taint 0\n")), "after the end marker")

    def test_planned_program_that_never_ran(self):
        self.assert_lost(self.judged((PLAN, PLAN.replace("plan 5", "plan 6") + " more")),
                         "more never ran")

    def test_program_outside_the_plan(self):
        self.assert_lost(self.judged((PLAN, "plan 4 ofdlocks bench scaling stress-0.15.06")),
                         "unplanned: begin stress stress-0.19.02")

    def test_plan_with_wrong_count(self):
        self.assert_lost(self.judged((PLAN, PLAN.replace("plan 5", "plan 4"))), "contradicts")

    def test_program_that_begins_twice(self):
        again = OFDLOCKS_END + "begin ktap ofdlocks 30\n" + OFDLOCKS_END
        self.assert_lost(self.judged((OFDLOCKS_END, again)), "ofdlocks began twice")

    def test_programs_out_of_order(self):
        swapped = PLAN.replace("bench scaling", "scaling bench")
        self.assert_lost(self.judged((PLAN, swapped)), "bench began where scaling was planned")

    def test_program_inside_another(self):
        self.assert_lost(self.judged((OFDLOCKS_END, "")), "expected the end of ofdlocks",
                         "ofdlocks was running")

    def test_end_of_another_program(self):
        self.assert_lost(self.judged((OFDLOCKS_END, "end bench exit 0 12\n")),
                         "expected the end of ofdlocks")

    def test_checks_out_of_order(self):
        self.assert_lost(self.judged(("check taint 0\ncheck splats 0\n",
                                      "check splats 0\ncheck taint 0\n")), "check of taint")

    def test_missing_leak_check(self):
        self.assert_lost(self.judged(("check leaks skipped\n", "")), "check of leaks")

    def test_unframed_line(self):
        self.assert_lost(self.judged((OFDLOCKS_END, "hello\n" + OFDLOCKS_END)), "found: hello")

    def test_invalid_bytes(self):
        self.assert_lost(self.judged(("| # opened fds", "| # \0opened fds")), "invalid byte 0x00")
        path = self.top / "patched-1/verdict.log"
        path.write_bytes(path.read_bytes().replace(b"\0", b"\xff"))
        self.assert_lost(judge.judge(path.parent), "invalid byte 0xff")

    def test_absurd_number_is_no_crash(self):
        self.assert_lost(self.judged(("check taint 0", "check taint " + "9" * 9999)),
                         "check of taint")

    def test_the_wrong_kernel_booted(self):
        self.assert_lost(self.judged(("kernel 7.3.4-patched", "kernel 7.3.4-base")),
                         "not the one of side patched")

    def test_program_output_cannot_imitate_the_protocol(self):
        fake = "| end ofdlocks exit 0 1\n| check taint 4\n| filelock-end 1 5\n"
        self.assertEqual(self.judged((OFDLOCKS_END, fake + OFDLOCKS_END)).status(), 0)

    def test_run_file_is_needed(self):
        path = self.copy("patched")
        edit(path / "run", ("qemu: ", "quemu: "))
        self.assert_lost(judge.judge(path), "run file lacks qemu")
        (path / "run").unlink()
        self.assert_lost(judge.judge(path), "unreadable")


class Ktap(JudgeCase):
    def ktap(self, output, end="exit 0", skips=None):
        """The verdict if ofdlocks had printed these lines."""
        path = self.copy("patched")
        text = (path / "verdict.log").read_text()
        before, rest = text.split("begin ktap ofdlocks 30\n")
        after = rest.partition(OFDLOCKS_END)[2]
        framed = "".join("| %s\n" % line for line in output)
        (path / "verdict.log").write_text(before + "begin ktap ofdlocks 30\n" + framed
                                          + "end ofdlocks %s 12\n" % end + after)
        return judge.judge(path, self.skips_file(skips))

    def assert_program(self, output, reason, end="exit 0"):
        self.assert_fails(self.ktap(output, end), "ofdlocks", reason)

    def test_harness_style_output(self):
        verdict = self.ktap(["TAP version 13", "1..2", "#  RUN           a.b ...",
                             "#            OK  a.b", "ok 1 a.b", "#  RUN           a.c ...",
                             "ok 2 - a.c #  remark", "# Totals: pass:2 fail:0"])
        self.assertEqual(verdict.status(), 0)
        self.assertIn("ofdlocks: a.b", verdict.tests)
        self.assertIn("ofdlocks: a.c", verdict.tests)

    def test_failed_test(self):
        verdict = self.ktap(["1..2", "ok 1 a", "not ok 2 b #  wrong owner"], "exit 1")
        self.assert_fails(verdict, "ofdlocks", "1 of 2 tests failed; exit 1")
        self.assert_fails(verdict, "ofdlocks: b", "wrong owner")

    def test_failed_test_and_exit_0(self):
        self.assert_program(["1..2", "ok 1 a", "not ok 2 b"], "1 of 2 tests failed")

    def test_no_plan(self):
        self.assert_program(["ok 1 a"], "no plan")

    def test_two_plans(self):
        self.assert_program(["1..1", "1..1", "ok 1 a"], "2 plans")

    def test_plan_after_results(self):
        self.assert_program(["ok 1 a", "1..1"], "plan after the first result")

    def test_fewer_than_planned(self):
        self.assert_program(["1..3", "ok 1 a"], "planned 3 tests, ran 1")

    def test_duplicate_test_name(self):
        self.assert_program(["1..2", "ok 1 a", "ok 2 a"], "test name used twice: a")

    def test_duplicate_test_number(self):
        self.assert_program(["1..2", "ok 1 a", "ok 1 b"], "test numbers repeat or leave the plan")

    def test_nothing_ran(self):
        self.assert_program(["1..0"], "nothing passed")

    def test_exit_status_of_a_program_whose_tests_pass(self):
        self.assert_program(["1..1", "ok 1 a"], "exit 1", "exit 1")

    def test_signal_and_timeout(self):
        self.assert_program(["1..1", "ok 1 a"], "killed by signal 11", "signal 11")

    def test_timeout(self):
        self.assert_program(["1..2", "ok 1 a"], "planned 2 tests, ran 1; timeout after 30 s",
                            "timeout 30")

    def test_bail_out(self):
        self.assert_program(["1..1", "ok 1 a", "Bail out! no memory"], "Bail out! no memory")

    def test_malformed_result(self):
        self.assert_program(["1..1", "ok 1 a", "not ok: b"], "malformed result: not ok: b")

    def test_failed_subtest_fails_its_parent(self):
        verdict = self.ktap(["1..1", "    1..1", "    not ok 1 inner", "ok 1 outer"])
        self.assert_fails(verdict, "ofdlocks: outer", "a subtest failed")

    def test_failed_subtest_without_a_parent(self):
        self.assert_program(["1..1", "ok 1 outer", "    not ok 1 inner"],
                            "a failed subtest belongs to no test")

    def test_passed_subtests_do_not_count(self):
        self.assertEqual(self.ktap(["1..1", "    1..2", "    ok 1 x", "    ok 2 y",
                                    "ok 1 outer"]).status(), 0)

    def test_expected_failure_passes(self):
        verdict = self.ktap(["1..2", "ok 1 a", "ok 2 # XFAIL b"], skips="")
        self.assertEqual(verdict.tests["ofdlocks: b"][0], "pass")
        self.assertEqual(verdict.status(), 0)

    def test_unlisted_skip(self):
        verdict = self.ktap(["1..2", "ok 1 a", "ok 2 b # SKIP no memcg"])
        self.assertEqual(verdict.tests["ofdlocks: b"], ("skip", "no memcg"))
        self.assertEqual(verdict.problems, ["unlisted skip: ofdlocks: b (no memcg)"])
        self.assertEqual(verdict.status(), 1)

    def test_listed_skip(self):
        verdict = self.ktap(["1..2", "ok 1 a", "ok 2 # SKIP b"],
                            skips="# why\nofdlocks: b\tno memcg here\n")
        self.assertEqual(verdict.tests["ofdlocks: b"][0], "skip")
        self.assertEqual(verdict.status(), 0)

    def test_listed_skip_that_ran(self):
        verdict = self.ktap(["1..1", "ok 1 b"], skips="ofdlocks: b\tno memcg here\n")
        self.assertEqual(verdict.problems, ["listed as skip but ran: ofdlocks: b"])
        self.assertEqual(verdict.status(), 1)

    def test_all_skip_program(self):
        for output, end in ((["1..0 # SKIP not root"], "exit 4"),
                            (["1..0 # SKIP not root"], "exit 0"),
                            (["1..3", "ok 2 # SKIP not root"], "exit 4"),
                            (["1..1", "ok 1 a # SKIP not root"], "exit 0")):
            with self.subTest(output=output, end=end):
                verdict = self.ktap(output, end)
                self.assertEqual(verdict.tests["ofdlocks"], ("skip", "not root"))
                self.assertEqual(verdict.status(), 1)
                verdict = judge.judge(verdict.path, self.skips_file("ofdlocks\tnot root\n"))
                self.assertEqual(verdict.status(), 0)
                shutil.rmtree(verdict.path)

    def test_all_skip_with_a_wrong_plan_is_no_skip(self):
        self.assert_program(["1..3", "ok 1 a # SKIP x"], "planned 3 tests, ran 1; nothing passed")

    def test_exit_4_hides_no_failure(self):
        self.assert_program(["1..2", "not ok 1 a"], "1 of 1 tests failed; nothing passed; exit 4",
                            "exit 4")


class Numbers(JudgeCase):
    def test_bench_cut_off(self):
        self.assert_fails(self.judged(("1730.00\t1731.25\n| lock_bench\tend", "1730.00\t1731.25")),
                          "bench", "output cut off: no lock_bench end")

    def test_bench_without_header(self):
        self.assert_fails(self.judged(("begin bench bench 120\n| lock_bench\t1\n",
                                       "begin bench bench 120\n")), "bench", "no lock_bench header")

    def test_bench_with_nan(self):
        self.assert_fails(self.judged(("1729.50\t1730.00", "1729.50\tnan")), "bench",
                          "not a row of numbers: close_locked\t0\t2\t7\t2000\t1729.50\tnan\t1731.25")

    def test_bench_with_median_outside_the_range(self):
        self.assert_fails(self.judged(("1729.50\t1730.00", "1729.50\t1.00")), "bench",
                          "impossible numbers for close_locked")

    def test_bench_operation_twice(self):
        self.assert_fails(self.judged(("| flock_pair", "| floor")), "bench",
                          "an operation is listed twice")

    def test_bench_exit_status(self):
        self.assert_fails(self.judged(("end bench exit 0", "end bench exit 1")), "bench", "exit 1")

    def test_bench_killed(self):
        self.assert_fails(self.judged(("end bench exit 0", "end bench signal 0")), "bench",
                          "killed by signal 0")

    def test_stress_with_0_operations(self):
        self.assert_fails(self.judged((STRESS, STRESS.replace("1540894", "      0"))),
                          "stress-0.15.06", "lockofd did 0 operations")

    def test_stress_without_metrics(self):
        self.assert_fails(self.judged((STRESS, "skipped")), "stress-0.15.06",
                          "no metrics line: 0 operations")


class Kernel(JudgeCase):
    def test_taint(self):
        self.assert_fails(self.judged(("check taint 0", "check taint 512")), "kernel", "taint 512")

    def test_splat(self):
        self.assert_fails(self.judged(("check splats 0", "splat WARNING: fs/locks.c:1\n"
                                       "check splats 1")), "kernel", "WARNING: fs/locks.c:1")

    def test_splats_that_do_not_add_up(self):
        self.assert_lost(self.judged(("check splats 0", "check splats 2")), "says 2, but 0 listed")

    def test_leak(self):
        self.assert_fails(self.judged(("check leaks skipped", "leak unreferenced object\n"
                                       "check leaks 1")), "kernel", "leak: unreferenced object")

    def test_panic_after_the_end_marker(self):
        path = self.copy("patched")
        edit(path / "console.log", ("reboot: Power down", "Kernel panic - not syncing: late"))
        self.assert_fails(judge.judge(path), "kernel", "Kernel panic - not syncing: late")

    def test_debug_kernel_must_look_for_leaks(self):
        path = self.copy("patched")
        edit(path / "run", ("lane: perf", "lane: debug"))
        self.assertEqual(judge.judge(path).problems,
                         ["unlisted skip: kernel: leaks (no leak check in a debug kernel)"])


class Program(JudgeCase):
    def test_status_is_the_worst_of_all_runs(self):
        for names, status in ((["good/patched-1"], 0), (["good/patched-1", "good/base-1"], 1),
                              (["panic", "good/base-1", "good/patched-1"], 2)):
            with self.subTest(runs=names):
                self.assertEqual(program("judge.py", *(RUNS / n for n in names))[0], status)

    def test_text(self):
        _, text, _ = program("judge.py", RUNS / "good/base-1", RUNS / "hang")
        self.assertIn("FAIL (10 pass, 1 fail, 0 skip)\n  fail: ofdlocks (planned 4", text)
        self.assertIn("hang: LOST: ", text)

    def test_bad_usage_is_one_line(self):
        bad = self.top / "bad"
        bad.write_text("no tab\n")
        for arguments in ((), ("--no-such",), (RUNS / "panic", RUNS / "good/base-1",
                                               "--skips", bad)):
            status, out, err = program("judge.py", *arguments)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1))

    def test_missing_directory(self):
        status, text, _ = program("judge.py", self.top / "nowhere")
        self.assertEqual(status, 2)
        self.assertIn("LOST: unreadable", text)

    def test_help(self):
        status, text, _ = program("judge.py", "--help")
        self.assertEqual(status, 0)
        self.assertIn("Exit status", text)


if __name__ == "__main__":
    unittest.main()
