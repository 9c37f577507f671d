// SPDX-License-Identifier: GPL-2.0
/*
 * Lock calls that cannot get memory.
 *
 * Each operation below is made again and again, while its first, second, third ...
 * slab allocation fails, until it makes fewer than that. A call that failed for this
 * reason says so with the documented errno, has changed neither the caller's structure
 * nor the list of locks, and succeeds when it is repeated. A query, and an unlock that
 * leaves no more locks than there were, need no memory and never fail.
 *
 * Faults are injected into this task alone (/proc/PID/task/TID/fail-nth). What else the
 * kernel allocates in the call, for kmemleak for one, fails as well: so a call may
 * succeed although an allocation failed.
 */

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include "common.h"

#define FAILSLAB	"/sys/kernel/debug/failslab"
#define MAX_FAULTS	200	/* more allocations no operation makes */

struct operation {
	struct lock own[2];	/* locks of the caller; len 0: not there */
	struct lock other;	/* a lock of another owner */
	enum op op;
	struct lock call;
	int result;		/* when nothing fails: 0 or an errno */
	bool first;		/* the inode never had a lock */
	enum { NONE, NEEDED, PERHAPS } memory;
};

/* Allocations that may sleep are to fail too, and silently: the log is for complaints. */
static struct {
	const char *file, *value;
	char old[16];
} setting[] = {
	{ .file = "ignore-gfp-wait", .value = "N" },
	{ .file = "cache-filter", .value = "N" },
	{ .file = "verbose", .value = "0" },
};

static struct {
	char problem[160];	/* why no fault can be injected */
	int guarded;		/* closed when this process ends, however it ends */
	pid_t guard;
} faults;

static bool problem(const char *what)
{
	snprintf(faults.problem, sizeof(faults.problem), "%.100s: %.50s", what, strerror(errno));
	return false;
}

static int open_setting(const char *file, int flags)
{
	char path[128];

	snprintf(path, sizeof(path), FAILSLAB "/%s", file);
	return open(path, flags | O_CLOEXEC);
}

static bool read_setting(const char *file, char *value, size_t size)
{
	int fd = open_setting(file, O_RDONLY);
	ssize_t len = fd < 0 ? -1 : read(fd, value, size - 1);

	if (len <= 0)
		problem(file);
	else
		value[strcspn(value, "\n")] = '\0';
	if (fd >= 0)
		close(fd);
	return len > 0;
}

static bool write_setting(const char *file, const char *value)
{
	int fd = open_setting(file, O_WRONLY);
	ssize_t len = fd < 0 ? -1 : write(fd, value, strlen(value));

	if (len <= 0)
		problem(file);
	if (fd >= 0)
		close(fd);
	return len > 0;
}

static bool restore_settings(void)
{
	bool done = true;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(setting); i++) {
		if (*setting[i].old)
			done &= write_setting(setting[i].file, setting[i].old);
	}
	return done;
}

/* A debugfs that nobody mounted is mounted for this process only. */
static bool find_failslab(void)
{
	if (geteuid()) {
		snprintf(faults.problem, sizeof(faults.problem), "fault injection needs root");
		return false;
	}
	if (access("/proc/thread-self/fail-nth", W_OK))
		return problem("/proc/thread-self/fail-nth");
	if (!access(FAILSLAB, F_OK))
		return true;
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL))
		return problem("no debugfs at /sys/kernel/debug");
	return !access(FAILSLAB, F_OK) || problem(FAILSLAB);
}

/* The harness ends this program by exit(). */
static void stop_faults(void)
{
	int status = 0;

	close(faults.guarded);
	if (waitpid(faults.guard, &status, 0) == faults.guard && !status)
		return;
	printf("# " FAILSLAB " could not be restored\n");
	fflush(stdout);
	_exit(KSFT_FAIL);
}

/* A process that restores the settings when this one ends, even by SIGKILL. */
static bool guard_settings(void)
{
	int fd[2];
	char c;

	if (pipe2(fd, O_CLOEXEC))
		return problem("pipe2()");
	faults.guard = fork();
	if (!faults.guard) {
		setsid();
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		close(fd[1]);
		while (read(fd[0], &c, 1) < 0 && errno == EINTR)
			;
		_exit(!restore_settings());
	}
	close(fd[0]);
	faults.guarded = fd[1];
	if (faults.guard > 0)
		return !atexit(stop_faults) || problem("atexit()");
	return problem("fork()");
}

static void start_faults(void)
{
	size_t i;

	if (!find_failslab())
		return;
	for (i = 0; i < ARRAY_SIZE(setting); i++) {
		if (!read_setting(setting[i].file, setting[i].old, sizeof(setting[i].old)))
			return;
	}
	if (!guard_settings())
		return;
	for (i = 0; i < ARRAY_SIZE(setting); i++) {
		if (!write_setting(setting[i].file, setting[i].value))
			return;
	}
}

/*
 * One call whose nth allocation fails. Returns whether it made so many; what is left
 * over may have met the read that asks for it.
 */
static bool call_with_fault(struct __test_metadata *_metadata, const struct party *me, int nth,
			    enum op op, struct lock *lock, int *err)
{
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	char text[16] = "";
	ssize_t len;

	ASSERT_LE(0, fd);
	snprintf(text, sizeof(text), "%d", nth);
	ASSERT_EQ((ssize_t)strlen(text), pwrite(fd, text, strlen(text), 0));
	*err = do_call(me, me->fd, op, lock);
	memset(text, 0, sizeof(text));
	len = pread(fd, text, sizeof(text) - 1, 0);
	ASSERT_EQ(1, pwrite(fd, "0", 1, 0));
	close(fd);
	return len > 0 && !atoi(text);
}

static bool same(const struct lock *a, const struct lock *b)
{
	return a->type == b->type && a->whence == b->whence && a->start == b->start &&
	       a->len == b->len && a->pid == b->pid;
}

/* The context of an inode is made for its first lock. */
static bool out_of_memory(bool first, int err)
{
	return err == ENOLCK || (first && err == ENOMEM);
}

/* The locks as the operation wants to find them. */
static void prepare(struct __test_metadata *_metadata, struct party *me,
		    const struct party *other, bool in_directory, const struct operation *op)
{
	size_t i;

	if (op->first) {
		ASSERT_EQ(0, close(me->fd));
		me->fd = new_file(in_directory);
		ASSERT_LE(0, me->fd);
		return;
	}
	ASSERT_EQ(0, set(me, UN(0, 0)));
	ASSERT_EQ(0, set(other, UN(0, 0)));
	for (i = 0; i < ARRAY_SIZE(op->own) && op->own[i].len; i++)
		ASSERT_EQ(0, set(me, op->own[i]));
	if (op->other.len)
		ASSERT_EQ(0, set(other, op->other));
}

/* What the call makes of the caller's structure and of the list when nothing fails. */
static void expect_success(struct __test_metadata *_metadata, const struct party *me,
			   const struct operation *op, const struct lock *answer, const char *after)
{
	struct lock lock = op->call;

	EXPECT_EQ(op->result, do_call(me, me->fd, op->op, &lock));
	EXPECT_TRUE(same(answer, &lock));
	EXPECT_STREQ(after, held(me));
}

static void fail_each(struct __test_metadata *_metadata, struct party *me,
		      const struct party *other, bool in_directory, const struct operation *op)
{
	char before[256], after[256];
	struct lock answer = op->call, lock;
	int nth, err, failed = 0;
	bool fault;

	if (*faults.problem)
		SKIP(return, "%s", faults.problem);
	prepare(_metadata, me, other, in_directory, op);
	snprintf(before, sizeof(before), "%s", held(me));
	ASSERT_EQ(op->result, do_call(me, me->fd, op->op, &answer));
	snprintf(after, sizeof(after), "%s", held(me));

	for (nth = 1, fault = true; fault; nth++) {
		ASSERT_GT(MAX_FAULTS, nth);
		prepare(_metadata, me, other, in_directory, op);
		lock = op->call;
		fault = call_with_fault(_metadata, me, nth, op->op, &lock, &err);
		if (err == op->result) {
			EXPECT_TRUE(same(&answer, &lock));
			EXPECT_STREQ(after, held(me));
			continue;
		}
		if (fault && op->memory == NONE && !ksft_min_kernel_version(7, 3))
			SKIP(return, "needs no memory in Linux 7.3 and later");
		ASSERT_TRUE(fault && op->memory != NONE && out_of_memory(op->first, err)) {
			TH_LOG("%s when allocation %d fails", name_of_error(err), nth);
		}
		failed++;
		EXPECT_STREQ(before, held(me));
		expect_success(_metadata, me, op, &answer, after);
	}
	/* Else the faults went elsewhere, and the above has shown nothing. */
	if (op->memory == NEEDED)
		EXPECT_LT(0, failed);
}

#define FAIL_TEST(test, ...)							\
static const struct operation test##_operation = { __VA_ARGS__ };		\
TEST_F(lock, test)								\
{										\
	fail_each(_metadata, &self->me, &self->other, variant->in_directory,	\
		  &test##_operation);						\
}

/* A query needs no memory. */
FAIL_TEST(getlk_without_context, .first = true, .op = GET, .call = WR(0, 10))
FAIL_TEST(getlk_unlocked, .op = GET, .call = WR(0, 10))
FAIL_TEST(getlk_own, .own = { WR(0, 10) }, .op = GET, .call = WR(0, 10))
FAIL_TEST(getlk_unrelated, .other = WR(20, 10), .op = GET, .call = WR(0, 10))
FAIL_TEST(getlk_conflict, .other = WR(5, 10), .op = GET, .call = WR(0, 10))
FAIL_TEST(getlk_bad_type_is_EINVAL, .op = GET, .call = LOCK(99, 0, 10), .result = EINVAL)

/* Nor does an unlock, unless it leaves two locks of one. */
FAIL_TEST(unlock_without_context, .first = true, .op = SET, .call = UN(0, 10))
FAIL_TEST(unlock_nothing, .op = SET, .call = UN(0, 10))
FAIL_TEST(unlock_exact, .own = { WR(0, 10) }, .op = SET, .call = UN(0, 10))
FAIL_TEST(unlock_start, .own = { WR(0, 10) }, .op = SET, .call = UN(0, 5))
FAIL_TEST(unlock_end, .own = { WR(0, 10) }, .op = SET, .call = UN(5, 5))
FAIL_TEST(unlock_two, .own = { WR(0, 10), RD(20, 10) }, .op = SET, .call = UN(5, 20))
FAIL_TEST(unlock_all, .own = { WR(0, 10), RD(20, 10) }, .op = SET, .call = UN(0, 0))
FAIL_TEST(unlock_split, .own = { WR(0, 30) }, .op = SET, .call = UN(10, 10),
	  .memory = NEEDED)

/* A lock needs what it may keep. */
FAIL_TEST(lock_first_of_inode, .first = true, .op = SET, .call = WR(0, 10),
	  .memory = NEEDED)
FAIL_TEST(lock_again, .own = { WR(0, 10) }, .op = SET, .call = RD(20, 10),
	  .memory = NEEDED)
FAIL_TEST(lock_beside_other, .other = WR(20, 10), .op = SET, .call = WR(0, 10),
	  .memory = NEEDED)
FAIL_TEST(lock_with_wait, .op = SETW, .call = WR(0, 10), .memory = NEEDED)
FAIL_TEST(replace_two, .own = { RD(0, 10), RD(20, 10) }, .op = SET, .call = WR(0, 30),
	  .memory = NEEDED)
FAIL_TEST(retype_start, .own = { WR(0, 30) }, .op = SET, .call = RD(0, 10),
	  .memory = NEEDED)
FAIL_TEST(retype_end, .own = { WR(0, 30) }, .op = SET, .call = RD(20, 10),
	  .memory = NEEDED)
FAIL_TEST(retype_inside, .own = { WR(0, 30) }, .op = SET, .call = RD(10, 10),
	  .memory = NEEDED)

/*
 * Here a kernel may find that it does not need what it could not get. So nothing has
 * to fail, but what fails has changed nothing.
 */
FAIL_TEST(lock_merge, .own = { WR(0, 10) }, .op = SET, .call = WR(10, 10),
	  .memory = PERHAPS)
FAIL_TEST(lock_merge_two, .own = { WR(0, 10), WR(20, 10) }, .op = SET, .call = WR(10, 10),
	  .memory = PERHAPS)
FAIL_TEST(lock_conflict, .own = { WR(0, 10) }, .other = WR(20, 10), .op = SET,
	  .call = WR(15, 10), .result = EAGAIN, .memory = PERHAPS)

static void on_signal(int signal)
{
}

/* Whether /proc/locks shows somebody who waits for a lock of the file. */
static bool somebody_waits(int fd)
{
	char line[256], inode[32];
	struct stat st = {};
	bool found = false;
	FILE *locks;

	fstat(fd, &st);
	snprintf(inode, sizeof(inode), ":%llu ", (unsigned long long)st.st_ino);
	locks = fopen("/proc/locks", "re");
	while (locks && !found && fgets(line, sizeof(line), locks))
		found = strstr(line, "->") && strstr(line, inode);
	if (locks)
		fclose(locks);
	return found;
}

/* Another process, which acts as soon as this one waits. */
static pid_t start_helper(const struct party *me, const struct party *other, bool interrupt)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!somebody_waits(me->fd))
		sched_yield();
	if (interrupt)
		kill(parent, SIGUSR1);
	else if (set(other, UN(0, 0)))
		_exit(1);
	_exit(0);
}

/* A caller that waits makes its allocations before and after; no failure leaves it in a queue. */
static void fail_while_waiting(struct __test_metadata *_metadata, const struct party *me,
			       const struct party *other, bool interrupt)
{
	const char *after = interrupt ? "WR 0-9" : "WR 0-9, WR 50-59";
	int nth, err, failed = 0, status, result = interrupt ? EINTR : 0;
	struct lock lock;
	bool fault;
	pid_t helper;

	if (*faults.problem)
		SKIP(return, "%s", faults.problem);
	if (access("/proc/locks", R_OK))
		SKIP(return, "no /proc/locks to see who waits");
	ASSERT_EQ(0, sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = on_signal }, NULL));
	for (nth = 1, fault = true; fault; nth++) {
		ASSERT_GT(MAX_FAULTS, nth);
		ASSERT_EQ(0, set(me, UN(0, 0)));
		ASSERT_EQ(0, set(me, WR(0, 10)));
		ASSERT_EQ(0, set(other, WR(50, 10)));
		helper = start_helper(me, other, interrupt);
		ASSERT_LT(0, helper);
		lock = WR(50, 10);
		fault = call_with_fault(_metadata, me, nth, SETW, &lock, &err);
		/* One that the call did not wait for would wait for ever. */
		if (err != result)
			kill(helper, SIGKILL);
		ASSERT_EQ(helper, waitpid(helper, &status, 0));
		EXPECT_FALSE(somebody_waits(me->fd));
		if (err == result) {
			EXPECT_EQ(0, status);
			EXPECT_STREQ(after, held(me));
			continue;
		}
		ASSERT_TRUE(fault && out_of_memory(false, err)) {
			TH_LOG("%s when allocation %d fails", name_of_error(err), nth);
		}
		failed++;
		EXPECT_STREQ("WR 0-9", held(me));
		/* The helper may have been too late to act, or not. */
		EXPECT_EQ(0, set(other, UN(0, 0)));
		lock = WR(50, 10);
		EXPECT_EQ(0, do_call(me, me->fd, SETW, &lock));
	}
	if (!interrupt)
		EXPECT_LT(0, failed);
}

TEST_F(lock, wait_that_is_granted)
{
	fail_while_waiting(_metadata, &self->me, &self->other, false);
}

TEST_F(lock, wait_that_a_signal_ends)
{
	fail_while_waiting(_metadata, &self->me, &self->other, true);
}

/* EDEADLK or no memory: the other one waits on. */
TEST(deadlock)
{
	struct party me = { .entry = &entries[NATIVE] }, other = {};
	int nth, err;
	struct order order;
	struct lock lock;
	bool fault;

	if (*faults.problem)
		SKIP(return, "%s", faults.problem);
	if (access("/proc/locks", R_OK))
		SKIP(return, "no /proc/locks to see who waits");
	set_up(_metadata, &me, &other, false);
	ASSERT_EQ(0, set(&me, WR(0, 10)));
	ASSERT_EQ(0, set(&other, WR(50, 10)));
	order = (struct order){ CALL, other.fd, SETW, false, other.entry, WR(0, 10), 0 };
	ASSERT_EQ((ssize_t)sizeof(order), write(other.to, &order, sizeof(order)));
	while (!somebody_waits(me.fd))
		sched_yield();
	for (nth = 1, fault = true; fault; nth++) {
		ASSERT_GT(MAX_FAULTS, nth);
		lock = WR(50, 10);
		fault = call_with_fault(_metadata, &me, nth, SETW, &lock, &err);
		ASSERT_TRUE(err == EDEADLK || (fault && out_of_memory(false, err))) {
			TH_LOG("%s when allocation %d fails", name_of_error(err), nth);
		}
		EXPECT_STREQ("WR 0-9", held(&me));
		EXPECT_TRUE(somebody_waits(me.fd));
	}
	EXPECT_EQ(0, set(&me, UN(0, 0)));
	ASSERT_EQ((ssize_t)sizeof(order), read(other.from, &order, sizeof(order)));
	EXPECT_EQ(0, order.result);
	stop(&other);
}

int main(int argc, char **argv)
{
	start_faults();
	return test_harness_run(argc, argv);
}
