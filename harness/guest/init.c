// SPDX-License-Identifier: GPL-2.0
/*
 * init.c - PID 1 of the file lock test guest: runs the programs of /job one after the
 * other and tells the host, over a virtio port, what they printed and how they ended.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/reboot.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT		"/dev/vport0p1"
#define DISK		"/dev/ram0"
#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
#define SHELL_SCRIPT	"/bin/busybox --install -s /bin; setsid -c sh; poweroff -f"
/* Only the kernel's own records (facility 0), and not every word that ends in "BUG:". */
#define COMPLAINT	"^[0-7],[^;]*;(WARNING:|Oops|(.*\\W)?(BUG:|UBSAN:|kernel BUG at|\\[#1\\]|" \
			"hard LOCKUP|INFO: (task|rcu|trying)|possible (circular|recursive) lock|" \
			"inconsistent lock state|suspicious RCU usage|Call Trace:))"
#define say(fmt, ...)	must(fprintf(port, fmt, ##__VA_ARGS__) < 0 ? -1 : fflush(port), PORT)

enum { PORT_TRIES = 250, PORT_WAIT_MS = 20, LINGER_MS = 5000, LEAK_SCANS = 3, LEAK_AGE_MS = 6000 };
enum { MAX_PROGRAMS = 64, MAX_TEXT = 65536, MAX_OUTPUT = 1 << 20, MAX_SPLATS = 20 };
enum { KIND, NAME, LIMIT, ARGV, MAX_FIELDS = 64 };
static char * const environment[] = { "PATH=/bin:/tests", "TMPDIR=/tmp", NULL };
static char *job[MAX_PROGRAMS + 1][MAX_FIELDS];
static int nr_programs;
static FILE *port;
static struct {
	int pidfd, output, bytes, mid_line;
	siginfo_t status;
} run;

static void power_off(void)
{
	if (port)
		fclose(port);
	/* A kernel that cannot power off would halt; QEMU ends on a restart as well. */
	reboot(access("/sys/firmware/acpi", F_OK) ? RB_AUTOBOOT : RB_POWER_OFF);
}

static long must(long ret, const char *what)
{
	if (ret >= 0)
		return ret;
	dprintf(STDERR_FILENO, "filelock-init: %s: %m\n", what);
	if (getpid() != 1)
		_exit(127);
	if (port)
		fprintf(port, "%serror %s: %m\n", run.mid_line ? "\n" : "", what);
	power_off();
	_exit(1);
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static char *text_of(const char *path)
{
	char *text = calloc(1, MAX_TEXT);
	int fd = must(open(path, O_RDONLY | O_CLOEXEC), path);

	must(read(fd, text, MAX_TEXT - 1), path);
	close(fd);
	return text;
}

static void mount_filesystems(void)
{
	static const char * const table[][2] = {
		{ "proc", "/proc" }, { "sysfs", "/sys" }, { "devtmpfs", "/dev" },
		{ "tmpfs", "/dev/shm" }, { "tmpfs", "/tmp" }, { "cgroup2", "/sys/fs/cgroup" },
		{ "tracefs", "/sys/kernel/tracing" }, { "debugfs", "/sys/kernel/debug" },
	};
	size_t i;

	must(getpid() == 1 ? 0 : -1, "not PID 1");
	for (i = 0; i < sizeof(table) / sizeof(*table); i++) {
		mkdir(table[i][1], 0755);
		mount(table[i][0], table[i][1], table[i][0], 0, NULL);
	}
}

/* What the image has for a disk is a filesystem for the temporary files of the tests. */
static void mount_disk(void)
{
	int disk, image = open("/disk.img", O_RDONLY | O_CLOEXEC);

	if (image < 0)
		return;
	disk = must(open(DISK, O_WRONLY | O_CLOEXEC), DISK);
	while (must(sendfile(disk, image, NULL, MAX_OUTPUT), DISK))
		;
	close(disk);
	must(mount(DISK, "/tmp", "ext4", 0, NULL), DISK);
}

/* The first memory cgroup makes slab calls dearer: let that be before any program. */
static void make_memory_cgroup(void)
{
	int control = open("/sys/fs/cgroup/cgroup.subtree_control", O_WRONLY | O_CLOEXEC);

	if (write(control, "+memory", 7) == 7)
		must(mkdir("/sys/fs/cgroup/filelock", 0755), "memory cgroup");
	close(control);
}

static void give_shell_if_asked(void)
{
	if (strstr(text_of("/proc/cmdline"), "filelock.shell"))
		must(execle("/bin/busybox", "sh", "-c", SHELL_SCRIPT, NULL, environment), "shell");
}

/* poll() stands for sleep(), which fails in an i386 kernel without 32-bit time calls. */
static void open_verdict_port(void)
{
	int tries = PORT_TRIES;

	while (!(port = fopen(PORT, "r+e")) && tries--)
		poll(NULL, 0, PORT_WAIT_MS);
	must(port ? 0 : -1, PORT);
}

static void leave_if_probed(void)
{
	if (!strstr(text_of("/proc/cmdline"), "filelock.probe"))
		return;
	say("filelock-guest 1\n");
	power_off();
}

static void read_job(void)
{
	char *line, *rest = text_of("/job"), **field;
	int n;

	while ((line = strsep(&rest, "\n"))) {
		if (!*line || *line == '#')
			continue;
		field = job[nr_programs++];
		for (n = 0; n < MAX_FIELDS && (field[n] = strtok(n ? NULL : line, " ")); n++)
			;
		errno = EINVAL;
		must(nr_programs <= MAX_PROGRAMS && n > ARGV && n < MAX_FIELDS ? 0 : -1, "/job");
	}
}

static void announce(void)
{
	struct utsname kernel;
	int i;

	must(uname(&kernel), "uname");
	say("filelock-guest 1\nkernel %s %s\nplan %d", kernel.release, kernel.machine, nr_programs);
	for (i = 0; i < nr_programs; i++)
		say(" %s", job[i][NAME]);
	say("\n");
}

static pid_t spawn(char * const *argv, int output)
{
	char dir[] = "/tmp/run-XXXXXX";
	pid_t pid = must(fork(), "fork");

	if (pid)
		return pid;
	must(setsid(), "setsid");
	must(dup2(must(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null"), 0), "dup2");
	must(dup2(output, 1) | dup2(output, 2), "dup2");
	must(mkdtemp(dir) ? chdir(dir) : -1, dir);
	return must(execve(argv[0], argv, environment), argv[0]);
}

static void relay_output(void)
{
	static unsigned char data[MAX_TEXT];
	ssize_t i, len = must(read(run.output, data, sizeof(data)), "read");

	for (i = 0; i < len && run.bytes++ < MAX_OUTPUT; i++) {
		if (!run.mid_line)
			fputs("| ", port);
		putc(isprint(data[i]) || data[i] == '\n' || data[i] == '\t' ? data[i] : '?', port);
		run.mid_line = data[i] != '\n';
	}
	must(fflush(port), PORT);
	if (!len)
		run.output = -1;
}

static void attend(int ms)
{
	struct pollfd event[] = { { run.output, POLLIN, 0 }, { run.pidfd, POLLIN, 0 } };

	must(poll(event, 2, ms), "poll");
	if (event[0].revents)
		relay_output();
	if (event[1].revents)
		waitid(P_PIDFD, run.pidfd, &run.status, WEXITED);
}

static void run_program(char **field)
{
	static const char * const how[] = { "timeout", [CLD_EXITED] = "exit",
		[CLD_KILLED] = "signal", [CLD_DUMPED] = "signal" };
	long long start = now_ms(), end = start + atoi(field[LIMIT]) * 1000LL, left;
	int fd[2];

	say("begin %s %s %s\n", field[KIND], field[NAME], field[LIMIT]);
	must(pipe2(fd, O_CLOEXEC), "pipe2");
	memset(&run, 0, sizeof(run));
	run.status.si_status = atoi(field[LIMIT]);
	run.pidfd = must(pidfd_open(spawn(&field[ARGV], fd[1]), 0), "pidfd_open");
	run.output = fd[0];
	close(fd[1]);
	while (!run.status.si_code && (left = end - now_ms()) > 0)
		attend(left);
	end = now_ms();
	close(run.pidfd);
	run.pidfd = -1;
	/* Nothing may outlive its program, not even a daemon in a session of its own. */
	kill(-1, SIGKILL);
	while ((waitpid(-1, NULL, WNOHANG) >= 0 || run.output >= 0) && now_ms() < end + LINGER_MS)
		attend(1);
	close(fd[0]);
	if (run.mid_line)
		fputs("\n", port);
	if (run.bytes > MAX_OUTPUT)
		fputs("| ...output cut\n", port);
	say("end %s %s %d %lld\n", field[NAME], how[run.status.si_code], run.status.si_status,
	    end - start);
}

static void run_programs(void)
{
	int i;

	for (i = 0; i < nr_programs; i++)
		run_program(job[i]);
}

static void check_kernel(void)
{
	int splats = 0, fd = must(open("/dev/kmsg", O_RDONLY | O_NONBLOCK), "/dev/kmsg");
	char record[MAX_TEXT];
	regex_t complaint;

	say("check taint %s", text_of("/proc/sys/kernel/tainted"));
	must(-regcomp(&complaint, COMPLAINT, REG_EXTENDED | REG_NOSUB), "regcomp");
	while (splats < MAX_SPLATS && read(fd, record, sizeof(record)) > 0) {
		record[strcspn(record, "\n")] = '\0';
		if (regexec(&complaint, record, 0, NULL, 0))
			continue;
		say("splat %s\n", strchr(record, ';') + 1);
		splats++;
	}
	must(splats == MAX_SPLATS || errno == EAGAIN ? 0 : -1, "/dev/kmsg");
	say("check splats %d\n", splats);
}

/* Three: the first only takes checksums, and a kernel may want two to agree on a leak. */
static void check_leaks(void)
{
	int scan, leaks = 0, fd = open(KMEMLEAK, O_RDWR | O_CLOEXEC);
	char *line, *rest;

	for (scan = 0; scan < LEAK_SCANS && write(fd, "scan", 4) == 4; scan++)
		poll(NULL, 0, LEAK_AGE_MS);
	if (scan < LEAK_SCANS) {
		say("check leaks skipped\n");
		return;
	}
	rest = text_of(KMEMLEAK);
	while ((line = strsep(&rest, "\n"))) {
		if (*line == 'u')
			say("%sleak %s", leaks++ ? "\n" : "", line);
		else if (strstr(line, "comm") || strstr(line, "+0x"))
			say("%s", line);
	}
	say(leaks ? "\ncheck leaks %d\n" : "check leaks none\n", leaks);
}

int main(void)
{
	mount_filesystems();
	mount_disk();
	make_memory_cgroup();
	give_shell_if_asked();
	open_verdict_port();
	leave_if_probed();
	read_job();
	announce();
	run_programs();
	check_kernel();
	check_leaks();
	say("filelock-end 1 %d\n", nr_programs);
	power_off();
}
