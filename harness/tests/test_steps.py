# SPDX-License-Identifier: GPL-2.0
"""Bad input and interruptions: one clear line, status 2, nothing left behind."""

import os
import signal
import subprocess
import tempfile
import time
import unittest

TESTS = os.path.dirname(os.path.abspath(__file__))
HARNESS = os.path.dirname(TESTS)
GCC = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()


def interruptible():
    """A shell cannot trap what was ignored when it started, as in a job in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Step(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.cache = os.path.join(self.tmp.name, "cache")
        self.stubs = os.path.join(self.tmp.name, "stubs")
        os.mkdir(self.stubs)

    def stub(self, name, script):
        """A program of the machine that behaves badly."""
        path = os.path.join(self.stubs, name)
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)

    def write(self, path, text=""):
        path = os.path.join(self.tmp.name, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def environment(self, **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith("FILELOCK_")}
        env.update(FILELOCK_CACHE=self.cache, PATH=self.stubs + ":" + os.environ["PATH"])
        env.update(variables)
        return env

    def run_step(self, *argv, **variables):
        return subprocess.run([os.path.join(HARNESS, argv[0]), *argv[1:]], env=self.environment(**variables),
                              capture_output=True, text=True, timeout=120, check=False)

    def refused(self, *argv, says, **variables):
        """The step ends with 2 and one error line that says what is wrong."""
        done = self.run_step(*argv, **variables)
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertRegex(errors[0], says)


class Words(Step):
    def test_unknown_arch(self):
        self.refused("build", "base", ARCH="vax", says="unknown ARCH=vax; known: i386 x86_64")

    def test_unknown_lane(self):
        self.refused("build", "base", LANE="fast", says="unknown LANE=fast; known: ")

    def test_unknown_accelerator(self):
        self.refused("compare", ACCEL="xen", says="unknown ACCEL=xen; known: kvm tcg")

    def test_unknown_side(self):
        self.refused("shell", "left", says="unknown SIDE=left; known: base patched")

    def test_help_everywhere(self):
        for step in ("fetch", "tree", "build", "image", "boot", "accel", "need", "compare", "check", "shell", "publish"):
            done = self.run_step(step, "--help")
            self.assertEqual(done.returncode, 0, step)
            self.assertIn("usage: " + step, done.stdout)


class Machine(Step):
    def test_not_root_is_shown_the_command(self):
        self.stub("id", "echo 1000\n")
        self.refused("need", "compare", QEMU="/nonexistent/qemu",
                     says="not root.*sudo apt-get install --no-install-recommends qemu-system-x86")

    def test_missing_compiler(self):
        self.stub("id", "echo 1000\n")
        self.stub("gcc", "exit 127\n")
        os.chmod(os.path.join(self.stubs, "gcc"), 0o644)
        paths = [p for p in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(p, "i686-linux-gnu-gcc"))]
        self.write("cache/7.3/complete")
        if "/usr/bin" in paths:
            self.skipTest("the cross compiler is not installed here, so nothing to hide")
        for tool in ("dirname", "sed", "mkdir", "flock", "cat"):
            os.symlink(os.path.join("/usr/bin", tool), os.path.join(self.stubs, tool))
        self.refused("build", "base", ARCH="i386", PATH=self.stubs + ":" + ":".join(paths),
                     says="no compiler i686-linux-gnu-gcc .package gcc-i686-linux-gnu")

    def test_no_space(self):
        self.stub("df", "printf 'Filesystem 1M-blocks Used Available\\n/dev/x 100 93 7\\n'\n")
        self.stub("apt-get", "exit 0\n")
        self.stub("apt-cache", "exit 0\n")
        self.refused("fetch", "package", "linux-source-7.3", "sid", FILELOCK_MIRROR="http://127.0.0.1:1",
                     says="needs [0-9]+ MiB .* 7 MiB are free")

    def test_unwritable_cache(self):
        self.refused("build", "base", FILELOCK_CACHE="/proc/filelock", says="cannot make the cache folder")

    def test_second_run_waits_and_says_so(self):
        os.mkdir(self.cache)
        with subprocess.Popen(["flock", self.cache + "/lock", "sleep", "2"]):
            time.sleep(0.5)
            done = self.run_step("build", "base", ARCH="x86_64", LINUX="/nonexistent")
        self.assertIn("another run works in", done.stderr)
        self.assertEqual(done.returncode, 2)


class Archive(Step):
    def test_package_has_vanished(self):
        self.stub("apt-get", "exit 0\n")
        self.stub("apt-cache", "exit 100\n")
        self.refused("fetch", "package", "linux-source-7.3", "sid", FILELOCK_MIRROR="http://127.0.0.1:1",
                     says="linux-source-7.3 is no longer in the archive .looked in: sid.*LINUX=")

    def test_no_network_and_nothing_cached(self):
        self.stub("apt-get", "exit 100\n")
        self.refused("fetch", "package", "linux-source-7.3", "sid", FILELOCK_MIRROR="http://127.0.0.1:1",
                     says="no network or no such suite.*LINUX=")

    def test_cached_package_needs_no_network(self):
        self.stub("apt-get", "exit 100\n")
        deb = self.write("cache/packages/linux-source-7.3_1_all.deb")
        done = self.run_step("fetch", "package", "linux-source-7.3", "sid", FILELOCK_MIRROR="http://127.0.0.1:1")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, deb))

    def test_no_debian_archive(self):
        self.stub("apt-get", "exit 0\n")
        self.refused("fetch", "package", "linux-source-7.3", "sid", says="no Debian archive.*LINUX=.*FILELOCK_MIRROR=")

    def test_download_cut_then_repeated(self):
        self.stub("apt-cache", "exit 0\n")
        self.stub("apt-get", 'case "$*" in *download*) : >linux-source-7.3_1_all.deb.part; echo cut; exit 100 ;; esac\n')
        self.refused("fetch", "package", "linux-source-7.3", "sid", FILELOCK_MIRROR="http://127.0.0.1:1",
                     says="the download of linux-source-7.3 was cut short.*run the command again")
        self.assertFalse([f for f in os.listdir(self.cache + "/packages") if f.endswith(".deb")])
        self.stub("apt-get", 'case "$*" in *download*) : >linux-source-7.3_1_all.deb ;; esac\n')
        done = self.run_step("fetch", "package", "linux-source-7.3", "sid", FILELOCK_MIRROR="http://127.0.0.1:1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.cache + "/packages"), ["linux-source-7.3_1_all.deb"])


class OwnTree(Step):
    def kernel(self, locks):
        tree = os.path.join(self.tmp.name, "linux")
        self.write("linux/Kbuild")
        self.write("linux/Makefile", "VERSION = 7\nPATCHLEVEL = 3\n")
        self.write("linux/fs/locks.c", locks)
        for command in (["init", "-q"], ["add", "-A"],
                        ["-c", "user.name=t", "-c", "user.email=t", "commit", "-q", "-m", "t"]):
            subprocess.run(["git", "-C", tree, *command], check=True)
        return tree

    def test_not_a_kernel_tree(self):
        self.refused("tree", "sources", LINUX=self.tmp.name, says="LINUX=.* is not a kernel tree")

    def test_unknown_base(self):
        self.refused("tree", "sources", LINUX=self.kernel("x\n"), BASE="v9.9",
                     says="BASE=v9.9 is not a revision")

    def test_series_does_not_apply(self):
        self.stub("df", "printf 'Filesystem 1M-blocks Used Available\\n/dev/x 1 1 99999\\n'\n")
        tree = self.kernel("int nothing_like_it;\n")
        before = sorted(os.walk(tree))
        self.refused("tree", "sources", LINUX=tree,
                     says=r"0001-.*\.patch does not apply to this tree: fs/locks\.c:[0-9]+, Hunk #1")
        self.assertEqual(sorted(os.walk(tree)), before)


class Boot(Step):
    def setUp(self):
        super().setUp()
        objects = f"cache/7.3/base/o.perf-x86_64-gcc{GCC}/"
        self.write("cache/7.3/package", "linux-source-7.3\n")
        self.write("cache/7.3/version", "7.3.4-1\n")
        self.write(objects + ".config", "CONFIG_X=y\n")
        self.write(objects + "image.perf/provenance")
        self.initrd = self.write(objects + "image.perf/initrd")
        self.image = self.write(objects + "bzImage")
        self.run_dir = os.path.join(self.tmp.name, "base-1")
        self.qemu = os.path.join(TESTS, "standin-qemu")

    def boot(self, standin, **variables):
        return self.run_step("boot", self.run_dir, "base", "tcg-icount", self.image, self.initrd,
                             QEMU=self.qemu, STANDIN=standin, **variables)

    def stored(self, name):
        with open(os.path.join(self.run_dir, name), encoding="utf-8") as f:
            return f.read()

    def test_missing_qemu(self):
        self.refused("boot", self.run_dir, "base", "tcg-icount", self.image, self.initrd,
                     QEMU="/nonexistent/qemu", says="no /nonexistent/qemu .package qemu-system-x86")

    def test_command_and_provenance_are_stored(self):
        self.assertEqual(self.boot("silent").returncode, 0)
        self.assertIn("-icount shift=0", self.stored("command"))
        self.assertIn("version: 7.3.4-1\n", self.stored("run"))
        self.assertEqual(self.stored("status"), "exit 0\n")

    def test_hang_is_ended_by_the_limit(self):
        self.assertEqual(self.boot("hang", LIMIT="1").returncode, 0)
        self.assertEqual(self.stored("status"), "killed after 1 s\n")

    def test_interrupt_leaves_no_qemu(self):
        argv = [os.path.join(HARNESS, "boot"), self.run_dir, "base", "tcg-icount", self.image, self.initrd]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with subprocess.Popen(argv, env=self.environment(QEMU=self.qemu, STANDIN="hang", LIMIT="30"),
                                  preexec_fn=interruptible) as boot:
                qemu = self.wait_for_pid()
                boot.send_signal(number)
                boot.wait(timeout=20)
            self.assert_gone(qemu)

    def wait_for_pid(self):
        for _ in range(100):
            try:
                return int(self.stored("console.log"))
            except (OSError, ValueError):
                time.sleep(0.1)
        self.fail("the stand-in did not start")

    def assert_gone(self, pid):
        for _ in range(100):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                os.unlink(os.path.join(self.run_dir, "console.log"))
                return
            time.sleep(0.1)
        self.fail(f"process {pid} is still there")


if __name__ == "__main__":
    unittest.main()
