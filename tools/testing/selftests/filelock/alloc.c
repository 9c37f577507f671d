// SPDX-License-Identifier: GPL-2.0
/*
 * Count the slab allocations that one call makes for file locks.
 *
 * Each test below is one operation: the locks that are there before, the call,
 * how many allocations it may make, and by how many objects it leaves more (or
 * fewer) than it found. The first number is a limit: a kernel may do with less,
 * one before 7.3 skips if it needs more. The second number is exact: it tells a
 * lock that leaks, and a counter that sees nothing.
 *
 * The counter is an instance of tracefs of its own, with the kmem events of
 * one task alone. What a task allocates in a call is not all for locks
 * (kmemleak, for one, allocates for every object), so a record counts if it was
 * made in the context of the task, not of an interrupt, and either
 *
 *  - its call site is a function of fs/locks.c. The prefixes in lock_function[]
 *    cover the callers of the functions that allocate, because the compiler may
 *    inline those; or
 *  - its cache is one of fs/locks.c. With LTO a call site may be in any caller.
 *    The name alone would not do: a cache merged with another can go by the name
 *    of the other.
 *
 * Where this program is a 32-bit one, F_SETLK and F_GETLK are those without
 * large file support, and the OFD commands the only ones with it: so that both
 * twins of a 32-bit kernel, fcntl_setlk() and fcntl_setlk64(), are counted.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"

#define TRACING		"/sys/kernel/tracing"
#define INIT_PID_NS	0xeffffffc	/* inode of the initial PID namespace */
#define TO_EOF		(-1)

/* The limits: the most allocations that a call may make. */
enum {
	QUERY = 0,
	LOCK = 1,		/* merging, replacing and failing included */
	LOCK_INSIDE = 2,	/* of another type, inside an own lock */
	UNLOCK = 0,		/* one lock, several, a part of one, or nothing */
	UNLOCK_INSIDE = 1,	/* leaves two locks of one */
	UNLOCK_ALL = 0,		/* to the end of the file, or an inode without context */
	CONTEXT = 1,		/* more, for the first lock of an inode */
};

struct range {
	short type;
	int start, len;		/* len 0: not there */
};

struct operation {
	struct range own[2];	/* locks of the caller */
	struct range other;	/* a lock of somebody else */
	struct range call;
	struct range then;	/* a second call, counted as well */
	bool first;		/* the inode never had a lock, so has no context */
	bool query;		/* F_GETLK, not F_SETLK */
	bool wait;		/* F_SETLKW */
	bool close;		/* close(), and no fcntl() */
	bool conflict;		/* the call must meet the lock of somebody else */
	int allowed;		/* allocations at most */
	int kept;		/* allocations less frees, exactly */
};

struct tally {
	int allocs, frees;
	int records;		/* with those that do not count */
	bool named, lost;
	int sites;
	struct {
		char name[80];
		char sign;
		int count;
	} site[16];
};

static const char * const lock_function[] = {
	"locks_", "__locks_", "posix_lock", "posix_test_lock", "flock",
	"fcntl_", "do_fcntl", "vfs_lock_file", "vfs_test_lock", "do_lock_file_wait",
};

static const char * const lock_cache[] = {
	"file_lock_cache ", "file_lock_cache\n",
	"file_lock_ctx ", "file_lock_ctx\n",
};

static const char * const event[] = {
	"kmem_cache_alloc", "kmem_cache_free", "kmalloc", "kfree",
};

/* A new instance inherits the options of the administrator. These make its text ours. */
static const char * const option[] = {
	"overwrite", "context-info", "irq-info", "noverbose", "nolatency-format",
	"noraw", "nohex", "nobin",
};

/* Made by main() for all tests: to remove an instance takes a tenth of a second. */
static struct {
	char instance[sizeof(TRACING "/instances/filelock.XXXXXX")];
	char problem[160];	/* why there is none */
	int guarded;		/* closed when this process ends, however it ends */
	pid_t guard;
} tracing = { .instance = TRACING "/instances/filelock.XXXXXX" };

struct commands {
	const char *kind;
	int getlk, setlk, setlkw;
};

struct file {
	int fd, other;		/* two opens of it */
};

FIXTURE(alloc) {
	struct file file;
};

FIXTURE_VARIANT(alloc) {
	struct commands commands;
};

FIXTURE_VARIANT_ADD(alloc, posix) {
	.commands = { "POSIX", F_GETLK, F_SETLK, F_SETLKW },
};

FIXTURE_VARIANT_ADD(alloc, ofd) {
	.commands = { "OFD", F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW },
};

static bool starts_with_any(const char *text, const char * const *prefix, size_t count)
{
	while (count--) {
		if (!strncmp(text, prefix[count], strlen(prefix[count])))
			return true;
	}
	return false;
}

static bool problem(const char *what)
{
	snprintf(tracing.problem, sizeof(tracing.problem), "%.100s: %.50s", what,
		 strerror(errno));
	return false;
}

static bool set(const char *file, const char *value)
{
	char path[128];
	ssize_t len = strlen(value);
	bool done;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", tracing.instance, file);
	fd = open(path, O_WRONLY | O_CLOEXEC | (len ? 0 : O_TRUNC));
	done = fd >= 0 && write(fd, value, len) == len;
	if (!done)
		problem(path);
	if (fd >= 0)
		close(fd);
	return done;
}

/* A tracefs that nobody mounted is mounted for this process only. */
static bool find_tracefs(void)
{
	struct stat ns;

	if (geteuid()) {
		snprintf(tracing.problem, sizeof(tracing.problem), "tracefs needs root");
		return false;
	}
	if (!stat("/proc/self/ns/pid", &ns) && ns.st_ino != INIT_PID_NS) {
		snprintf(tracing.problem, sizeof(tracing.problem),
			 "events know a task by its PID in the initial namespace");
		return false;
	}
	if (!access(TRACING "/instances", F_OK))
		return true;
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tracefs", TRACING, "tracefs", 0, NULL))
		return problem("no tracefs at " TRACING);
	return !access(TRACING "/instances", F_OK) || problem(TRACING "/instances");
}

/* The harness ends this program by exit(). */
static void stop_tracing(void)
{
	int status = 0;

	close(tracing.guarded);
	if (waitpid(tracing.guard, &status, 0) == tracing.guard && !status)
		return;
	printf("# %s could not be removed\n", tracing.instance);
	fflush(stdout);
	_exit(KSFT_FAIL);
}

/* A process that removes the instance when this one ends, even by SIGKILL. */
static bool guard_instance(void)
{
	int fd[2];
	char c;

	if (pipe2(fd, O_CLOEXEC))
		return problem("pipe2()");
	tracing.guard = fork();
	if (!tracing.guard) {
		setsid();
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		close(fd[1]);
		while (read(fd[0], &c, 1) < 0 && errno == EINTR)
			;
		_exit(rmdir(tracing.instance) != 0);
	}
	close(fd[0]);
	tracing.guarded = fd[1];
	if (tracing.guard > 0)
		return !atexit(stop_tracing) || problem("atexit()");
	problem("fork()");
	rmdir(tracing.instance);
	return false;
}

static bool start_tracing(void)
{
	char text[64];
	size_t i;

	if (!find_tracefs())
		return false;
	if (!mkdtemp(tracing.instance))
		return problem(tracing.instance);
	if (!guard_instance() || !set("tracing_on", "0") || !set("buffer_size_kb", "64"))
		return false;
	for (i = 0; i < ARRAY_SIZE(option); i++) {
		if (!set("trace_options", option[i]))
			return false;
	}
	for (i = 0; i < ARRAY_SIZE(event); i++) {
		snprintf(text, sizeof(text), "events/kmem/%s/enable", event[i]);
		if (!set(text, "1"))
			return false;
	}
	return true;
}

static void add_site(struct tally *tally, char sign, const char *name)
{
	int i;

	for (i = 0; i < tally->sites; i++) {
		if (tally->site[i].sign == sign && !strcmp(tally->site[i].name, name))
			break;
	}
	if (i == ARRAY_SIZE(tally->site))
		return;
	if (i == tally->sites) {
		snprintf(tally->site[i].name, sizeof(tally->site[i].name), "%s", name);
		tally->site[i].sign = sign;
		tally->sites++;
	}
	tally->site[i].count++;
}

/* comm-pid [cpu] flags time: event: call_site=function+offset/size ptr=... name=cache ... */
static void add_record(struct tally *tally, const char *line)
{
	const char *flags = strstr(line, "] "), *site = strstr(line, ": call_site=");
	const char *cache = strstr(line, " name=");
	char name[80], pid[16];
	bool alloc;

	snprintf(pid, sizeof(pid), "-%d ", getpid());
	if (!flags || !site || !strstr(line, pid))
		return;
	alloc = !strncmp(site - 5, "alloc", 5);
	site += strlen(": call_site=");
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(site, "/ "), site);
	tally->records++;
	if (strchr(name, '+'))
		tally->named = true;
	/* irqs-off, need-resched, hardirq or softirq, preempt-depth, migrate-disable */
	if (flags[4] != '.')
		return;
	if (!starts_with_any(site, lock_function, ARRAY_SIZE(lock_function)) &&
	    (!cache || !starts_with_any(cache + strlen(" name="), lock_cache,
					ARRAY_SIZE(lock_cache))))
		return;
	if (alloc)
		tally->allocs++;
	else
		tally->frees++;
	add_site(tally, alloc ? '+' : '-', name);
}

/* What the buffer lost, and what cannot be told, counts as lost. */
static bool read_trace(struct tally *tally)
{
	unsigned long kept, written;
	char path[128], line[1024];
	FILE *trace;

	memset(tally, 0, sizeof(*tally));
	tally->lost = true;
	snprintf(path, sizeof(path), "%s/trace", tracing.instance);
	trace = fopen(path, "re");
	if (!trace)
		return problem(path);
	while (fgets(line, sizeof(line), trace)) {
		if (*line != '#')
			add_record(tally, line);
		else if (sscanf(line, "# entries-in-buffer/entries-written: %lu/%lu",
				&kept, &written) == 2)
			tally->lost = kept != written;
	}
	fclose(trace);
	return true;
}

static int lock_call(int fd, int cmd, const struct range *range, short *type)
{
	struct flock fl = {
		.l_type = range->type,
		.l_whence = SEEK_SET,
		.l_start = range->start,
		.l_len = range->len == TO_EOF ? 0 : range->len,
	};
	int ret = fcntl(fd, cmd, &fl);

	*type = fl.l_type;
	return ret;
}

/* A new file, opened twice, whose name is gone when this returns. */
static bool open_file(struct file *file)
{
	const char *dir = getenv("TMPDIR");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/alloc.XXXXXX", dir && *dir ? dir : "/tmp");
	file->fd = mkostemp(path, O_CLOEXEC);
	if (file->fd < 0)
		return problem(path);
	file->other = open(path, O_RDWR | O_CLOEXEC);
	if (file->other < 0)
		problem(path);
	unlink(path);
	return file->other >= 0;
}

static void close_file(struct file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	if (file->other >= 0)
		close(file->other);
}

/* Print what a call did, by call site, whether or not it was allowed to. */
static void print_tally(struct __test_metadata *_metadata, const struct commands *commands,
			const struct operation *op, const struct tally *tally)
{
	char text[1024] = "";
	size_t len = 0;
	int i;

	for (i = 0; i < tally->sites && len < sizeof(text); i++)
		len += snprintf(text + len, sizeof(text) - len, "%s %c%d %s", i ? "," : ":",
				tally->site[i].sign, tally->site[i].count, tally->site[i].name);
	TH_LOG("%s: %d allocations (%d allowed), %d frees (kept %d, must keep %d)%s",
	       commands->kind, tally->allocs, op->allowed, tally->frees,
	       tally->allocs - tally->frees, op->kept, text);
}

static void count(struct __test_metadata *_metadata, struct file *file,
		  const struct commands *commands, const struct operation *op,
		  struct tally *tally)
{
	int cmd = op->query ? commands->getlk : op->wait ? commands->setlkw : commands->setlk;
	int ret, error, ret_then = 0;
	short ignored, type = F_UNLCK;

	ASSERT_TRUE(set("trace", "") && set("tracing_on", "1")) {
		TH_LOG("%s", tracing.problem);
	}
	errno = 0;
	ret = op->close ? close(file->fd) : lock_call(file->fd, cmd, &op->call, &type);
	error = errno;
	if (op->then.len)
		ret_then = lock_call(file->fd, commands->setlk, &op->then, &ignored);
	ASSERT_TRUE(set("tracing_on", "0") && read_trace(tally)) {
		TH_LOG("%s", tracing.problem);
	}
	if (op->close)
		file->fd = -1;
	ASSERT_FALSE(tally->lost);
	ASSERT_EQ(0, ret_then);
	if (op->conflict && !op->query) {
		ASSERT_EQ(-1, ret);
		ASSERT_EQ(EAGAIN, error);
		return;
	}
	ASSERT_EQ(0, ret) {
		TH_LOG("%s", strerror(error));
	}
	if (op->query)
		ASSERT_EQ(op->conflict, type != F_UNLCK);
}

static void measure(struct __test_metadata *_metadata, struct file *file,
		    const struct commands *commands, const struct operation *op)
{
	struct tally tally;
	short ignored;
	size_t i;

	if (op->first) {
		close_file(file);
		ASSERT_TRUE(open_file(file)) {
			TH_LOG("%s", tracing.problem);
		}
	}
	for (i = 0; i < ARRAY_SIZE(op->own) && op->own[i].len; i++)
		ASSERT_EQ(0, lock_call(file->fd, commands->setlk, &op->own[i], &ignored));
	/* An open file description is somebody else to the locks of any kind. */
	if (op->other.len)
		ASSERT_EQ(0, lock_call(file->other, F_OFD_SETLK, &op->other, &ignored));
	count(_metadata, file, commands, op, &tally);
	print_tally(_metadata, commands, op, &tally);
	ASSERT_EQ(op->kept, tally.allocs - tally.frees);
	if (tally.allocs > op->allowed && !ksft_min_kernel_version(7, 3))
		SKIP(return, "a limit for Linux 7.3 and later");
	EXPECT_LE(tally.allocs, op->allowed);
}

/* Leaves a file without locks that had one, and a counter that is known to see. */
FIXTURE_SETUP(alloc)
{
	static const struct operation first = {
		.call = { F_WRLCK, 0, 10 }, .allowed = LOCK + CONTEXT, .kept = 2,
	};
	static const struct range all = { F_UNLCK, 0, TO_EOF };
	struct tally tally;
	char pid[16];
	short ignored;

	self->file.fd = -1;
	self->file.other = -1;
	if (*tracing.problem)
		SKIP(return, "%s", tracing.problem);
	snprintf(pid, sizeof(pid), "%d", getpid());
	ASSERT_TRUE(set("set_event_pid", pid) && open_file(&self->file)) {
		TH_LOG("%s", tracing.problem);
	}
	count(_metadata, &self->file, &variant->commands, &first, &tally);
	if (tally.records && !tally.named)
		SKIP(return, "call sites have no names: no CONFIG_KALLSYMS?");
	/* The lock and the context of the inode. */
	ASSERT_EQ(2, tally.allocs - tally.frees) {
		print_tally(_metadata, &variant->commands, &first, &tally);
		TH_LOG("the counter does not see the lock: look at lock_function[]");
	}
	ASSERT_EQ(0, lock_call(self->file.fd, variant->commands.setlk, &all, &ignored));
}

FIXTURE_TEARDOWN(alloc)
{
	close_file(&self->file);
}

#define ALLOC_TEST(test, ...)						\
static const struct operation test##_operation = { __VA_ARGS__ };	\
TEST_F(alloc, test)							\
{									\
	measure(_metadata, &self->file, &variant->commands, &test##_operation);	\
}

ALLOC_TEST(getlk_without_context, .first = true, .query = true,
	   .call = { F_WRLCK, 0, 10 }, .allowed = QUERY, .kept = 0)
ALLOC_TEST(getlk_unlocked, .query = true,
	   .call = { F_WRLCK, 0, 10 }, .allowed = QUERY, .kept = 0)
ALLOC_TEST(getlk_own, .query = true, .own = {{ F_WRLCK, 0, 10 }},
	   .call = { F_WRLCK, 0, 10 }, .allowed = QUERY, .kept = 0)
ALLOC_TEST(getlk_unrelated, .query = true, .other = { F_WRLCK, 20, 10 },
	   .call = { F_WRLCK, 0, 10 }, .allowed = QUERY, .kept = 0)
ALLOC_TEST(getlk_conflict, .query = true, .conflict = true, .other = { F_WRLCK, 0, 10 },
	   .call = { F_WRLCK, 0, 10 }, .allowed = QUERY, .kept = 0)

ALLOC_TEST(lock_first_of_inode, .first = true,
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK + CONTEXT, .kept = 2)
ALLOC_TEST(lock,
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK, .kept = 1)
ALLOC_TEST(lock_wait, .wait = true,
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK, .kept = 1)
ALLOC_TEST(lock_beside_own, .own = {{ F_WRLCK, 20, 10 }},
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK, .kept = 1)
ALLOC_TEST(lock_beside_other, .other = { F_WRLCK, 20, 10 },
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK, .kept = 1)
ALLOC_TEST(lock_again, .own = {{ F_WRLCK, 0, 10 }},
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK, .kept = 0)
ALLOC_TEST(lock_merge, .own = {{ F_WRLCK, 0, 10 }},
	   .call = { F_WRLCK, 10, 10 }, .allowed = LOCK, .kept = 0)
ALLOC_TEST(lock_merge_two, .own = {{ F_WRLCK, 0, 10 }, { F_WRLCK, 20, 10 }},
	   .call = { F_WRLCK, 10, 10 }, .allowed = LOCK, .kept = -1)
ALLOC_TEST(lock_conflict, .conflict = true, .other = { F_WRLCK, 0, 10 },
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK, .kept = 0)
ALLOC_TEST(lock_and_unlock,
	   .call = { F_WRLCK, 0, 10 }, .then = { F_UNLCK, 0, 10 },
	   .allowed = LOCK + UNLOCK, .kept = 0)

ALLOC_TEST(retype_exact, .own = {{ F_RDLCK, 0, 10 }},
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK, .kept = 0)
ALLOC_TEST(retype_start, .own = {{ F_RDLCK, 0, 30 }},
	   .call = { F_WRLCK, 0, 10 }, .allowed = LOCK, .kept = 1)
ALLOC_TEST(retype_end, .own = {{ F_RDLCK, 0, 30 }},
	   .call = { F_WRLCK, 20, 10 }, .allowed = LOCK, .kept = 1)
ALLOC_TEST(retype_inside, .own = {{ F_RDLCK, 0, 30 }},
	   .call = { F_WRLCK, 10, 10 }, .allowed = LOCK_INSIDE, .kept = 2)

ALLOC_TEST(unlock_without_context, .first = true,
	   .call = { F_UNLCK, 0, 10 }, .allowed = UNLOCK_ALL, .kept = 0)
ALLOC_TEST(unlock_nothing,
	   .call = { F_UNLCK, 0, 10 }, .allowed = UNLOCK, .kept = 0)
ALLOC_TEST(unlock_beside_own, .own = {{ F_WRLCK, 20, 10 }},
	   .call = { F_UNLCK, 0, 10 }, .allowed = UNLOCK, .kept = 0)
ALLOC_TEST(unlock_exact, .own = {{ F_WRLCK, 0, 10 }},
	   .call = { F_UNLCK, 0, 10 }, .allowed = UNLOCK, .kept = -1)
ALLOC_TEST(unlock_to_eof, .own = {{ F_WRLCK, 0, 10 }},
	   .call = { F_UNLCK, 0, TO_EOF }, .allowed = UNLOCK_ALL, .kept = -1)
ALLOC_TEST(unlock_two, .own = {{ F_WRLCK, 0, 10 }, { F_RDLCK, 10, 10 }},
	   .call = { F_UNLCK, 0, 20 }, .allowed = UNLOCK, .kept = -2)
ALLOC_TEST(unlock_start, .own = {{ F_WRLCK, 0, 30 }},
	   .call = { F_UNLCK, 0, 10 }, .allowed = UNLOCK, .kept = 0)
ALLOC_TEST(unlock_end, .own = {{ F_WRLCK, 0, 30 }},
	   .call = { F_UNLCK, 20, 10 }, .allowed = UNLOCK, .kept = 0)
ALLOC_TEST(unlock_split, .own = {{ F_WRLCK, 0, 30 }},
	   .call = { F_UNLCK, 10, 10 }, .allowed = UNLOCK_INSIDE, .kept = 1)
ALLOC_TEST(close, .close = true, .own = {{ F_WRLCK, 0, 10 }},
	   .allowed = 0, .kept = -1)

int main(int argc, char **argv)
{
	start_tracing();
	return test_harness_run(argc, argv);
}
