// SPDX-License-Identifier: GPL-2.0
/*
 * init.c - PID 1 of the file lock test guest
 *
 * Runs the programs of /job one after the other and tells the host, over the
 * virtio port "filelock.verdict", what they printed and how they ended.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT		"filelock.verdict"
#define PORTS_DIR	"/sys/class/virtio-ports/"
#define RUN_DIR		"/tmp/run"
#define MEMORY_CGROUP	"/sys/fs/cgroup/filelock"
#define KMEMLEAK	"/sys/kernel/debug/kmemleak"
#define SHELL_SCRIPT	"/bin/busybox --install -s /bin; " \
			"echo 'Programs: /tests. Leave: poweroff -f or Ctrl-D.'; exec sh"
#define BLANK		"[ \t]+"
#define NO_PROGRAM	"^[ \t]*(#.*)?$"
#define PROGRAM		"^[ \t]*(ktap|bench|stress)" BLANK "[[:alnum:]][[:alnum:]._+-]*" BLANK \
			"[1-9][0-9]{0,4}" BLANK "[^ \t#][[:print:]\t]*$"
#define KERNEL_RECORD	"^[0-7],[^;]*;"
#define COMPLAINT_HEAD	"WARNING:|Oops|general protection fault|divide error"
#define COMPLAINT_PART	"BUG:|KASAN:|UBSAN:|kernel BUG at|hard LOCKUP|INFO: (task|rcu|trying)|" \
			"possible (circular|recursive) locking|inconsistent lock state|" \
			"suspicious RCU usage|\\[#1\\]"
#define COMPLAINT	KERNEL_RECORD "(" COMPLAINT_HEAD "|(.*\\W)?(" COMPLAINT_PART "))"

#define say(fmt, ...)	must(fprintf(port, fmt, ##__VA_ARGS__) < 0 ? -1 : fflush(port), PORT)

enum { PORT_WAIT_MS = 5000, LINGER_MS = 5000, SLICE_MS = 1000, LEAK_SCANS = 3, LEAK_AGE_S = 6 };
enum { MAX_TEXT = 65536, MAX_PROGRAMS = 64, MAX_FIELDS = 64, MAX_SPLATS = 20 };
enum { MAX_LINE = 512, MAX_OUTPUT = 1 << 20 };
enum { KIND, NAME, LIMIT, ARGV };

static FILE *port;
static char *job[MAX_PROGRAMS][MAX_FIELDS + 1];
static int nr_programs;
static struct {
	pid_t pid;
	int status, output, exited;
	bool alive, leftovers;
	size_t bytes, column;
} run;

static noreturn void power_off(void)
{
	/* The driver's close() returns only when the host took what it was sent. */
	if (port)
		fclose(port);
	sync();
	/* A kernel that cannot power off would halt; QEMU ends on a restart as well. */
	reboot(access("/sys/firmware/acpi", F_OK) ? RB_AUTOBOOT : RB_POWER_OFF);
	_exit(1);
}

static long must(long ret, const char *what)
{
	if (ret >= 0)
		return ret;
	dprintf(STDERR_FILENO, "filelock-init: %s: %m\n", what);
	if (getpid() != 1)
		_exit(127);
	if (port)
		fprintf(port, "%serror %s: %m\n", run.column ? "\n" : "", what);
	power_off();
}

static long long now_ms(void)
{
	struct timespec ts;

	must(clock_gettime(CLOCK_MONOTONIC, &ts), "clock_gettime");
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static char *text_of(const char *path)
{
	static char text[MAX_TEXT];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[len < 0 ? 0 : len] = '\0';
	return text;
}

static bool matches(const char *text, const char *pattern)
{
	regex_t regex;
	bool match;

	must(-regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), pattern);
	match = !regexec(&regex, text, 0, NULL, 0);
	regfree(&regex);
	return match;
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
		const char *type = table[i][0], *dir = table[i][1];
		bool optional = !strncmp(dir, "/sys/", 5);

		mkdir(dir, 0755);
		must(mount(type, dir, type, 0, NULL) && !optional ? -1 : 0, dir);
	}
}

static void raise_limits(void)
{
	struct rlimit files = { 65536, 65536 };

	must(setrlimit(RLIMIT_NOFILE, &files), "RLIMIT_NOFILE");
}

/* The first memory cgroup makes slab calls dearer: let that be before any program. */
static void make_memory_cgroup(void)
{
	static const char * const control = "/sys/fs/cgroup/cgroup.subtree_control";
	int fd;

	if (!matches(text_of("/sys/fs/cgroup/cgroup.controllers"), "\\bmemory\\b"))
		return;
	fd = must(open(control, O_WRONLY), control);
	must(write(fd, "+memory", 7), control);
	close(fd);
	must(mkdir(MEMORY_CGROUP, 0755), MEMORY_CGROUP);
}

static void open_verdict_port(void)
{
	long long end = now_ms() + PORT_WAIT_MS;
	struct dirent **entry;
	char path[320];
	int n;

	while (!port) {
		for (n = scandir(PORTS_DIR, &entry, NULL, NULL); n-- > 0; free(entry[n])) {
			snprintf(path, sizeof(path), PORTS_DIR "%s/name", entry[n]->d_name);
			if (strcmp(text_of(path), PORT "\n"))
				continue;
			snprintf(path, sizeof(path), "/dev/%s", entry[n]->d_name);
			port = fopen(path, "r+e");
		}
		errno = ENODEV;
		must(port || now_ms() < end ? 0 : -1, PORT);
		usleep(20000);
	}
}

static void read_job(void)
{
	char *line, *field, *rest = text_of("/job");
	int count;

	errno = EINVAL;
	must(*rest && strlen(rest) < MAX_TEXT - 1 ? 0 : -1, "/job: missing, empty or too long");
	while ((line = strsep(&rest, "\n"))) {
		if (matches(line, NO_PROGRAM))
			continue;
		errno = EINVAL;
		must(nr_programs < MAX_PROGRAMS && matches(line, PROGRAM) ? 0 : -1, line);
		field = strtok(strdup(line), " \t");
		for (count = 0; field && *field != '#'; field = strtok(NULL, " \t")) {
			must(count < MAX_FIELDS ? 0 : -1, line);
			job[nr_programs][count++] = field;
		}
		nr_programs++;
	}
	must(nr_programs - 1, "/job: no programs");
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

static pid_t spawn(char * const *argv, const char *input, int output, const char *dir)
{
	static char * const env[] = { "PATH=/bin:/tests", "TMPDIR=/tmp", NULL };
	pid_t pid = must(fork(), "fork");

	if (pid)
		return pid;
	must(setsid(), "setsid");
	must(dup2(must(open(input, O_RDWR | O_CLOEXEC), input), 0), "dup2");
	if (isatty(0))
		must(ioctl(0, TIOCSCTTY, 0), "TIOCSCTTY");
	must(dup2(output, 1) | dup2(output, 2), "dup2");
	must(chdir(dir), dir);
	return must(execve(argv[0], argv, env), argv[0]);
}

static void frame(char c)
{
	if (run.column == MAX_LINE && c != '\n')
		frame('\n');
	if (!run.column++)
		fputs("| ", port);
	putc(c == '\n' || c == '\t' || (c >= ' ' && c <= '~') ? c : '?', port);
	if (c == '\n')
		run.column = 0;
}

static void end_line(void)
{
	if (run.column)
		frame('\n');
}

static void attend(int ms)
{
	struct pollfd event[] = { { run.output, POLLIN, 0 }, { run.exited, POLLIN, 0 } };
	static char data[65536];
	ssize_t i, len;
	pid_t pid;
	int status;

	must(poll(event, 2, ms), "poll");
	if (event[0].revents) {
		len = must(read(run.output, data, sizeof(data)), "read");
		if (!len) {
			close(run.output);
			run.output = -1;
		}
		for (i = 0; i < len && run.bytes < MAX_OUTPUT; i++, run.bytes++)
			frame(data[i]);
		if (i < len && run.bytes++ == MAX_OUTPUT) {
			end_line();
			fputs("| ...output cut\n", port);
		}
		must(fflush(port), PORT);
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == run.pid) {
			run.status = status;
			run.alive = false;
		}
	}
	run.leftovers = !pid;
}

static void run_program(char **field)
{
	long limit_s = atol(field[LIMIT]);
	long long left, end, start = now_ms();
	int fd[2], code;
	const char *how;

	say("begin %s %s %ld\n", field[KIND], field[NAME], limit_s);
	must(mkdir(RUN_DIR, 0755), RUN_DIR);
	must(mount("tmpfs", RUN_DIR, "tmpfs", 0, NULL), RUN_DIR);
	must(pipe2(fd, O_CLOEXEC), "pipe2");
	memset(&run, 0, sizeof(run));
	run.pid = spawn(&field[ARGV], "/dev/null", fd[1], RUN_DIR);
	run.exited = must(syscall(SYS_pidfd_open, run.pid, 0), "pidfd_open");
	run.output = fd[0];
	run.alive = true;
	close(fd[1]);
	while (run.alive && (left = start + limit_s * 1000 - now_ms()) > 0)
		attend(left < SLICE_MS ? left : SLICE_MS);
	end = now_ms();
	how = run.alive ? "timeout" : WIFSIGNALED(run.status) ? "signal" : "exit";
	code = run.alive ? limit_s : WIFSIGNALED(run.status) ? WTERMSIG(run.status) :
		WEXITSTATUS(run.status);
	/* Nothing may outlive its program, not even a daemon in a session of its own. */
	kill(-1, SIGKILL);
	close(run.exited);
	run.exited = -1;
	do
		attend(10);
	while ((run.leftovers || run.output >= 0) && now_ms() < end + LINGER_MS);
	close(run.output);
	end_line();
	say("end %s %s %d %lld\n", field[NAME], how, code, end - start);
	umount2(RUN_DIR, MNT_DETACH);
	must(rmdir(RUN_DIR), RUN_DIR);
}

static void run_programs(void)
{
	int i;

	for (i = 0; i < nr_programs; i++)
		run_program(job[i]);
}

static void check_taint(void)
{
	say("check taint %s", text_of("/proc/sys/kernel/tainted"));
}

static void check_kernel_log(void)
{
	int fd = must(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC), "/dev/kmsg");
	unsigned long seq = 0, next = 0, lost = 0, splats = 0;
	char record[8192] = "";
	bool traced = false;
	ssize_t len;

	while ((len = read(fd, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
		if (len < 0)
			continue;
		record[len] = '\0';
		record[strcspn(record, "\n")] = '\0';
		if (sscanf(record, "%*u,%lu", &seq) == 1)
			lost += seq - next;
		next = seq + 1;
		traced |= matches(record, KERNEL_RECORD "Call Trace:");
		if (matches(record, COMPLAINT) && splats++ < MAX_SPLATS)
			say("splat %s\n", strchr(record, ';') + 1);
	}
	must(errno == EAGAIN ? 0 : -1, "/dev/kmsg");
	close(fd);
	if (splats > MAX_SPLATS) {
		say("splat (%lu more)\n", splats - MAX_SPLATS);
		splats = MAX_SPLATS + 1;
	}
	if (traced && !splats && ++splats)
		say("splat Call Trace:\n");
	if (lost && ++splats)
		say("splat (%lu records of the kernel log were lost)\n", lost);
	say("check splats %lu\n", splats);
}

/* Three: the first only takes checksums, and a kernel may want two to agree on a leak. */
static void check_leaks(void)
{
	int scan, leaks = 0, fd = open(KMEMLEAK, O_RDWR | O_CLOEXEC);
	char line[512];
	FILE *report;

	for (scan = 0; scan < LEAK_SCANS; scan++) {
		if (scan)
			sleep(LEAK_AGE_S);
		if (write(fd, "scan", 4) < 0) {
			say("check leaks skipped\n");
			return;
		}
	}
	report = fopen(KMEMLEAK, "re");
	must(report ? 0 : -1, KMEMLEAK);
	while (fgets(line, sizeof(line), report)) {
		line[strcspn(line, "\n")] = '\0';
		if (matches(line, "^unreferenced object"))
			say("%sleak %s", leaks++ ? "\n" : "", line);
		else if (leaks && matches(line, "^ *comm|\\+0x"))
			say(" %s", line + strspn(line, " "));
	}
	if (leaks)
		say("\ncheck leaks %d\n", leaks);
	else
		say("check leaks none\n");
	fclose(report);
	close(fd);
}

static void leave_if_probed(void)
{
	if (!matches(text_of("/proc/cmdline"), "\\bfilelock\\.probe\\b"))
		return;
	say("filelock-guest 1\n");
	power_off();
}

static void give_shell_if_asked(void)
{
	static char * const argv[] = { "/bin/busybox", "sh", "-c", SHELL_SCRIPT, NULL };
	pid_t pid;

	if (!matches(text_of("/proc/cmdline"), "\\bfilelock\\.shell\\b"))
		return;
	pid = spawn(argv, "/dev/console", STDERR_FILENO, "/");
	while (must(wait(NULL), "wait") != pid)
		;
	power_off();
}

static void finish(void)
{
	say("filelock-end 1 %d\n", nr_programs);
	power_off();
}

int main(void)
{
	mount_filesystems();
	raise_limits();
	make_memory_cgroup();
	give_shell_if_asked();
	open_verdict_port();
	leave_if_probed();
	read_job();
	announce();
	run_programs();
	check_taint();
	check_kernel_log();
	check_leaks();
	finish();
}
