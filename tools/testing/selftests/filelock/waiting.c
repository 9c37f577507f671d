// SPDX-License-Identifier: GPL-2.0
/*
 * waiting: callers of F_SETLKW and F_OFD_SETLKW that sleep, and what ends that
 *
 * Each party to a lock is an actor: a process with an open file description of
 * its own, or a thread of such a process. It makes the calls that the test posts
 * for it and stores their results in shared memory.
 *
 * No verdict depends on time. Nothing but fcntl() lets an actor sleep
 * interruptibly between the moment it stores "entered" and the one it stores
 * "done". So it is blocked if /proc says that it sleeps (S) after "entered" was
 * seen and "done" is still not stored after that. This works for POSIX and OFD
 * locks alike and on kernels whose /proc/locks does not list a waiter that is
 * blocked by another waiter. A request is on its list before its caller sleeps,
 * and a caller that is woken is not in state S when the waker returns: to see it
 * sleep means that it has looked at the locks again. LIMIT only ends a test that
 * hangs.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include "kselftest_harness.h"

#define LIMIT		30	/* seconds for a test, if nothing goes on */
#define TIMEOUT		(LIMIT + 10)
#define LATE		(-1)	/* no errno: the call has not returned */
#define NO_ANSWER	(-2)	/* no pid: F_GETLK has failed */
#define CLOSE_ROUNDS	50
#define RACE_ROUNDS	200
#define CROWD		1200	/* processes that wait for one lock, at most */
#define CROWD_LEAST	100	/* and if these take longer than START_TIME */
#define START_TIME	2	/* seconds */
#define TRIES		20	/* to read /proc/locks */
#define OFFSET_MAX	INT64_MAX

enum op { LOCK, TURN, OPEN, CLOSE, DUP2, THREAD, SIGNAL_CROWD, EXIT };

struct kind {
	int set, setw, get;
	const char *name;
};

static const struct kind posix = { F_SETLK, F_SETLKW, F_GETLK, "POSIX " };
static const struct kind ofd = { F_OFD_SETLK, F_OFD_SETLKW, F_OFD_GETLK, "OFDLCK" };

struct actor {
	pid_t pid, tid;
	sem_t go;

	/* The call. */
	enum op op;
	int cmd;
	struct flock fl;
	struct actor *thread;

	/* What became of it. */
	int entered, done, err;
	bool changed;		/* the caller's struct flock */
	int signals;		/* that the handler has seen */
};

/* Memory of all processes. */
static struct shared {
	int nr_actors;
	/* Who has a lock in TURN, and how often that excluded somebody else. */
	int readers, writers, intrusions;
	struct actor actor[CROWD + 1];
} *shared;

static const struct kind *kind;
static int path_fd;		/* O_PATH: its close() releases no locks */
static int file = -1;		/* this process's own description */
static char id[64];		/* of the file, as in /proc/locks */
static char want[4096];		/* what /proc/locks should say of it */
static char seen[2 << 20];	/* a waiter is indented by those before it */
static bool lists_all;		/* also waiters that are blocked by waiters */
static time_t deadline;
static __thread struct actor *me;

#define load(p)		__atomic_load_n(p, __ATOMIC_SEQ_CST)
#define store(p, v)	__atomic_store_n(p, v, __ATOMIC_SEQ_CST)
#define add(p, n)	__atomic_add_fetch(p, n, __ATOMIC_SEQ_CST)

/*
 * What actors do
 */

static void note_signal(int sig __maybe_unused)
{
	if (me)
		add(&me->signals, 1);
}

/* SIGALRM ends a system call, SIGUSR1 does not. */
static int install_handlers(void)
{
	struct sigaction act = { .sa_handler = note_signal };

	if (sigaction(SIGALRM, &act, NULL))
		return -1;
	act.sa_flags = SA_RESTART;
	return sigaction(SIGUSR1, &act, NULL);
}

static struct flock request(short type, off_t start, off_t len)
{
	return (struct flock) {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = len,
	};
}

/* Returns 0 or the errno, as all calls here. */
static int lock_call(int cmd, short type, off_t start, off_t len)
{
	struct flock fl = request(type, start, len);

	return fcntl(file, cmd, &fl) ? errno : 0;
}

/* Not memcmp(), as the padding between the fields has no defined value. */
static bool same_lock(const struct flock *a, const struct flock *b)
{
	return a->l_type == b->l_type && a->l_whence == b->l_whence &&
	       a->l_start == b->l_start && a->l_len == b->l_len &&
	       a->l_pid == b->l_pid;
}

/* To be alone, or among readers, is what a lock is for. */
static void use_lock(short type)
{
	bool alone;

	if (type == F_WRLCK) {
		alone = add(&shared->writers, 1) == 1 && !load(&shared->readers);
		sched_yield();
		add(&shared->writers, -1);
	} else {
		add(&shared->readers, 1);
		alone = !load(&shared->writers);
		sched_yield();
		add(&shared->readers, -1);
	}
	if (!alone)
		add(&shared->intrusions, 1);
}

static bool open_file(void)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	file = open(path, O_RDWR | O_CLOEXEC);
	return file >= 0;
}

/* A pipe can be locked too, and nobody else knows this one. */
static bool put_other_file(void)
{
	int fd[2];
	bool ok;

	if (pipe2(fd, O_CLOEXEC))
		return false;
	ok = dup2(fd[1], file) == file;
	close(fd[0]);
	close(fd[1]);
	return ok;
}

static bool reopen(void)
{
	close(file);
	return open_file();
}

/* One third of the crowd gives up, one third dies, one third goes on waiting. */
enum fate { STAYS, GIVES_UP, DIES, FATES };

static enum fate fate_of(const struct actor *a)
{
	return (a - shared->actor) % FATES;
}

static void signal_crowd(void)
{
	struct actor *a;

	for (a = shared->actor; a < shared->actor + shared->nr_actors; a++)
		if (a != me && fate_of(a) == GIVES_UP)
			kill(a->pid, SIGALRM);
		else if (a != me && fate_of(a) == DIES)
			kill(a->pid, SIGKILL);
}

static int wait_for_lock(struct actor *a)
{
	struct flock fl = a->fl;
	int ret;

	store(&a->entered, 1);
	ret = fcntl(file, a->cmd, &fl);
	if (ret)
		return errno;
	a->changed = !same_lock(&fl, &a->fl);
	return 0;
}

/* Who may be killed inside is not counted. */
static int take_turn(struct actor *a)
{
	int err = wait_for_lock(a);

	if (err)
		return err;
	if (fate_of(a) != DIES)
		use_lock(a->fl.l_type);
	return lock_call(kind->set, F_UNLCK, 0, 0);
}

static void *act(void *actor);

static int perform(struct actor *a)
{
	pthread_t thread;

	switch (a->op) {
	case LOCK:
		return wait_for_lock(a);
	case TURN:
		return take_turn(a);
	case OPEN:
		return reopen() ? 0 : errno;
	case CLOSE:
		return close(file) ? errno : 0;
	case DUP2:
		return put_other_file() ? 0 : errno;
	case THREAD:
		a->thread->pid = a->pid;
		return pthread_create(&thread, NULL, act, a->thread);
	case SIGNAL_CROWD:
		signal_crowd();
		return 0;
	case EXIT:
		break;
	}
	_exit(0);
}

static void *act(void *actor)
{
	me = actor;
	me->tid = syscall(SYS_gettid);
	for (;;) {
		while (sem_wait(&me->go))
			;
		me->err = perform(me);
		store(&me->done, 1);
	}
	return NULL;
}

/*
 * How a test uses them
 */

static time_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static bool in_time(void)
{
	return seconds() < deadline;
}

static struct actor *new_actor(void)
{
	struct actor *a = &shared->actor[shared->nr_actors];

	if (shared->nr_actors == CROWD + 1 || sem_init(&a->go, 1, 0))
		return NULL;
	shared->nr_actors++;
	return a;
}

/* The child keeps nothing open that the test has locks with. */
static struct actor *try_start(void)
{
	pid_t parent = getpid();
	struct actor *a = new_actor();

	if (!a)
		return NULL;
	a->pid = fork();
	if (a->pid < 0) {
		shared->nr_actors--;
		return NULL;
	}
	if (a->pid) {
		a->tid = a->pid;
		return a;
	}
	a->pid = getpid();
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || !reopen())
		_exit(1);
	act(a);
	_exit(1);
}

static void post(struct actor *a, enum op op)
{
	a->op = op;
	a->changed = false;
	store(&a->entered, 0);
	store(&a->done, 0);
	sem_post(&a->go);
}

static void begin(struct actor *a, int cmd, short type, off_t start, off_t len)
{
	a->cmd = cmd;
	a->fl = request(type, start, len);
	post(a, LOCK);
}

static void await(struct actor *a, short type, off_t start, off_t len)
{
	begin(a, kind->setw, type, start, len);
}

/* The errno of the call posted last, 0, or LATE. */
static int finish(struct actor *a)
{
	while (!load(&a->done)) {
		if (!in_time())
			return LATE;
		sched_yield();
	}
	return a->err;
}

static int perform_now(struct actor *a, enum op op)
{
	post(a, op);
	return finish(a);
}

static int take(struct actor *a, short type, off_t start, off_t len)
{
	begin(a, kind->set, type, start, len);
	return finish(a);
}

static struct actor *start(struct __test_metadata *_metadata)
{
	struct actor *a = try_start();

	ASSERT_TRUE(!!a)
		TH_LOG("no new process: %s", strerror(errno));
	return a;
}

static struct actor *start_thread(struct __test_metadata *_metadata, struct actor *a)
{
	a->thread = new_actor();
	ASSERT_TRUE(!!a->thread);
	ASSERT_EQ(0, perform_now(a, THREAD));
	return a->thread;
}

static char state_of(const struct actor *a)
{
	char path[64], text[512], *end;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", a->pid, a->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 'X';
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : 'X';
}

static bool blocked(struct actor *a)
{
	char state;

	while (in_time()) {
		state = load(&a->entered) ? state_of(a) : 'R';
		if (load(&a->done) || state == 'X' || state == 'Z')
			return false;
		if (state == 'S')
			return true;
		sched_yield();
	}
	return false;
}

static void interrupt(const struct actor *a, int sig)
{
	syscall(SYS_tgkill, a->pid, a->tid, sig);
}

static bool handled(struct actor *a, int signals)
{
	while (load(&a->signals) < signals) {
		if (!in_time())
			return false;
		sched_yield();
	}
	return true;
}

/* A process that has been waited for has no files and so no locks any more. */
static int reap(const struct actor *a)
{
	int status;

	return waitpid(a->pid, &status, 0) == a->pid ? status : -1;
}

static int end(const struct actor *a)
{
	kill(a->pid, SIGKILL);
	return reap(a);
}

/* The test is a party of its own. */
static int take_self(short type, off_t start, off_t len)
{
	return lock_call(kind->set, type, start, len);
}

static pid_t owner(const struct actor *a)
{
	return kind == &ofd ? -1 : a->pid;
}

/* Who else has a lock there: as l_pid says, or 0. */
static pid_t holder(off_t start, off_t len)
{
	struct flock fl = request(F_WRLCK, start, len);

	if (fcntl(file, kind->get, &fl))
		return NO_ANSWER;
	return fl.l_type == F_UNLCK ? 0 : fl.l_pid;
}

/*
 * /proc/locks
 */

static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t ret;

	while (fd >= 0 && len < size - 1) {
		ret = read(fd, text + len, size - 1 - len);
		if (ret <= 0)
			break;
		len += ret;
	}
	text[len] = '\0';
	if (fd >= 0)
		close(fd);
	return len;
}

/*
 * Leaves of /proc/locks the lines about the file, without the number at their
 * beginning. A waiter has the number of the lock it waits for.
 */
static void read_own_lines(void)
{
	char *line, *next, *text, *to = seen;
	long number, last = 0;
	size_t len;

	read_text("/proc/locks", seen, sizeof(seen));
	for (line = seen; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		len = next - line;
		if (!memmem(line, len, id, strlen(id)))
			continue;
		number = strtol(line, &text, 10);
		if (strncmp(text, ": ", 2) || (memmem(line, len, "-> ", 3) && number != last))
			text = line;
		else
			text += 2;
		last = number;
		memmove(to, text, next - text);
		to += next - text;
	}
	*to = '\0';
}

/*
 * The kernel makes the list anew for each read() of some 4 KiB. What others lock
 * meanwhile can hide a line or show it twice, so a wrong one is read again.
 */
static const char *listed(const char *text)
{
	int tries = TRIES;

	do
		read_own_lines();
	while (strcmp(text, seen) && --tries);
	return seen;
}

static void want_nothing(void)
{
	want[0] = '\0';
}

/* Level 0 is a lock, 1 waits for it, 2 waits for one of level 1. */
static void want_line(int level, pid_t pid, const char *type, const char *range)
{
	size_t len = strlen(want);

	if (level > 1 && !lists_all)
		return;
	snprintf(want + len, sizeof(want) - len, "%*s%s ADVISORY  %s %d%s%s\n",
		 level ? level + 2 : 0, level ? "-> " : "", kind->name, type,
		 kind == &ofd ? -1 : pid, id, range);
}

/*
 * Fixtures
 */

static void set_up(struct __test_metadata *_metadata, const struct kind *k)
{
	const char *dir = getenv("TMPDIR");
	char path[PATH_MAX], text[4096], *line;
	struct utsname kernel;
	int fd, fields, major, minor;

	deadline = seconds() + LIMIT;
	kind = k;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_FALSE(shared == MAP_FAILED);
	ASSERT_EQ(0, install_handlers());

	/* A file without a name, opened again through a descriptor. */
	snprintf(path, sizeof(path), "%s/waiting.XXXXXX", dir && *dir ? dir : "/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	ASSERT_LE(0, fd)
		TH_LOG("%s: %s", path, strerror(errno));
	path_fd = open(path, O_PATH | O_CLOEXEC);
	unlink(path);
	ASSERT_LE(0, path_fd);
	close(fd);
	ASSERT_TRUE(open_file())
		TH_LOG("opening a file through /proc: %s", strerror(errno));

	/* Device and inode may be others than stat() says. */
	ASSERT_EQ(0, take_self(F_WRLCK, 0, 0));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", file);
	ASSERT_TRUE(read_text(path, text, sizeof(text)));
	line = strstr(text, "lock:\t");
	ASSERT_TRUE(!!line);
	fields = sscanf(line, "lock:%*s%*s%*s%*s%*d%61s", id + 1);
	ASSERT_EQ(1, fields)
		TH_LOG("%s", line);
	id[0] = ' ';
	strcat(id, " ");
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 0));
	want_nothing();
	ASSERT_STREQ(want, listed(want));

	/* Linux 5.10 does not list them, 5.15 does. */
	ASSERT_EQ(0, uname(&kernel));
	fields = sscanf(kernel.release, "%d.%d", &major, &minor);
	ASSERT_EQ(2, fields);
	lists_all = major > 5 || (major == 5 && minor >= 15);
}

/* Nothing remains of a test but what its actors still have. */
static void tear_down(struct __test_metadata *_metadata)
{
	struct actor *a;

	if (!shared || shared == MAP_FAILED)
		return;
	for (a = shared->actor; a < shared->actor + shared->nr_actors; a++)
		if (a->pid > 0 && a->pid == a->tid)
			end(a);
	close(file);
	EXPECT_STREQ("", listed(""));
}

FIXTURE(waiting) {};

FIXTURE_VARIANT(waiting)
{
	const struct kind *kind;
};

FIXTURE_VARIANT_ADD(waiting, posix) { .kind = &posix };
FIXTURE_VARIANT_ADD(waiting, ofd) { .kind = &ofd };

FIXTURE_SETUP(waiting)
{
	set_up(_metadata, variant->kind);
}

FIXTURE_TEARDOWN(waiting)
{
	tear_down(_metadata);
}

/*
 * Ends that give the lock
 */

TEST_F_TIMEOUT(waiting, unlock_wakes, TIMEOUT)
{
	struct actor *a = start(_metadata);

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(a, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(a));

	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, finish(a));
	EXPECT_FALSE(a->changed);
	EXPECT_EQ(owner(a), holder(0, 10));
	want_line(0, a->pid, "WRITE", "0 9");
	EXPECT_STREQ(want, listed(want));
}

/* Each change of the lock wakes, but only what no longer conflicts gets through. */
TEST_F_TIMEOUT(waiting, shortening_wakes, TIMEOUT)
{
	struct actor *head = start(_metadata), *tail = start(_metadata),
		     *middle = start(_metadata);

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 100));
	await(head, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(head));
	await(middle, F_RDLCK, 40, 10);
	EXPECT_TRUE(blocked(middle));
	await(tail, F_WRLCK, 90, 10);
	EXPECT_TRUE(blocked(tail));

	/* A hole next to each of them. */
	ASSERT_EQ(0, take_self(F_UNLCK, 10, 10));
	EXPECT_TRUE(blocked(head));
	EXPECT_TRUE(blocked(middle));
	EXPECT_TRUE(blocked(tail));
	ASSERT_EQ(0, take_self(F_UNLCK, 50, 40));
	EXPECT_TRUE(blocked(head));
	EXPECT_TRUE(blocked(middle));
	EXPECT_TRUE(blocked(tail));

	ASSERT_EQ(0, take_self(F_UNLCK, 0, 5));
	EXPECT_TRUE(blocked(head));
	ASSERT_EQ(0, take_self(F_UNLCK, 5, 5));
	EXPECT_EQ(0, finish(head));
	ASSERT_EQ(0, take_self(F_UNLCK, 30, 20));
	EXPECT_EQ(0, finish(middle));
	EXPECT_TRUE(blocked(tail));
	ASSERT_EQ(0, take_self(F_UNLCK, 90, 0));
	EXPECT_EQ(0, finish(tail));
}

/* Also past a writer that waits before them. */
TEST_F_TIMEOUT(waiting, downgrade_lets_readers_in, TIMEOUT)
{
	struct actor *first = start(_metadata), *writer = start(_metadata),
		     *last = start(_metadata);

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(first, F_RDLCK, 0, 10);
	EXPECT_TRUE(blocked(first));
	await(writer, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(writer));
	await(last, F_RDLCK, 0, 10);
	EXPECT_TRUE(blocked(last));

	ASSERT_EQ(0, take_self(F_RDLCK, 0, 10));
	EXPECT_EQ(0, finish(first));
	EXPECT_EQ(0, finish(last));
	EXPECT_TRUE(blocked(writer));

	/* The writer needs all of them to go. */
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 0));
	EXPECT_TRUE(blocked(writer));
	EXPECT_EQ(0, take(first, F_UNLCK, 0, 0));
	EXPECT_TRUE(blocked(writer));
	EXPECT_EQ(0, take(last, F_UNLCK, 0, 0));
	EXPECT_EQ(0, finish(writer));
	EXPECT_EQ(owner(writer), holder(0, 10));
}

/* Any descriptor of the file for POSIX locks, the last of the description for OFD. */
TEST_F_TIMEOUT(waiting, close_wakes, TIMEOUT)
{
	struct actor *a = start(_metadata);
	int copy;

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(a, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(a));

	copy = dup(file);
	ASSERT_LE(0, copy);
	ASSERT_EQ(0, close(copy));
	if (kind == &ofd) {
		EXPECT_TRUE(blocked(a));
		ASSERT_EQ(0, close(file));
		file = -1;
	}
	EXPECT_EQ(0, finish(a));
}

/* What a child does to what it inherits: POSIX locks are not among that. */
TEST_F_TIMEOUT(waiting, child_closes_and_unlocks, TIMEOUT)
{
	struct actor *a = start(_metadata);
	pid_t child;

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(a, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(a));

	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(close(file));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	EXPECT_TRUE(blocked(a));

	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(take_self(F_UNLCK, 0, 10));
	ASSERT_EQ(child, waitpid(child, NULL, 0));
	if (kind == &posix) {
		EXPECT_TRUE(blocked(a));
		ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	}
	EXPECT_EQ(0, finish(a));
}

TEST_F_TIMEOUT(waiting, exit_wakes, TIMEOUT)
{
	struct actor *leaves = start(_metadata), *killed = start(_metadata),
		     *a = start(_metadata);

	ASSERT_EQ(0, take(leaves, F_RDLCK, 0, 10));
	ASSERT_EQ(0, take(killed, F_RDLCK, 5, 10));
	await(a, F_WRLCK, 0, 20);
	EXPECT_TRUE(blocked(a));

	post(leaves, EXIT);
	EXPECT_EQ(0, reap(leaves));
	EXPECT_TRUE(blocked(a));
	EXPECT_EQ(SIGKILL, end(killed));
	EXPECT_EQ(0, finish(a));
	EXPECT_EQ(owner(a), holder(0, 0));
	leaves->pid = 0;
	killed->pid = 0;
}

/*
 * Signals
 */

TEST_F_TIMEOUT(waiting, signal_ends_it, TIMEOUT)
{
	struct actor *a = start(_metadata);
	int i;

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	for (i = 1; i <= 10; i++) {
		await(a, F_WRLCK, 0, 10);
		EXPECT_TRUE(blocked(a));
		interrupt(a, SIGALRM);
		EXPECT_EQ(EINTR, finish(a));
		EXPECT_EQ(i, a->signals);
	}

	/* It waits no more, and has not got anything. */
	want_line(0, getpid(), "WRITE", "0 9");
	EXPECT_STREQ(want, listed(want));
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, holder(0, 0));
}

TEST_F_TIMEOUT(waiting, signal_with_restart_does_not, TIMEOUT)
{
	struct actor *a = start(_metadata);
	int i;

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(a, F_RDLCK, 2, 3);
	EXPECT_TRUE(blocked(a));
	for (i = 1; i <= 10; i++) {
		interrupt(a, SIGUSR1);
		EXPECT_TRUE(handled(a, i));
		EXPECT_TRUE(blocked(a));
	}

	/* It waits once. */
	want_line(0, getpid(), "WRITE", "0 9");
	want_line(1, a->pid, "READ", "2 4");
	EXPECT_STREQ(want, listed(want));
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, finish(a));
}

/* A stop is no end either. Who is stopped does not wait, but asks again later. */
TEST_F_TIMEOUT(waiting, stop_and_continue, TIMEOUT)
{
	struct actor *a = start(_metadata);
	int status;

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(a, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(a));

	kill(a->pid, SIGSTOP);
	ASSERT_EQ(a->pid, waitpid(a->pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	want_line(0, getpid(), "WRITE", "0 9");
	EXPECT_STREQ(want, listed(want));

	kill(a->pid, SIGCONT);
	EXPECT_TRUE(blocked(a));
	want_line(1, a->pid, "WRITE", "0 9");
	EXPECT_STREQ(want, listed(want));
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, finish(a));
}

/* The first, the second, the last of three waiters, each blocked by the one before. */
TEST_F_TIMEOUT(waiting, killed_waiter_leaves_nothing, TIMEOUT)
{
	static const char * const range[] = { "0 9", "1 9", "2 9" };
	struct actor *a[3];
	int victim, i, level;

	for (victim = 0; victim < 3; victim++) {
		ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
		for (i = 0; i < 3; i++) {
			a[i] = start(_metadata);
			a[i]->cmd = kind->setw;
			a[i]->fl = request(F_WRLCK, i, 10 - i);
			post(a[i], TURN);
			EXPECT_TRUE(blocked(a[i]));
		}
		EXPECT_EQ(SIGKILL, end(a[victim]));
		a[victim]->pid = 0;

		want_nothing();
		want_line(0, getpid(), "WRITE", "0 9");
		for (i = 0, level = 1; i < 3; i++) {
			if (i == victim)
				continue;
			EXPECT_TRUE(blocked(a[i]));
			want_line(level++, a[i]->pid, "WRITE", range[i]);
		}
		EXPECT_STREQ(want, listed(want));

		ASSERT_EQ(0, take_self(F_UNLCK, 0, 0));
		for (i = 0; i < 3; i++)
			if (i != victim)
				EXPECT_EQ(0, finish(a[i]));
		EXPECT_EQ(0, holder(0, 0));
	}
}

/*
 * Waiters that are blocked by waiters
 */

/* Who gets the lock takes those over who waited behind it. */
TEST_F_TIMEOUT(waiting, chain_moves_with_the_lock, TIMEOUT)
{
	struct actor *a = start(_metadata), *low = start(_metadata), *high = start(_metadata);

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(a, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(a));
	await(low, F_WRLCK, 0, 5);
	EXPECT_TRUE(blocked(low));
	await(high, F_RDLCK, 5, 5);
	EXPECT_TRUE(blocked(high));

	want_line(0, getpid(), "WRITE", "0 9");
	want_line(1, a->pid, "WRITE", "0 9");
	want_line(2, low->pid, "WRITE", "0 4");
	want_line(2, high->pid, "READ", "5 9");
	EXPECT_STREQ(want, listed(want));

	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, finish(a));
	EXPECT_TRUE(blocked(low));
	EXPECT_TRUE(blocked(high));
	want_nothing();
	want_line(0, a->pid, "WRITE", "0 9");
	want_line(1, low->pid, "WRITE", "0 4");
	want_line(1, high->pid, "READ", "5 9");
	EXPECT_STREQ(want, listed(want));

	EXPECT_EQ(0, take(a, F_UNLCK, 0, 5));
	EXPECT_EQ(0, finish(low));
	EXPECT_TRUE(blocked(high));
	EXPECT_EQ(0, take(a, F_UNLCK, 5, 5));
	EXPECT_EQ(0, finish(high));
}

/* Who gives up leaves those behind it to the lock they all waited for. */
TEST_F_TIMEOUT(waiting, chain_survives_who_gives_up, TIMEOUT)
{
	struct actor *a = start(_metadata), *b = start(_metadata), *c = start(_metadata);

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(a, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(a));
	await(b, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(b));
	await(c, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(c));

	interrupt(a, SIGALRM);
	EXPECT_EQ(EINTR, finish(a));
	EXPECT_TRUE(blocked(b));
	EXPECT_TRUE(blocked(c));
	want_line(0, getpid(), "WRITE", "0 9");
	want_line(1, b->pid, "WRITE", "0 9");
	want_line(2, c->pid, "WRITE", "0 9");
	EXPECT_STREQ(want, listed(want));

	/* Behind the lock of the test again, and not lost with b. */
	interrupt(b, SIGALRM);
	EXPECT_EQ(EINTR, finish(b));
	EXPECT_TRUE(blocked(c));
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, finish(c));
}

/*
 * Deadlocks. Only POSIX locks have an owner that can be asked what it waits for.
 */

/* Each has one byte and asks for the next one's, the last for the first one's. */
static void wait_in_a_ring(struct __test_metadata *_metadata, int n)
{
	struct actor *a[3], *last;
	int i;

	for (i = 0; i < n; i++) {
		a[i] = start(_metadata);
		ASSERT_EQ(0, take(a[i], F_WRLCK, i, 1));
	}
	for (i = 0; i < n - 1; i++) {
		await(a[i], F_WRLCK, i + 1, 1);
		EXPECT_TRUE(blocked(a[i]));
	}
	last = a[n - 1];
	await(last, F_WRLCK, 0, 1);
	if (kind == &ofd) {
		EXPECT_TRUE(blocked(last));
		interrupt(last, SIGALRM);
		EXPECT_EQ(EINTR, finish(last));
	} else {
		EXPECT_EQ(EDEADLK, finish(last));
	}

	/* That has cost it nothing, nor helped the others. */
	EXPECT_EQ(owner(last), holder(n - 1, 1));
	for (i = 0; i < n - 1; i++)
		EXPECT_TRUE(blocked(a[i]));
	for (i = n - 1; i > 0; i--) {
		EXPECT_EQ(0, take(a[i], F_UNLCK, 0, 0));
		EXPECT_EQ(0, finish(a[i - 1]));
	}
}

TEST_F_TIMEOUT(waiting, deadlock_of_two, TIMEOUT)
{
	wait_in_a_ring(_metadata, 2);
}

TEST_F_TIMEOUT(waiting, deadlock_of_three, TIMEOUT)
{
	wait_in_a_ring(_metadata, 3);
}

TEST_F_TIMEOUT(waiting, deadlock_of_readers_that_want_to_write, TIMEOUT)
{
	struct actor *a = start(_metadata), *b = start(_metadata);

	ASSERT_EQ(0, take(a, F_RDLCK, 0, 10));
	ASSERT_EQ(0, take(b, F_RDLCK, 0, 10));
	await(a, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(a));
	await(b, F_WRLCK, 0, 10);
	if (kind == &ofd) {
		EXPECT_TRUE(blocked(b));
		interrupt(b, SIGALRM);
		EXPECT_EQ(EINTR, finish(b));
	} else {
		EXPECT_EQ(EDEADLK, finish(b));
	}
	EXPECT_TRUE(blocked(a));
	EXPECT_EQ(0, take(b, F_UNLCK, 0, 0));
	EXPECT_EQ(0, finish(a));
}

/* Who has given up, or got what it waited for, is in nobody's way. */
TEST_F_TIMEOUT(waiting, no_deadlock_with_who_waits_no_more, TIMEOUT)
{
	struct actor *a = start(_metadata), *b = start(_metadata);

	ASSERT_EQ(0, take(a, F_WRLCK, 0, 1));
	ASSERT_EQ(0, take(b, F_WRLCK, 1, 1));
	await(b, F_WRLCK, 0, 1);
	EXPECT_TRUE(blocked(b));
	interrupt(b, SIGALRM);
	EXPECT_EQ(EINTR, finish(b));
	await(a, F_WRLCK, 1, 1);
	EXPECT_TRUE(blocked(a));
	interrupt(a, SIGALRM);
	EXPECT_EQ(EINTR, finish(a));

	await(b, F_WRLCK, 0, 1);
	EXPECT_TRUE(blocked(b));
	EXPECT_EQ(0, take(a, F_UNLCK, 0, 1));
	EXPECT_EQ(0, finish(b));
	await(a, F_WRLCK, 0, 2);
	EXPECT_TRUE(blocked(a));
	EXPECT_EQ(0, take(b, F_UNLCK, 0, 0));
	EXPECT_EQ(0, finish(a));
}

/*
 * /proc/locks and fdinfo
 */

TEST_F_TIMEOUT(waiting, proc_format, TIMEOUT)
{
	struct actor *r = start(_metadata), *w = start(_metadata), *behind = start(_metadata),
		     *last = start(_metadata);
	char path[64], text[4096], *line;

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 0));
	await(r, F_RDLCK, 5, 1);
	EXPECT_TRUE(blocked(r));
	await(w, F_WRLCK, 100, 0);
	EXPECT_TRUE(blocked(w));
	await(behind, F_RDLCK, OFFSET_MAX, 1);
	EXPECT_TRUE(blocked(behind));
	await(last, F_WRLCK, OFFSET_MAX - 1, 2);
	EXPECT_TRUE(blocked(last));

	/* The number of a line and the ": " are looked at where it is read. */
	want_line(0, getpid(), "WRITE", "0 EOF");
	want_line(1, r->pid, "READ", "5 5");
	want_line(1, w->pid, "WRITE", "100 EOF");
	want_line(2, behind->pid, "READ", "9223372036854775807 EOF");
	want_line(3, last->pid, "WRITE", "9223372036854775806 EOF");
	EXPECT_STREQ(want, listed(want));

	/* What others wait for is not the holder's. */
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", file);
	ASSERT_TRUE(read_text(path, text, sizeof(text)));
	line = strstr(text, "lock:\t");
	ASSERT_TRUE(!!line);
	EXPECT_EQ(0, strncmp("lock:\t1: ", line, 9))
		TH_LOG("%s", line);
	want_nothing();
	want_line(0, getpid(), "WRITE", "0 EOF");
	EXPECT_STREQ(want, line + 9);

	ASSERT_EQ(0, take_self(F_RDLCK, 0, 0));
	EXPECT_EQ(0, finish(r));
	EXPECT_EQ(0, take(r, F_UNLCK, 0, 0));
	EXPECT_EQ(0, finish(behind));
	EXPECT_EQ(0, take(behind, F_UNLCK, 0, 0));
	EXPECT_TRUE(blocked(last));
	want_nothing();
	want_line(0, getpid(), "READ", "0 EOF");
	want_line(1, w->pid, "WRITE", "100 EOF");
	want_line(2, last->pid, "WRITE", "9223372036854775806 EOF");
	EXPECT_STREQ(want, listed(want));
}

/*
 * Who the owner is
 */

FIXTURE(owner) {};

FIXTURE_SETUP(owner)
{
	set_up(_metadata, &posix);
}

FIXTURE_TEARDOWN(owner)
{
	tear_down(_metadata);
}

TEST_F_TIMEOUT(owner, threads_do_not_block_each_other, TIMEOUT)
{
	struct actor *a = start(_metadata), *thread = start_thread(_metadata, a);

	ASSERT_EQ(0, take(a, F_WRLCK, 0, 10));
	await(thread, F_WRLCK, 5, 10);
	EXPECT_EQ(0, finish(thread));
	want_line(0, a->pid, "WRITE", "0 14");
	EXPECT_STREQ(want, listed(want));
	EXPECT_EQ(0, take(thread, F_UNLCK, 0, 0));
}

/* They wait for others side by side, and one unlock is enough for both. */
TEST_F_TIMEOUT(owner, threads_wait_together, TIMEOUT)
{
	struct actor *a = start(_metadata), *thread = start_thread(_metadata, a);

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(a, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(a));
	await(thread, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(thread));
	want_line(0, getpid(), "WRITE", "0 9");
	want_line(1, a->pid, "WRITE", "0 9");
	want_line(1, a->pid, "WRITE", "0 9");
	EXPECT_STREQ(want, listed(want));

	/* A signal for one is not one for the other. */
	interrupt(thread, SIGALRM);
	EXPECT_EQ(EINTR, finish(thread));
	EXPECT_TRUE(blocked(a));
	await(thread, F_WRLCK, 0, 10);
	EXPECT_TRUE(blocked(thread));
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, finish(a));
	EXPECT_EQ(0, finish(thread));
}

/* It is a deadlock to the kernel even if a second thread could still unlock. */
TEST_F_TIMEOUT(owner, threads_share_a_deadlock, TIMEOUT)
{
	struct actor *a = start(_metadata), *thread = start_thread(_metadata, a),
		     *other = start(_metadata);

	ASSERT_EQ(0, take(thread, F_WRLCK, 0, 1));
	ASSERT_EQ(0, take(other, F_WRLCK, 1, 1));
	await(other, F_WRLCK, 0, 1);
	EXPECT_TRUE(blocked(other));
	await(a, F_WRLCK, 1, 1);
	EXPECT_EQ(EDEADLK, finish(a));
	interrupt(other, SIGALRM);
	EXPECT_EQ(EINTR, finish(other));

	/* The other way round: the thread that waits is not the one that locked. */
	await(a, F_WRLCK, 1, 1);
	EXPECT_TRUE(blocked(a));
	await(other, F_WRLCK, 0, 1);
	EXPECT_EQ(EDEADLK, finish(other));
	EXPECT_EQ(0, take(thread, F_UNLCK, 0, 0));
	EXPECT_EQ(0, take(other, F_UNLCK, 0, 0));
	EXPECT_EQ(0, finish(a));
}

/* A process and its own description are two owners, and this is no deadlock. */
TEST_F_TIMEOUT(owner, two_kinds_in_one_process, TIMEOUT)
{
	struct actor *a = start(_metadata);

	begin(a, F_OFD_SETLK, F_WRLCK, 10, 10);
	ASSERT_EQ(0, finish(a));
	begin(a, F_SETLK, F_WRLCK, 15, 1);
	EXPECT_EQ(EAGAIN, finish(a));
	begin(a, F_SETLKW, F_WRLCK, 15, 1);
	EXPECT_TRUE(blocked(a));
	interrupt(a, SIGALRM);
	EXPECT_EQ(EINTR, finish(a));
	begin(a, F_OFD_SETLK, F_UNLCK, 0, 0);
	ASSERT_EQ(0, finish(a));

	begin(a, F_SETLK, F_WRLCK, 15, 1);
	ASSERT_EQ(0, finish(a));
	begin(a, F_OFD_SETLK, F_RDLCK, 10, 10);
	EXPECT_EQ(EAGAIN, finish(a));
	begin(a, F_OFD_SETLKW, F_WRLCK, 10, 10);
	EXPECT_TRUE(blocked(a));
	interrupt(a, SIGALRM);
	EXPECT_EQ(EINTR, finish(a));
	want_line(0, a->pid, "WRITE", "15 15");
	EXPECT_STREQ(want, listed(want));
}

/*
 * The descriptor goes away while a thread waits for a lock on it. The thread must
 * not keep a lock that nothing would release. An OFD lock goes with the last
 * reference to the description, which is that of the call itself.
 */

FIXTURE(closing) {};

FIXTURE_VARIANT(closing)
{
	const struct kind *kind;
	enum op op;
};

FIXTURE_VARIANT_ADD(closing, posix_close) { .kind = &posix, .op = CLOSE };
FIXTURE_VARIANT_ADD(closing, posix_dup2) { .kind = &posix, .op = DUP2 };
FIXTURE_VARIANT_ADD(closing, ofd_close) { .kind = &ofd, .op = CLOSE };
FIXTURE_VARIANT_ADD(closing, ofd_dup2) { .kind = &ofd, .op = DUP2 };

FIXTURE_SETUP(closing)
{
	set_up(_metadata, variant->kind);
}

FIXTURE_TEARDOWN(closing)
{
	tear_down(_metadata);
}

TEST_F_TIMEOUT(closing, holder_exits_later, TIMEOUT)
{
	struct actor *closer = start(_metadata), *waiter = start_thread(_metadata, closer);
	struct actor *holder_of_it;
	int i;

	for (i = 0; i < CLOSE_ROUNDS; i++) {
		holder_of_it = start(_metadata);
		ASSERT_EQ(0, take(holder_of_it, F_WRLCK, 0, 10));
		ASSERT_EQ(0, perform_now(closer, OPEN));
		await(waiter, F_WRLCK, 0, 10);
		ASSERT_TRUE(blocked(waiter));

		ASSERT_EQ(0, perform_now(closer, variant->op));
		EXPECT_TRUE(blocked(waiter));
		post(holder_of_it, EXIT);
		EXPECT_EQ(0, reap(holder_of_it));
		holder_of_it->pid = 0;

		ASSERT_EQ(kind == &posix ? EBADF : 0, finish(waiter));
		ASSERT_EQ(0, holder(0, 0))
			TH_LOG("round %d: a lock is left", i);
	}
	EXPECT_STREQ("", listed(""));
}

/* In any order: the wait may begin before or after the close, and end so too. */
TEST_F_TIMEOUT(closing, race, TIMEOUT)
{
	struct actor *closer = start(_metadata), *waiter = start_thread(_metadata, closer);
	int i, err;

	for (i = 0; i < RACE_ROUNDS; i++) {
		ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
		ASSERT_EQ(0, perform_now(closer, OPEN));
		await(waiter, F_WRLCK, 0, 10);
		if (i % 2)
			ASSERT_TRUE(blocked(waiter));
		if (i % 4 < 2) {
			post(closer, variant->op);
			ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
		} else {
			ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
			post(closer, variant->op);
		}
		ASSERT_EQ(0, finish(closer));
		err = finish(waiter);
		ASSERT_TRUE(err == 0 || (err == EBADF && (kind == &posix || i % 2 == 0)))
			TH_LOG("round %d: %s", i, err == LATE ? "hangs" : strerror(err));
		ASSERT_EQ(0, holder(0, 0))
			TH_LOG("round %d: a lock is left after errno %d", i, err);
	}
	EXPECT_STREQ("", listed(""));
}

TEST_F_TIMEOUT(closing, then_a_signal, TIMEOUT)
{
	struct actor *closer = start(_metadata), *waiter = start_thread(_metadata, closer);

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	await(waiter, F_WRLCK, 0, 10);
	ASSERT_TRUE(blocked(waiter));
	ASSERT_EQ(0, perform_now(closer, variant->op));

	/* A call that is made again finds out. */
	interrupt(waiter, SIGUSR1);
	EXPECT_EQ(variant->op == DUP2 ? 0 : EBADF, finish(waiter));

	ASSERT_EQ(0, perform_now(closer, OPEN));
	await(waiter, F_WRLCK, 0, 10);
	ASSERT_TRUE(blocked(waiter));
	ASSERT_EQ(0, perform_now(closer, variant->op));
	interrupt(waiter, SIGALRM);
	EXPECT_EQ(EINTR, finish(waiter));

	want_line(0, getpid(), "WRITE", "0 9");
	EXPECT_STREQ(want, listed(want));
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, holder(0, 0));
}

/*
 * Readers and writers, usually more than a thousand, wait for one lock. A third is
 * interrupted and a third killed while the lock goes round among the others.
 */

FIXTURE(crowd) {};

FIXTURE_VARIANT(crowd)
{
	const struct kind *kind;
};

FIXTURE_VARIANT_ADD(crowd, posix) { .kind = &posix };
FIXTURE_VARIANT_ADD(crowd, ofd) { .kind = &ofd };

FIXTURE_SETUP(crowd)
{
	set_up(_metadata, variant->kind);
}

FIXTURE_TEARDOWN(crowd)
{
	tear_down(_metadata);
}

/* Fewer on a slow machine, or where there may not be so many processes. */
static int start_crowd(void)
{
	time_t enough = seconds() + START_TIME;
	struct actor *a;
	int i;

	for (i = 0; i < CROWD && (i < CROWD_LEAST || seconds() <= enough); i++) {
		a = try_start();
		if (!a)
			break;
		a->cmd = kind->setw;
		a->fl = request(i % 4 ? F_WRLCK : F_RDLCK, 0, 10);
		post(a, TURN);
	}
	return i;
}

static int nr_listed(int expected)
{
	int n, tries = TRIES;
	const char *line;

	do {
		read_own_lines();
		for (n = 0, line = seen; *line; line += strcspn(line, "\n") + 1)
			n++;
	} while (n != expected && --tries);
	return n;
}

TEST_F_TIMEOUT(crowd, gives_up, TIMEOUT)
{
	struct actor *sender = start(_metadata), *crowd = sender + 1, *a;
	int n, err, status, interrupted = 0;

	ASSERT_EQ(0, take_self(F_WRLCK, 0, 10));
	n = start_crowd();
	if (n < FATES)
		SKIP(return, "no processes: %s", strerror(errno));
	for (a = crowd; a < crowd + n; a++)
		ASSERT_TRUE(blocked(a));
	if (lists_all)
		EXPECT_EQ(1 + n, nr_listed(1 + n));

	post(sender, SIGNAL_CROWD);
	do {
		use_lock(F_WRLCK);
		ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
		ASSERT_EQ(0, lock_call(kind->setw, F_WRLCK, 0, 10));
	} while (!load(&sender->done) && in_time());
	use_lock(F_WRLCK);
	ASSERT_EQ(0, take_self(F_UNLCK, 0, 10));
	EXPECT_EQ(0, finish(sender));

	for (a = crowd; a < crowd + n; a++) {
		if (fate_of(a) == DIES) {
			status = reap(a);
			a->pid = 0;
			ASSERT_EQ(SIGKILL, status);
			continue;
		}
		err = finish(a);
		ASSERT_TRUE(err == 0 || (err == EINTR && fate_of(a) == GIVES_UP))
			TH_LOG("%d: %s", (int)(a - crowd), err == LATE ? "hangs" : strerror(err));
		interrupted += err == EINTR;
	}
	TH_LOG("%d waiters, %d of them interrupted", n, interrupted);
	EXPECT_EQ(0, shared->intrusions);
	EXPECT_EQ(0, holder(0, 0));
	EXPECT_STREQ("", listed(""));
}

TEST_HARNESS_MAIN
