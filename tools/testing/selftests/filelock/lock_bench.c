// SPDX-License-Identifier: GPL-2.0
/*
 * lock_bench: what one file lock call costs
 *
 * Times fcntl() and flock() lock calls on a temporary file and reports the
 * nanoseconds of one operation, an operation being one call or a pair of calls
 * that leaves the file as it was. Every answer of the kernel is checked: the
 * results of timed calls in the loop, ranges and owners before and after it.
 *
 * close_locked is a difference: the time of open, F_SETLK and close minus the
 * time of open and close of the same file, both measured in each sample. It
 * stands for the lock call and for what the lock adds to close.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define MAX_SAMPLES	1000
#define MAX_LOOPS	1000000000UL
#define MIN_WARMUP	128UL	/* allocates more locks than a page has room for */
#define STRIDE		4	/* scaling: one locked byte and three free ones */

/* Operations of the _memcg kind, and those that are measured per number of locks. */
enum { IN_CGROUP = 1, SCALING = 2 };
/* What the program exits with, other than 0. */
enum { EXIT_WRONG = 1, EXIT_USAGE = 2 };

/*
 * A file under measurement. Its two opens are two owners of OFD locks, the
 * timed calls use the first and most of the checks look from the second.
 */
struct env {
	const struct op *op;
	/* Scaling: how many locks are held. */
	unsigned long locks;
	int fd, fd2;
	/* What the operation calls with, in this order. */
	struct flock call[2];
	/* What one call returns, what a query answers. */
	int ret;
	struct flock want;
	/* For another open of the file. */
	char path[32];
};

/* How operations of a kind are timed and checked. */
struct kind {
	/* System calls that an operation stands for. */
	unsigned int calls;
	void (*run)(struct env *e, unsigned long loops);
	void (*check)(struct env *e);
	/* Timed too and subtracted. */
	void (*base)(struct env *e, unsigned long loops);
};

/* One line of the report. */
struct op {
	const char *name;
	const struct kind *kind;
	unsigned int flags;
	/* Of fcntl(), for those calls that are timed. */
	int cmd;
	void (*setup)(struct env *e);
	const char *help;
};

/* Times are nanoseconds per operation, loops are operations per sample. */
struct result {
	unsigned long loops;
	double min, median, max;
};

/* Numbers of locks for the scaling operations. */
static const unsigned long scale[] = { 1, 4, 16, 64, 256, 1024, 4096 };
/* Names the culprit in messages. */
static const char *op_name = "options";

/* The command line, with its defaults. */
static const char *dir;
static double seconds = 0.2;
static unsigned long fixed_loops;
static unsigned int samples = 7;
static int cgroup_fd = -1;
static bool machine;

/* The one process that this one has started and not yet waited for. */
static pid_t child;

/* Macros, so that compilers check formats and see that these do not return. */
#define fail(fmt, ...) do {						\
	fprintf(stderr, "lock_bench: %s: " fmt "\n", op_name, ##__VA_ARGS__); \
	exit(EXIT_WRONG);						\
} while (0)

#define usage(fmt, ...) do {						\
	fprintf(stderr, "lock_bench: " fmt ", see --help\n", ##__VA_ARGS__); \
	exit(EXIT_USAGE);						\
} while (0)

/* Insist on a result; small enough to be part of the timed loops. */
static void expect(int ret, int want, const char *what)
{
	if (ret != want)
		fail("%s: expected %d, seen %d (%s)", what, want, ret,
		     ret == -1 ? strerror(errno) : "no error");
}

/* Either error may stand for a conflicting lock, says POSIX. */
static void expect_refused(int ret, const char *what)
{
	if (ret != -1 || (errno != EAGAIN && errno != EACCES))
		fail("%s: expected -1 (%s), seen %d (%s)", what,
		     strerror(EAGAIN), ret,
		     ret == -1 ? strerror(errno) : "no error");
}

/* Nothing is left running, however the program exits. */
static void reap(void)
{
	if (child <= 0)
		return;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	child = 0;
}

/* The child is killed when its parent ends, in whichever way that happens. */
static pid_t spawn(void)
{
	pid_t parent = getpid();

	/* What is still in the buffer would be printed twice. */
	fflush(stdout);
	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child)
		return child;
	expect(prctl(PR_SET_PDEATHSIG, SIGKILL), 0, "prctl");
	/* A parent that ended before that call sends no signal. */
	if (getppid() != parent)
		_exit(EXIT_WRONG);
	return 0;
}

/* Requests name their range from the start of the file. */
static struct flock range(short type, off_t start, off_t len)
{
	struct flock fl = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = len,
	};

	return fl;
}

/* A lock or unlock call outside of the timed loops. */
static void set(int fd, int cmd, struct flock fl)
{
	expect(fcntl(fd, cmd, &fl), 0, fl.l_type == F_UNLCK ? "unlock" : "lock");
}

/* Query a range and insist on every field of the answer. */
static void answer(int fd, int cmd, struct flock fl, const struct flock *want)
{
	expect(fcntl(fd, cmd, &fl), 0, "query");
	if (fl.l_type != want->l_type || fl.l_whence != want->l_whence ||
	    fl.l_start != want->l_start || fl.l_len != want->l_len ||
	    fl.l_pid != want->l_pid)
		fail("query: expected type %d %lld+%lld of %d, seen type %d %lld+%lld of %d",
		     want->l_type, (long long)want->l_start,
		     (long long)want->l_len, want->l_pid, fl.l_type,
		     (long long)fl.l_start, (long long)fl.l_len, fl.l_pid);
}

/* Insist that an owner's view of a range is just this lock, or F_UNLCK. */
static void look(int fd, short type, off_t start, off_t len, pid_t pid)
{
	struct flock want = range(type, start, len);

	want.l_pid = pid;
	answer(fd, F_OFD_GETLK, range(F_WRLCK, start, len), &want);
}

/* OFD locks have no process as their owner, which queries answer with -1. */
static pid_t owner(const struct env *e)
{
	return e->op->cmd == F_OFD_SETLK ? -1 : getpid();
}

/* F_GETFD fits in as well, it ignores the third argument. */
static void run_call(struct env *e, unsigned long loops)
{
	while (loops--)
		expect(fcntl(e->fd, e->op->cmd, &e->call[0]), e->ret, "call");
}

/* A query overwrites the request, which is copied for each call. */
static void run_getlk(struct env *e, unsigned long loops)
{
	struct flock fl;

	while (loops--) {
		fl = e->call[0];
		expect(fcntl(e->fd, e->op->cmd, &fl), 0, "query");
		expect(fl.l_type, e->want.l_type, "type in the answer");
	}
}

/* The same query as in the loop, with every field of its answer. */
static void check_getlk(struct env *e)
{
	answer(e->fd, e->op->cmd, e->call[0], &e->want);
}

/* Locks of a second open of the file have another owner, even in one process. */
static void setup_unrelated(struct env *e)
{
	set(e->fd2, F_OFD_SETLK, range(F_WRLCK, 100, 10));
}

/* An answer has a process id only if the lock is one of another process. */
static void setup_conflict(struct env *e)
{
	char byte = 0;
	int fds[2];

	e->call[0] = range(F_WRLCK, 105, 1);
	e->want = range(F_WRLCK, 100, 10);
	expect(pipe(fds), 0, "pipe");
	e->want.l_pid = spawn();
	if (!child) {
		set(e->fd, F_SETLK, e->want);
		expect(write(fds[1], &byte, 1), 1, "write");
		for (;;)
			pause();
	}
	/* The byte comes once the lock is held, none if the child has failed. */
	close(fds[1]);
	if (read(fds[0], &byte, 1) != 1)
		exit(EXIT_WRONG);
	close(fds[0]);
}

/* Two calls, of which the second takes back what the first one did. */
static void run_pair(struct env *e, unsigned long loops)
{
	while (loops--) {
		expect(fcntl(e->fd, e->op->cmd, &e->call[0]), 0, "first call");
		expect(fcntl(e->fd, e->op->cmd, &e->call[1]), 0, "second call");
	}
}

/* The second open sees the lock come with its range and owner, and go. */
static void check_pair(struct env *e)
{
	off_t start = e->call[0].l_start, len = e->call[0].l_len;

	look(e->fd2, F_UNLCK, start, len, 0);
	set(e->fd, e->op->cmd, e->call[0]);
	look(e->fd2, F_WRLCK, start, len, owner(e));
	set(e->fd, e->op->cmd, e->call[1]);
	look(e->fd2, F_UNLCK, start, len, 0);
}

/* Unlocking the middle makes two locks of one, locking it merges them again. */
static void setup_split(struct env *e)
{
	set(e->fd, e->op->cmd, range(F_WRLCK, 0, 100));
	e->call[0] = range(F_UNLCK, 40, 20);
	e->call[1] = range(F_WRLCK, 40, 20);
}

/* The second open sees one lock, the two halves, and again one lock. */
static void check_split(struct env *e)
{
	look(e->fd2, F_WRLCK, 0, 100, owner(e));
	set(e->fd, e->op->cmd, e->call[0]);
	look(e->fd2, F_WRLCK, 0, 40, owner(e));
	look(e->fd2, F_UNLCK, 40, 20, 0);
	look(e->fd2, F_WRLCK, 60, 40, owner(e));
	set(e->fd, e->op->cmd, e->call[1]);
	look(e->fd2, F_WRLCK, 0, 100, owner(e));
	look(e->fd2, F_UNLCK, 100, 0, 0);
}

/* The first lock of a file gives its inode a lock context, which stays. */
static void setup_unlock(struct env *e)
{
	run_pair(e, 1);
	e->call[0] = e->call[1];
}

/* Nothing is locked, anywhere in the file. */
static void check_unlock(struct env *e)
{
	look(e->fd2, F_UNLCK, 0, 0, 0);
}

/* The wanted byte lies in the middle of a lock of the second open. */
static void setup_refused(struct env *e)
{
	e->call[0] = range(F_WRLCK, 105, 1);
	set(e->fd2, F_OFD_SETLK, range(F_WRLCK, 100, 10));
}

/* The call must not wait, F_SETLK fails at once. */
static void run_refused(struct env *e, unsigned long loops)
{
	while (loops--)
		expect_refused(fcntl(e->fd, e->op->cmd, &e->call[0]), "lock");
}

/* The lock that was there is whole and the refused one has left nothing. */
static void check_refused(struct env *e)
{
	run_refused(e, 1);
	look(e->fd, F_WRLCK, 100, 10, -1);
	look(e->fd2, F_UNLCK, 0, 0, 0);
}

/* Whole-file locks belong to the open file, just as OFD locks. */
static void run_flock(struct env *e, unsigned long loops)
{
	while (loops--) {
		expect(flock(e->fd, LOCK_EX | LOCK_NB), 0, "LOCK_EX");
		expect(flock(e->fd, LOCK_UN), 0, "LOCK_UN");
	}
}

/* The second open can lock the file, but not while the first one does. */
static void check_flock(struct env *e)
{
	struct env second = { .fd = e->fd2 };

	run_flock(&second, 1);
	expect(flock(e->fd, LOCK_EX | LOCK_NB), 0, "LOCK_EX");
	expect_refused(flock(e->fd2, LOCK_EX | LOCK_NB), "second LOCK_EX");
	expect(flock(e->fd, LOCK_UN), 0, "LOCK_UN");
	run_flock(&second, 1);
}

/* Closing looks for locks of the process even if there has never been one. */
static void run_dup(struct env *e, unsigned long loops)
{
	while (loops--)
		expect(close(dup(e->fd)), 0, "close");
}

/* The file has no name any more, so this goes by way of /proc. */
static int reopen(struct env *e)
{
	int fd = open(e->path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		fail("%s: %s", e->path, strerror(errno));
	return fd;
}

/* Closing drops the lock, which is the only one of this process. */
static void run_locked(struct env *e, unsigned long loops)
{
	int fd;

	while (loops--) {
		fd = reopen(e);
		expect(fcntl(fd, e->op->cmd, &e->call[0]), 0, "lock");
		expect(close(fd), 0, "close");
	}
}

/* What run_locked() does besides locking. */
static void run_close(struct env *e, unsigned long loops)
{
	while (loops--)
		expect(close(reopen(e)), 0, "close");
}

/* The lock is there while its descriptor is open, and only then. */
static void check_locked(struct env *e)
{
	int fd = reopen(e);

	look(e->fd2, F_UNLCK, 0, 0, 0);
	set(fd, e->op->cmd, e->call[0]);
	look(e->fd2, F_WRLCK, 0, 10, owner(e));
	expect(close(fd), 0, "close");
	look(e->fd2, F_UNLCK, 0, 0, 0);
}

/*
 * Scaling: lock single bytes by cutting one long lock up from its end. Each
 * cut meets the first lock of the list, so that all take linear time.
 */
static void take_many(struct env *e, int fd, int cmd, off_t spare)
{
	off_t i;

	set(fd, cmd, range(F_WRLCK, 0, (e->locks - 1) * STRIDE + 1));
	for (i = (off_t)e->locks - 2; i >= 0; i--)
		set(fd, cmd, range(F_UNLCK, i * STRIDE + 1, STRIDE - 1));
	e->call[0] = range(F_WRLCK, spare, 1);
	e->call[1] = range(F_UNLCK, spare, 1);
	e->want = e->call[1];
}

/* The byte is two off its neighbours, so that locking it merges no locks. */
static void setup_own(struct env *e)
{
	take_many(e, e->fd, F_SETLK, (off_t)(e->locks / 2) * STRIDE + 2);
}

/* The second open holds the locks, the process asks for a byte behind them. */
static void setup_other(struct env *e)
{
	take_many(e, e->fd2, F_OFD_SETLK, (off_t)e->locks * STRIDE);
}

/* First, middle and last lock stand for all: to query each is quadratic. */
static void check_many(struct env *e)
{
	unsigned long at[] = { 0, e->locks / 2, e->locks - 1 };
	bool own = e->op->setup == setup_own;
	int fd = own ? e->fd2 : e->fd;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(at); i++) {
		look(fd, F_WRLCK, (off_t)at[i] * STRIDE, 1,
		     own ? getpid() : -1);
		look(fd, F_UNLCK, (off_t)at[i] * STRIDE + 1, STRIDE - 1, 0);
	}
}

/* Number of calls, how to time, how to check, what to subtract. */
static const struct kind least = { 1, run_call, NULL, NULL };
static const struct kind query = { 1, run_getlk, check_getlk, NULL };
static const struct kind pair = { 2, run_pair, check_pair, NULL };
static const struct kind split = { 2, run_pair, check_split, NULL };
static const struct kind unlock = { 1, run_call, check_unlock, NULL };
static const struct kind refused = { 1, run_refused, check_refused, NULL };
static const struct kind whole = { 2, run_flock, check_flock, NULL };
static const struct kind twice = { 2, run_dup, check_unlock, NULL };
static const struct kind closing = { 1, run_locked, check_locked, run_close };

/* Measured in this order, floor is the first in any case. */
static const struct op ops[] = {
	{ "floor", &least, 0, F_GETFD, NULL,
	  "F_GETFD, the least that a call of fcntl() costs" },
	{ "getlk_unlocked", &query, 0, F_GETLK, NULL,
	  "F_GETLK of a file that never had a lock" },
	{ "ofd_getlk_unlocked", &query, 0, F_OFD_GETLK, NULL,
	  "F_OFD_GETLK of a file that never had a lock" },
	{ "getlk_unrelated", &query, 0, F_GETLK, setup_unrelated,
	  "F_GETLK, another open holds a lock elsewhere" },
	{ "getlk_conflict", &query, 0, F_GETLK, setup_conflict,
	  "F_GETLK, another process holds the range" },
	{ "setlk_pair", &pair, 0, F_SETLK, NULL,
	  "F_SETLK: lock, unlock" },
	{ "ofd_setlk_pair", &pair, 0, F_OFD_SETLK, NULL,
	  "F_OFD_SETLK: lock, unlock" },
	{ "setlk_unlock", &unlock, 0, F_SETLK, setup_unlock,
	  "F_SETLK: unlock, nothing is held any more" },
	{ "setlk_conflict", &refused, 0, F_SETLK, setup_refused,
	  "F_SETLK: lock, refused as another open holds it" },
	{ "setlk_split", &split, 0, F_SETLK, setup_split,
	  "F_SETLK: unlock the middle of a lock, lock it" },
	{ "flock_pair", &whole, 0, 0, NULL,
	  "flock(): LOCK_EX, LOCK_UN" },
	{ "dup_close", &twice, 0, 0, NULL,
	  "dup, close: a file that never had a lock" },
	{ "close_locked", &closing, 0, F_SETLK, NULL,
	  "open, F_SETLK, close minus open, close" },
	{ "setlk_pair_memcg", &pair, IN_CGROUP, F_SETLK, NULL,
	  "setlk_pair in the cgroup" },
	{ "ofd_setlk_pair_memcg", &pair, IN_CGROUP, F_OFD_SETLK, NULL,
	  "ofd_setlk_pair in the cgroup" },
	{ "setlk_split_memcg", &split, IN_CGROUP, F_SETLK, setup_split,
	  "setlk_split in the cgroup" },
	{ "flock_pair_memcg", &whole, IN_CGROUP, 0, NULL,
	  "flock_pair in the cgroup" },
	{ "getlk", &query, SCALING, F_GETLK, setup_other,
	  "scaling: F_GETLK behind the locks of another open" },
	{ "own_pair", &pair, SCALING, F_SETLK, setup_own,
	  "scaling: F_SETLK in the middle of own locks" },
	{ "other_pair", &pair, SCALING, F_SETLK, setup_other,
	  "scaling: F_SETLK behind those of another open" },
};

/* What the command line asks for. */
static bool selected[ARRAY_SIZE(ops)];

/* The name goes at once, so that nothing is left behind on any way out. */
static void open_file(struct env *e)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/lock_bench.XXXXXX", dir);
	e->fd = mkostemp(path, O_CLOEXEC);
	if (e->fd < 0)
		fail("temporary file in %s: %s", dir, strerror(errno));
	e->fd2 = open(path, O_RDWR | O_CLOEXEC);
	if (unlink(path) || e->fd2 < 0)
		fail("%s: %s", path, strerror(errno));
	snprintf(e->path, sizeof(e->path), "/proc/self/fd/%d", e->fd);
	e->ret = e->op->cmd == F_GETFD ? FD_CLOEXEC : 0;
	e->call[0] = range(F_WRLCK, 0, 10);
	e->call[1] = range(F_UNLCK, 0, 10);
	e->want = e->call[1];
}

/* Done before and after measuring, which leaves the locks as they were. */
static void check(struct env *e)
{
	if (e->locks)
		check_many(e);
	if (e->op->kind->check)
		e->op->kind->check(e);
}

/* The clock is read twice per sample, a cost that many operations share. */
static double timed(struct env *e, unsigned long loops,
		    void (*run)(struct env *e, unsigned long loops))
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	run(e, loops);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
}

/* Returns the time of one operation, in nanoseconds as all times here. */
static double sample(struct env *e, unsigned long loops, double *spent)
{
	const struct kind *kind = e->op->kind;
	double run = timed(e, loops, kind->run);
	double base = kind->base ? timed(e, loops, kind->base) : 0;

	*spent = run + base;
	return (run - base) / loops;
}

/* Double the operations until an eighth of a sample's time can be measured. */
static unsigned long calibrate(struct env *e)
{
	double target = seconds * 1e9 / samples;
	unsigned long loops = 1;
	double spent;

	for (;;) {
		sample(e, loops, &spent);
		if (spent >= target / 8)
			break;
		if (loops > MAX_LOOPS / 2 || (loops > 1000000 && spent <= 0))
			fail("CLOCK_MONOTONIC: expected progress, seen %.0f ns",
			     spent);
		loops *= 2;
	}

	/* The rest is proportional. */
	target *= loops / spent;
	return target < 1 ? 1 : target > MAX_LOOPS ? MAX_LOOPS : target;
}

/* Ascending, for qsort(). */
static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct result measure(const struct op *op, unsigned long locks)
{
	struct env e = { .op = op, .locks = locks };
	double ns[MAX_SAMPLES], spent;
	struct result r;
	unsigned int i;

	/* A file of its own keeps the locks of other operations away. */
	open_file(&e);
	if (op->setup)
		op->setup(&e);
	check(&e);
	r.loops = fixed_loops ? fixed_loops : calibrate(&e);

	/* The first sample warms up caches and allocators and does not count. */
	sample(&e, r.loops < MIN_WARMUP && !locks ? MIN_WARMUP : r.loops, &spent);
	for (i = 0; i < samples; i++)
		ns[i] = sample(&e, r.loops, &spent);
	check(&e);

	/* Closing drops the locks. */
	reap();
	close(e.fd);
	close(e.fd2);

	/* The median of an even number is the mean of the middle two. */
	qsort(ns, samples, sizeof(ns[0]), compare);
	r.min = ns[0];
	r.median = (ns[samples / 2] + ns[(samples - 1) / 2]) / 2;
	r.max = ns[samples - 1];
	return r;
}

/* Only a child moves to the cgroup, other operations are measured outside. */
static struct result measure_in_cgroup(const struct op *op)
{
	struct result r = { 0 };
	int fds[2], status;

	expect(pipe(fds), 0, "pipe");
	if (!spawn()) {
		expect(write(cgroup_fd, "0", 1), 1, "move to the cgroup");
		r = measure(op, 0);
		expect(write(fds[1], &r, sizeof(r)), sizeof(r), "write");
		_exit(EXIT_SUCCESS);
	}
	/* Ends with the child at the latest, as no one else can write. */
	close(fds[1]);
	if (read(fds[0], &r, sizeof(r)) != sizeof(r))
		r.loops = 0;
	close(fds[0]);
	expect(waitpid(child, &status, 0), child, "waitpid");
	child = 0;
	if (WIFSIGNALED(status))
		fail("process in the cgroup: expected a result, seen signal %d",
		     WTERMSIG(status));
	/* A child that fails says itself why. */
	if (status || !r.loops)
		exit(EXIT_WRONG);
	return r;
}

/* The first lines of either form of report. */
static void print_header(void)
{
	struct utsname uts;

	if (machine) {
		puts("lock_bench\t1");
		puts("op\tlocks\tcalls\tsamples\tloops\tns_min\tns_median\tns_max");
		return;
	}
	expect(uname(&uts), 0, "uname");
	printf("%s %s %s, %zu-bit program, CLOCK_MONOTONIC, %u samples\n",
	       uts.sysname, uts.release, uts.machine, sizeof(long) * 8, samples);
	printf("%-20s %5s %5s %10s %10s %7s %10s\n", "operation", "locks",
	       "calls", "ns/op", "calls/s", "spread", "over floor");
}

/* Calls per second and what exceeds the floor are for people only. */
static void print_row(const struct op *op, unsigned long locks,
		      const struct result *r)
{
	unsigned int calls = op->kind->calls;
	static double floor_ns;
	double spread = 0, rate = 0;

	/* Fields and their order are those of the second line. */
	if (machine) {
		printf("%s\t%lu\t%u\t%u\t%lu\t%.2f\t%.2f\t%.2f\n", op->name,
		       locks, calls, samples, r->loops, r->min, r->median,
		       r->max);
		return;
	}
	/* The first row is what the others are compared with. */
	if (op == ops)
		floor_ns = r->median;
	/* A difference can be zero or less. */
	if (r->median > 0) {
		spread = (r->max - r->min) / r->median * 100;
		rate = calls * 1e9 / r->median;
	}
	printf("%-20s %5lu %5u %10.2f %10.0f %6.1f%% %10.2f\n", op->name, locks,
	       calls, r->median, rate, spread, r->median - calls * floor_ns);
}

/* Each row is printed as soon as it is known. */
static void run_op(const struct op *op)
{
	size_t i, rows = op->flags & SCALING ? ARRAY_SIZE(scale) : 1;
	struct result r;

	op_name = op->name;
	for (i = 0; i < rows; i++) {
		unsigned long locks = op->flags & SCALING ? scale[i] : 0;

		r = op->flags & IN_CGROUP ? measure_in_cgroup(op) :
					    measure(op, locks);
		print_row(op, locks, &r);
	}
}

/* For --list, and a part of --help. */
static void print_list(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		printf("  %-20s  %s\n", ops[i].name, ops[i].help);
}

/* Units and exit statuses are explained here and nowhere else. */
static void print_help(void)
{
	puts("Usage: lock_bench [OPTION]...\n"
	     "Measures what one file lock call costs, in nanoseconds.\n\n"
	     "  --op NAME      measure this operation, can be repeated\n"
	     "  --scaling      measure the scaling operations, each with 1, 4, ... 4096\n"
	     "                 locks of one byte with three free bytes between them\n"
	     "  --seconds S    seconds per operation, 0.0001 to 60, default 0.2\n"
	     "  --calls N      make N operations per sample, no calibration\n"
	     "  --samples K    samples per operation, 1 to 1000, default 7; one more of\n"
	     "                 at least 128 operations (scaling: of the same number) is\n"
	     "                 the warm-up and not reported\n"
	     "  --pin CPU      run on this CPU only\n"
	     "  --dir DIR      where the temporary file goes, default $TMPDIR or /tmp\n"
	     "  --cgroup DIR   cgroup for the _memcg operations; a process that moves\n"
	     "                 there makes the file and the locks and measures\n"
	     "  --machine      print tab-separated values\n"
	     "  --list         list the operations\n"
	     "  --help         print this text\n\n"
	     "Without --op and --scaling all operations but the scaling ones are measured,\n"
	     "those named _memcg only with --cgroup. floor always is.\n\n"
	     "Operations:");
	print_list();
	puts("\nA row has the median of the samples in nanoseconds per operation (ns/op), how\n"
	     "many system calls an operation stands for, calls per second, maximum minus\n"
	     "minimum in percent of the median (spread), and the nanoseconds over the same\n"
	     "number of floor calls. --machine prints operations per sample (loops) and\n"
	     "minimum, median and maximum in nanoseconds per operation.\n\n"
	     "close_locked needs /proc. Each of its samples times open, F_SETLK and close,\n"
	     "then as many open and close of the same file, and is the difference: the one\n"
	     "call of F_SETLK and what its lock adds to close.\n\n"
	     "Exit status: 0 measured, 1 wrong answer or failure, 2 wrong usage.");
}

/* Digits and a point, so no sign, exponent, hexadecimal or NaN. */
static double parse_number(const char *opt, const char *digits, double min,
			   double max)
{
	double n = strtod(optarg, NULL);

	if (!*optarg || optarg[strspn(optarg, digits)] ||
	    strchr(optarg, '.') != strrchr(optarg, '.') || n < min || n > max)
		usage("--%s: '%s' is not a number from %g to %.10g", opt, optarg,
		      min, max);
	return n;
}

/* Select an operation, or with no name all that have these flags. */
static void choose(const char *name, unsigned int flags)
{
	bool found = false;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (name ? strcmp(ops[i].name, name) : ops[i].flags != flags)
			continue;
		selected[i] = true;
		found = true;
	}
	if (!found)
		usage("--op: no operation is named '%s'", name);
}

/* Children inherit the choice. */
static void pin_to(unsigned int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fail("--pin %u: %s", cpu, strerror(errno));
}

/* Opened before anything is measured, so that a mistake shows at once. */
static void open_cgroup(const char *cgroup)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	cgroup_fd = open(path, O_WRONLY | O_CLOEXEC);
	if (cgroup_fd < 0)
		fail("--cgroup: %s: %s", path, strerror(errno));
}

/* There are no short options, the letters are for parse() alone. */
static const struct option options[] = {
	{ "op", required_argument, NULL, 'o' },
	{ "scaling", no_argument, NULL, 'S' },
	{ "seconds", required_argument, NULL, 's' },
	{ "calls", required_argument, NULL, 'n' },
	{ "samples", required_argument, NULL, 'k' },
	{ "pin", required_argument, NULL, 'p' },
	{ "dir", required_argument, NULL, 'd' },
	{ "cgroup", required_argument, NULL, 'c' },
	{ "machine", no_argument, NULL, 'm' },
	{ "list", no_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 }
};

/* Mistakes end the program before anything is printed on standard output. */
static void parse(int argc, char **argv)
{
	static const char digits[] = "0123456789", point[] = "0123456789.";
	const char *cgroup = NULL;
	bool chosen = false;
	int cpu = -1;
	size_t i;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'o' || c == 'S') {
			choose(c == 'o' ? optarg : NULL, SCALING);
			chosen = true;
		} else if (c == 's') {
			seconds = parse_number("seconds", point, 0.0001, 60);
		} else if (c == 'n') {
			fixed_loops = parse_number("calls", digits, 1, MAX_LOOPS);
		} else if (c == 'k') {
			samples = parse_number("samples", digits, 1, MAX_SAMPLES);
		} else if (c == 'p') {
			cpu = parse_number("pin", digits, 0, CPU_SETSIZE - 1);
		} else if (c == 'd') {
			dir = optarg;
		} else if (c == 'c') {
			cgroup = optarg;
		} else if (c == 'm') {
			machine = true;
		} else if (c == 'l' || c == 'h') {
			c == 'l' ? print_list() : print_help();
			exit(EXIT_SUCCESS);
		} else {
			exit(EXIT_USAGE);
		}
	}
	if (optind < argc)
		usage("unexpected argument '%s'", argv[optind]);

	/* Nothing asked for means all, of those that can be measured. */
	if (!chosen)
		choose(NULL, 0);
	if (!chosen && cgroup)
		choose(NULL, IN_CGROUP);
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (selected[i] && ops[i].flags == IN_CGROUP && !cgroup)
			usage("%s needs --cgroup", ops[i].name);
	if (cgroup)
		open_cgroup(cgroup);
	if (cpu >= 0)
		pin_to(cpu);
}

int main(int argc, char **argv)
{
	size_t i;

	/* The command line can override what the environment says. */
	dir = getenv("TMPDIR");
	if (!dir || !*dir)
		dir = "/tmp";
	parse(argc, argv);
	atexit(reap);

	/* All others are compared with the floor. */
	selected[0] = true;
	print_header();
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (selected[i])
			run_op(&ops[i]);
	op_name = "report";
	if (machine)
		puts("lock_bench\tend");
	if (fflush(stdout) || ferror(stdout))
		fail("standard output: %s", strerror(errno));
	return EXIT_SUCCESS;
}
