// SPDX-License-Identifier: GPL-2.0
/*
 * Lock calls on files of a filesystem with a ->lock of its own: FUSE.
 *
 * The filesystem is a process of the test that speaks the protocol of /dev/fuse. The one
 * file is the root of its mount, and that is attached nowhere: nothing is left when the
 * descriptors are closed. The server answers lock requests as the test has planned, or
 * when the test tells it to, and reports each one.
 */

#define OWN_FIXTURE
#include "common.h"
#include <linux/fuse.h>
#include <linux/mount.h>
#include <poll.h>
#include <pthread.h>
#include <sys/uio.h>

#define MINOR_VERSION	31	/* of the protocol, that of Linux 5.2 */

/* How the server answers lock requests; in memory that it shares with the test. */
struct plan {
	int error;			/* as on the wire: 0 or -errno */
	struct fuse_file_lock lk;	/* what FUSE_GETLK is told */
	int more;			/* so many bytes more than it should send, or less */
	bool keep;			/* not before the test says so */
	bool die;			/* it does not */
};

/* One request, as the server reports it. */
struct report {
	uint32_t opcode;		/* or 0: the outcome of an order */
	int result;
	uint32_t pid;
	uint64_t unique;		/* of FUSE_INTERRUPT: the request it is about */
	uint64_t owner;
	struct fuse_file_lock lk;
};

/* Answer a request that was kept. */
struct reply {
	uint64_t unique;
	int error;
};

struct server {
	pid_t pid;
	int orders, reports;
	struct plan *plan;
};

static int answer(int device, uint64_t unique, int error, const void *data, size_t size)
{
	struct fuse_out_header out = { .error = error, .unique = unique };
	struct iovec parts[] = { { &out, sizeof(out) }, { (void *)data, error ? 0 : size } };

	out.len = parts[0].iov_len + parts[1].iov_len;
	return writev(device, parts, ARRAY_SIZE(parts)) < 0 ? errno : 0;
}

static void answer_lock(int device, const struct fuse_in_header *in, const struct plan *plan)
{
	char data[2 * sizeof(struct fuse_lk_out)] = {};
	size_t size = 0;

	if (plan->die)
		_exit(0);
	if (plan->keep)
		return;
	if (in->opcode == FUSE_GETLK) {
		memcpy(data, &plan->lk, sizeof(plan->lk));
		size = sizeof(struct fuse_lk_out);
	}
	answer(device, in->unique, plan->error, data, size + plan->more);
}

/*
 * One request from the kernel. Returns false when there will be no more. The plan is the
 * one from before the report: the test may change it when it has that.
 */
static bool serve_one(int device, int reports, uint32_t flags, const struct plan *shared)
{
	static char buffer[FUSE_MIN_READ_BUFFER + 4096];
	const struct fuse_in_header *in = (void *)buffer;
	const void *arg = in + 1;
	struct report report = {};
	ssize_t size = read(device, buffer, sizeof(buffer));
	const struct plan plan = *shared;

	if (size < 0)
		return errno == EINTR || errno == EAGAIN || errno == ENOENT;
	report.opcode = in->opcode;
	report.unique = in->unique;
	report.pid = in->pid;

	switch (in->opcode) {
	case FUSE_INIT: {
		struct fuse_init_out out = {
			.major = FUSE_KERNEL_VERSION,
			.minor = MINOR_VERSION,
			.flags = flags,
			.max_write = 4096,
		};

		answer(device, in->unique, 0, &out, sizeof(out));
		return true;
	}
	case FUSE_OPEN: {
		struct fuse_open_out out = {};

		answer(device, in->unique, 0, &out, sizeof(out));
		return true;
	}
	case FUSE_GETLK:
	case FUSE_SETLK:
	case FUSE_SETLKW: {
		const struct fuse_lk_in *lk = arg;

		report.owner = lk->owner;
		report.lk = lk->lk;
		write(reports, &report, sizeof(report));
		answer_lock(device, in, &plan);
		return true;
	}
	case FUSE_INTERRUPT: {
		const struct fuse_interrupt_in *interrupt = arg;

		report.unique = interrupt->unique;
		write(reports, &report, sizeof(report));
		return true;
	}
	case FUSE_FLUSH: {
		const struct fuse_flush_in *flush = arg;

		report.owner = flush->lock_owner;
		write(reports, &report, sizeof(report));
		answer(device, in->unique, 0, NULL, 0);
		return true;
	}
	case FUSE_RELEASE:
		answer(device, in->unique, 0, NULL, 0);
		return true;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		return true;
	default:
		answer(device, in->unique, -EOPNOTSUPP, NULL, 0);
		return true;
	}
}

static void serve(int device, int orders, int reports, uint32_t flags, const struct plan *plan)
{
	struct pollfd fds[] = { { orders, POLLIN, 0 }, { device, POLLIN, 0 } };
	struct reply reply;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (poll(fds, ARRAY_SIZE(fds), -1) > 0) {
		if (fds[0].revents) {
			struct report report = {};

			if (read(orders, &reply, sizeof(reply)) != sizeof(reply))
				break;
			report.unique = reply.unique;
			report.result = answer(device, reply.unique, reply.error, NULL, 0);
			write(reports, &report, sizeof(report));
		} else if (fds[1].revents && !serve_one(device, reports, flags, plan)) {
			break;
		}
	}
}

/* The next report of this kind. If there is none, the harness ends the test. */
static struct report wait_for(const struct server *server, uint32_t opcode)
{
	struct report report;

	while (read(server->reports, &report, sizeof(report)) == sizeof(report)) {
		if (report.opcode == opcode)
			return report;
	}
	return (struct report){ .opcode = ~0u, .result = TOUCHED };
}

/* Returns 0 or the errno that the server got for its answer. */
static int reply(const struct server *server, uint64_t unique, int error)
{
	struct reply order = { unique, error };

	if (write(server->orders, &order, sizeof(order)) != sizeof(order))
		return TOUCHED;
	return wait_for(server, 0).result;
}

/* A call of another process that may not return at once; end() gets what it returned. */
static void begin(const struct party *party, int fd, enum op op, struct lock lock)
{
	struct order order = { CALL, fd, op, party->ofd, party->entry, lock, 0 };

	write(party->to, &order, sizeof(order));
}

static int end(const struct party *party)
{
	struct order order;

	return read(party->from, &order, sizeof(order)) == sizeof(order) ? order.result : TOUCHED;
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return done;
}

/* Whoever is not root may mount FUSE in a user namespace, where that is allowed. */
static bool may_mount(void)
{
	unsigned int uid = geteuid(), gid = getegid();
	char map[32];

	if (!uid)
		return true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", uid);
	return write_file("/proc/self/uid_map", map);
}

static bool configure(int fs, const char *key, const char *format, unsigned int value)
{
	char text[16];

	snprintf(text, sizeof(text), format, value);
	return !syscall(__NR_fsconfig, fs, FSCONFIG_SET_STRING, key, text, 0);
}

/* Returns the descriptor of a mount whose root is a regular file, or -1 and errno. */
static int mount_file(int device)
{
	int fs = syscall(__NR_fsopen, "fuse", FSOPEN_CLOEXEC), mount = -1, err;

	if (fs < 0)
		return -1;
	if (configure(fs, "fd", "%u", device) && configure(fs, "rootmode", "%o", S_IFREG | 0600) &&
	    configure(fs, "user_id", "%u", geteuid()) &&
	    configure(fs, "group_id", "%u", getegid()) &&
	    !syscall(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		mount = syscall(__NR_fsmount, fs, FSMOUNT_CLOEXEC, 0);
	err = errno;
	close(fs);
	errno = err;
	return mount;
}

/*
 * Mounts, starts the server and opens the file. Returns NULL, or why it cannot be done.
 * @flags are those of FUSE_INIT. The device is the server's alone, so that the
 * connection ends with it.
 */
static const char *mount_and_serve(struct server *server, int *fd, uint32_t flags)
{
	static char reason[128];
	int device, mount = -1, orders[2], reports[2];
	const char *what = "unshare";
	char path[32];

	if (!may_mount())
		goto fail;
	what = "/dev/fuse";
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (device < 0)
		goto fail;
	what = "mount";
	mount = mount_file(device);
	if (mount < 0)
		goto fail;
	what = "server";
	server->plan = mmap(NULL, sizeof(*server->plan), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (server->plan == MAP_FAILED || pipe2(orders, O_CLOEXEC) || pipe2(reports, O_CLOEXEC))
		goto fail;
	server->pid = fork();
	if (!server->pid) {
		close(mount);
		close(orders[1]);
		serve(device, orders[0], reports[1], flags, server->plan);
		_exit(0);
	}
	if (server->pid < 0)
		goto fail;
	close(device);
	close(orders[0]);
	close(reports[1]);
	server->orders = orders[1];
	server->reports = reports[0];
	what = "open";
	snprintf(path, sizeof(path), "/proc/self/fd/%d", mount);
	*fd = open(path, O_RDWR | O_CLOEXEC);
	if (*fd >= 0) {
		close(mount);
		return NULL;
	}
fail:
	snprintf(reason, sizeof(reason), "no FUSE here: %s: %s", what, strerror(errno));
	return reason;
}

/* A caller waits for an answer even when it is killed, so the server goes first. */
static void stop_server(struct server *server)
{
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
}

FIXTURE(fuse)
{
	struct server server;
	struct party me, other;		/* both with the same descriptor of the file */
};

FIXTURE_VARIANT(fuse)
{
	int entry;
	bool ofd;
};

FIXTURE_VARIANT_ADD(fuse, posix) { .entry = NATIVE };
FIXTURE_VARIANT_ADD(fuse, ofd) { .entry = NATIVE, .ofd = true };
#ifdef HAVE_LEGACY
FIXTURE_VARIANT_ADD(fuse, legacy_posix) { .entry = LEGACY };
#endif
#ifdef HAVE_INT80
FIXTURE_VARIANT_ADD(fuse, compat64_posix) { .entry = COMPAT64 };
FIXTURE_VARIANT_ADD(fuse, compat64_ofd) { .entry = COMPAT64, .ofd = true };
FIXTURE_VARIANT_ADD(fuse, compat_posix) { .entry = COMPAT };
#endif

static void nothing(int signal)
{
	(void)signal;
}

FIXTURE_SETUP(fuse)
{
	struct sigaction action = { .sa_handler = nothing };
	const char *reason;

	self->me.entry = &entries[variant->entry];
	self->me.ofd = variant->ofd;
	self->me.pid = getpid();
	self->me.peer = &self->other;
	self->other.peer = &self->me;
	if (self->me.entry->int80 && !int80_works())
		SKIP(return, "the kernel has no IA32 emulation");
	reason = mount_and_serve(&self->server, &self->me.fd, FUSE_POSIX_LOCKS);
	if (reason)
		SKIP(return, "%s", reason);
	/* The other process inherits both: one signal ends a call, one does not. */
	sigaction(SIGUSR1, &action, NULL);
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR2, &action, NULL);
	self->other.entry = self->me.entry;
	self->other.ofd = self->me.ofd;
	self->other.fd = self->me.fd;
	ASSERT_TRUE(start(&self->other));
}

FIXTURE_TEARDOWN(fuse)
{
	stop_server(&self->server);
	stop(&self->other);
}

/* The server learns who asks for which bytes, each time, and nothing is kept here. */
TEST_F(fuse, requests)
{
	static const struct {
		enum op op;
		struct lock lock;
		uint32_t opcode;
		uint64_t start, end;
	} table[] = {
		{ GET, RD(10, 5), FUSE_GETLK, 10, 14 },
		{ GET, WR(0, 0), FUSE_GETLK, 0, MAX_OFFSET },
		{ SET, RD(0, 1), FUSE_SETLK, 0, 0 },
		{ SET, WR(100, -10), FUSE_SETLK, 90, 99 },
		{ SET, WR(100, -10), FUSE_SETLK, 90, 99 },
		{ GET, WR(90, 10), FUSE_GETLK, 90, 99 },
		{ SET, UN(95, 0), FUSE_SETLK, 95, MAX_OFFSET },
		{ SETW, WR(7, 0), FUSE_SETLKW, 7, MAX_OFFSET },
		{ SETW, UN(7, 1), FUSE_SETLKW, 7, 7 },
	};
	uint64_t owner = 0;
	size_t i;

	self->server.plan->lk.type = F_UNLCK;
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		struct lock lock = table[i].lock, before = lock;
		struct report seen;

		EXPECT_EQ(0, do_call(&self->me, self->me.fd, table[i].op, &lock));
		if (table[i].op == GET)
			before.type = F_UNLCK;
		EXPECT_EQ(0, memcmp(&before, &lock, sizeof(lock)));
		seen = wait_for(&self->server, table[i].opcode);
		EXPECT_EQ(table[i].start, seen.lk.start) {
			TH_LOG("row %zu", i);
		}
		EXPECT_EQ(table[i].end, seen.lk.end);
		EXPECT_EQ((uint32_t)table[i].lock.type, seen.lk.type);
		EXPECT_EQ((uint32_t)getpid(), seen.pid);
		if (table[i].op != GET && table[i].lock.type != F_UNLCK)
			EXPECT_EQ((uint32_t)getpid(), seen.lk.pid);
		if (owner)
			EXPECT_EQ(owner, seen.owner);
		owner = seen.owner;
		EXPECT_STREQ("", held(&self->me));
	}
}

/* POSIX locks belong to the table of descriptors, OFD locks to the open file description. */
TEST_F(fuse, owners)
{
	const struct server *server = &self->server;
	struct party another_kind = self->me;
	uint64_t mine, same, reopened, others, posix;
	int again, copy;

	ASSERT_EQ(0, set(&self->me, WR(0, 1)));
	mine = wait_for(server, FUSE_SETLK).owner;

	copy = party_dup(&self->me, self->me.fd);
	ASSERT_EQ(0, set_on(&self->me, copy, WR(0, 1)));
	same = wait_for(server, FUSE_SETLK).owner;
	EXPECT_EQ(mine, same);

	again = party_open(&self->me, self->me.fd, O_RDWR);
	ASSERT_EQ(0, set_on(&self->me, again, WR(0, 1)));
	reopened = wait_for(server, FUSE_SETLK).owner;

	ASSERT_EQ(0, set(&self->other, WR(0, 1)));
	others = wait_for(server, FUSE_SETLK).owner;
	if (variant->ofd) {
		EXPECT_NE(mine, reopened);
		EXPECT_EQ(mine, others);
	} else {
		EXPECT_EQ(mine, reopened);
		EXPECT_NE(mine, others);
	}

	another_kind.ofd = !variant->ofd;
	another_kind.entry = &entries[NATIVE];
	ASSERT_EQ(0, set(&another_kind, WR(0, 1)));
	posix = wait_for(server, FUSE_SETLK).owner;
	EXPECT_NE(mine, posix);
	if (!variant->ofd)
		posix = mine;

	/* Who closes: the server has to drop the POSIX locks. */
	ASSERT_EQ(0, close(again));
	EXPECT_EQ(posix, wait_for(server, FUSE_FLUSH).owner);
}

/* What F_GETLK makes of an answer, the impossible ones included. */
TEST_F(fuse, answers)
{
	enum { PEER = 1, NOBODY = 0x7fffffff };
	static const struct {
		uint64_t start, end;
		uint32_t type, pid;
		const char *text;
	} table[] = {
		{ 100, 149, F_RDLCK, PEER, "RD 100+50 of peer" },
		{ 0, 0, F_WRLCK, PEER, "WR 0+1 of peer" },
		{ 5, MAX_OFFSET, F_WRLCK, PEER, "WR 5+0 of peer" },
		{ 0, MAX_OFFSET, F_RDLCK, PEER, "RD 0+0 of peer" },
		{ MAX_OFFSET, MAX_OFFSET, F_WRLCK, PEER, "WR 9223372036854775807+0 of peer" },
		{ MAX_OFFSET - 1, MAX_OFFSET - 1, F_WRLCK, PEER,
		  "WR 9223372036854775806+1 of peer" },
		{ 1ULL << 31, (1ULL << 31) + 9, F_RDLCK, PEER, "RD 2147483648+10 of peer" },

		/* no lock: the range and the pid mean nothing */
		{ 0, 0, F_UNLCK, PEER, "UN 10+5" },
		{ 10, 9, F_UNLCK, PEER, "UN 10+5" },
		{ UINT64_MAX, UINT64_MAX, F_UNLCK, NOBODY, "UN 10+5" },

		/* no such process: the owner is not told */
		{ 0, 9, F_WRLCK, NOBODY, "WR 0+10 pid 0" },
		{ 0, 9, F_WRLCK, (uint32_t)-1, "WR 0+10 pid 0" },
		{ 0, 9, F_WRLCK, 0x80000000, "WR 0+10 pid 0" },
		{ 0, 9, F_WRLCK, 0, "WR 0+10 pid 0" },

		/* no such lock */
		{ 10, 9, F_WRLCK, PEER, "EIO" },
		{ 10, 0, F_RDLCK, PEER, "EIO" },
		{ 0, MAX_OFFSET + 1ULL, F_WRLCK, PEER, "EIO" },
		{ 0, UINT64_MAX, F_WRLCK, PEER, "EIO" },
		{ MAX_OFFSET + 1ULL, UINT64_MAX, F_WRLCK, PEER, "EIO" },
		{ UINT64_MAX, 0, F_WRLCK, PEER, "EIO" },
		{ 0, 9, 3, PEER, "EIO" },
		{ 0, 9, 99, PEER, "EIO" },
		{ 0, 9, 0x100 | F_WRLCK, PEER, "EIO" },
		{ 0, 9, (uint32_t)-1, PEER, "EIO" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		struct fuse_file_lock *lk = &self->server.plan->lk;
		const char *text = table[i].text;

		lk->start = table[i].start;
		lk->end = table[i].end;
		lk->type = table[i].type;
		lk->pid = table[i].pid == PEER ? (uint32_t)self->other.pid : table[i].pid;
		if (strstr(text, "peer") && !fits(self->me.entry, table[i].start))
			text = "EOVERFLOW";
		else if (variant->ofd && strstr(text, "pid 0"))
			text = "WR 0+10 of peer";
		EXPECT_STREQ(text, ask(&self->me, WR(10, 5))) {
			TH_LOG("row %zu", i);
		}
	}
}

/* The errno of the server is that of the call, and the caller's structure is left alone. */
TEST_F(fuse, errors)
{
	static const int errors[] = {
		EPERM, ENOENT, EIO, EBADF, EAGAIN, EACCES, EINVAL, EDEADLK, ENOLCK, EOVERFLOW, 511
	};
	struct lock lock = WR(10, 5);
	enum op op;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		self->server.plan->error = -errors[i];
		for (op = GET; op <= SETW; op++)
			EXPECT_EQ(errors[i], do_call(&self->me, self->me.fd, op, &lock)) {
				TH_LOG("operation %d", op);
			}
	}
	self->server.plan->error = 0;
	EXPECT_EQ(0, set(&self->me, lock));
}

/* Answers of a wrong length are an error of the server. */
TEST_F(fuse, lengths)
{
	struct plan *plan = self->server.plan;

	plan->lk.type = F_UNLCK;
	plan->more = 8;
	EXPECT_STREQ("EIO", ask(&self->me, WR(0, 1)));
	EXPECT_EQ(EIO, set(&self->me, WR(0, 1)));
	plan->more = -8;
	EXPECT_STREQ("EIO", ask(&self->me, WR(0, 1)));
	plan->more = -(int)sizeof(struct fuse_lk_out);
	EXPECT_STREQ("EIO", ask(&self->me, WR(0, 1)));
	plan->more = 0;
	EXPECT_STREQ("UN 0+1", ask(&self->me, WR(0, 1)));
}

/*
 * Numbers that have a meaning inside the kernel are refused; 1 is FILE_LOCK_DEFERRED,
 * which would make the call wait for somebody who wakes it.
 */
TEST_F(fuse, no_errno)
{
	static const int errors[] = { 1, 11, INT32_MAX, -512, -513, -529, -4095, INT32_MIN };
	struct report seen;
	enum op op;
	size_t i;

	self->server.plan->keep = true;
	for (op = SET; op <= SETW; op++) {
		begin(&self->other, self->other.fd, op, WR(0, 10));
		seen = wait_for(&self->server, op == SET ? FUSE_SETLK : FUSE_SETLKW);
		for (i = 0; i < ARRAY_SIZE(errors); i++)
			EXPECT_EQ(EINVAL, reply(&self->server, seen.unique, errors[i])) {
				TH_LOG("%d", errors[i]);
			}
		EXPECT_EQ(ENOENT, reply(&self->server, seen.unique + 1000, 0));
		EXPECT_EQ(0, reply(&self->server, seen.unique, -ENOLCK));
		EXPECT_EQ(ENOLCK, end(&self->other));
		EXPECT_EQ(ENOENT, reply(&self->server, seen.unique, 0));
	}
}

/* While one caller waits, others are answered. */
TEST_F(fuse, late_answer)
{
	struct report seen;

	self->server.plan->lk.type = F_UNLCK;
	self->server.plan->keep = true;
	begin(&self->other, self->other.fd, SETW, WR(0, 10));
	seen = wait_for(&self->server, FUSE_SETLKW);
	self->server.plan->keep = false;
	EXPECT_EQ(0, set(&self->me, WR(20, 10)));
	EXPECT_STREQ("UN 0+10", ask(&self->me, WR(0, 10)));
	EXPECT_EQ(0, set(&self->me, UN(0, 0)));
	EXPECT_EQ(0, reply(&self->server, seen.unique, 0));
	EXPECT_EQ(0, end(&self->other));
}

/* A request that a signal interrupts; what the server says to that decides. */
static struct report interrupt(const struct server *server, const struct party *caller,
			       enum op op, int signal)
{
	static const uint32_t opcodes[] = { FUSE_GETLK, FUSE_SETLK, FUSE_SETLKW };
	struct report seen, other;

	server->plan->keep = true;
	begin(caller, caller->fd, op, WR(0, 10));
	seen = wait_for(server, opcodes[op]);
	kill(caller->pid, signal);
	other = wait_for(server, FUSE_INTERRUPT);
	seen.result = other.unique == seen.unique ? 0 : TOUCHED;
	return seen;
}

TEST_F(fuse, signal)
{
	struct report seen;
	enum op op;

	for (op = GET; op <= SETW; op++) {
		seen = interrupt(&self->server, &self->other, op, SIGUSR1);
		ASSERT_EQ(0, seen.result);
		ASSERT_EQ(0, reply(&self->server, seen.unique, -EINTR));
		EXPECT_EQ(EINTR, end(&self->other));
	}
}

TEST_F(fuse, signal_with_restart)
{
	struct report seen, again;
	enum op op;

	for (op = SET; op <= SETW; op++) {
		seen = interrupt(&self->server, &self->other, op, SIGUSR2);
		ASSERT_EQ(0, seen.result);
		ASSERT_EQ(0, reply(&self->server, seen.unique, -EINTR));
		again = wait_for(&self->server, op == SET ? FUSE_SETLK : FUSE_SETLKW);
		EXPECT_NE(seen.unique, again.unique);
		EXPECT_EQ(seen.owner, again.owner);
		EXPECT_EQ(0, memcmp(&seen.lk, &again.lk, sizeof(seen.lk)));
		ASSERT_EQ(0, reply(&self->server, again.unique, 0));
		EXPECT_EQ(0, end(&self->other));
	}
}

TEST_F(fuse, signal_too_late)
{
	struct report seen;
	enum op op;

	for (op = SET; op <= SETW; op++) {
		seen = interrupt(&self->server, &self->other, op, SIGUSR1);
		ASSERT_EQ(0, seen.result);
		ASSERT_EQ(0, reply(&self->server, seen.unique, 0));
		EXPECT_EQ(0, end(&self->other));
	}
}

/* A caller that is killed is gone once it is answered, and the server learns of that. */
TEST_F(fuse, killed_caller)
{
	static const int errors[] = { 0, -EINTR, -EDEADLK };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		struct party caller = self->other;
		struct report seen;
		uint64_t owner;
		int status;

		ASSERT_TRUE(start(&caller));
		/* which POSIX locks have; it is what the last close tells */
		self->server.plan->keep = false;
		caller.ofd = false;
		caller.entry = &entries[NATIVE];
		ASSERT_EQ(0, set(&caller, RD(0, 1)));
		owner = wait_for(&self->server, FUSE_SETLK).owner;

		caller.ofd = variant->ofd;
		caller.entry = self->other.entry;
		seen = interrupt(&self->server, &caller, SETW, SIGKILL);
		ASSERT_EQ(0, seen.result);
		ASSERT_EQ(0, reply(&self->server, seen.unique, errors[i]));
		ASSERT_EQ(caller.pid, waitpid(caller.pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		EXPECT_EQ(owner, wait_for(&self->server, FUSE_FLUSH).owner);
		close(caller.to);
		close(caller.from);
	}
	self->server.plan->keep = false;
	EXPECT_EQ(0, set(&self->me, WR(0, 10)));
}

TEST_F(fuse, server_dies_before_it_answers)
{
	static const uint32_t opcodes[] = { FUSE_GETLK, FUSE_SETLK, FUSE_SETLKW };
	/* one for each connection */
	enum op op = variant->ofd ? SETW : variant->entry == NATIVE ? SET : GET;

	self->server.plan->die = true;
	begin(&self->other, self->other.fd, op, WR(0, 10));
	EXPECT_EQ(opcodes[op], wait_for(&self->server, opcodes[op]).opcode);
	EXPECT_EQ(ECONNABORTED, end(&self->other));
	for (op = GET; op <= SETW; op++) {
		struct lock lock = WR(0, 10);

		EXPECT_EQ(ENOTCONN, do_call(&self->me, self->me.fd, op, &lock));
	}
	EXPECT_EQ(ENOTCONN, set(&self->other, UN(0, 0)));
}

TEST_F(fuse, server_dies_while_callers_wait)
{
	struct party third = self->other;

	ASSERT_TRUE(start(&third));
	self->server.plan->keep = true;
	begin(&self->other, self->other.fd, SETW, WR(0, 10));
	wait_for(&self->server, FUSE_SETLKW);
	begin(&third, third.fd, GET, WR(0, 10));
	wait_for(&self->server, FUSE_GETLK);
	stop_server(&self->server);
	EXPECT_EQ(ECONNABORTED, end(&self->other));
	EXPECT_EQ(ECONNABORTED, end(&third));
	EXPECT_EQ(ENOTCONN, set(&third, UN(0, 0)));
	stop(&third);
}

struct waiting_thread {
	const struct party *party;
	int err;
};

static void *wait_in_thread(void *arg)
{
	struct waiting_thread *thread = arg;
	struct lock lock = WR(0, 10);

	thread->err = do_call(thread->party, thread->party->fd, SETW, &lock);
	return NULL;
}

/*
 * The lock is granted after another thread has closed the descriptor. Nobody could
 * release a POSIX lock then; an OFD lock goes with the last reference, which the call has.
 */
TEST_F(fuse, close_while_waiting)
{
	struct waiting_thread waiting = { .party = &self->me };
	struct report seen;
	pthread_t thread;

	self->server.plan->keep = true;
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_in_thread, &waiting));
	seen = wait_for(&self->server, FUSE_SETLKW);
	ASSERT_EQ(0, close(self->me.fd));
	ASSERT_EQ(0, reply(&self->server, seen.unique, 0));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(variant->ofd ? 0 : EBADF, waiting.err);
}

/* A server that leaves locks to the kernel is not asked. */
TEST(fuse_without_locks)
{
	struct party me = { .pid = getpid(), .entry = &entries[NATIVE] }, other = me;
	struct server server;
	const char *reason = mount_and_serve(&server, &me.fd, 0);

	if (reason)
		SKIP(return, "%s", reason);
	server.plan->error = -EIO;
	me.peer = &other;
	other.peer = &me;
	ASSERT_TRUE(start(&other));
	other.fd = party_open(&other, me.fd, O_RDWR);
	ASSERT_LE(0, other.fd);
	EXPECT_EQ(0, set(&me, WR(10, 10)));
	EXPECT_STREQ("WR 10-19", held(&me));
	EXPECT_EQ(EAGAIN, set(&other, RD(0, 0)));
	EXPECT_STREQ("WR 10+10 of peer", ask(&other, RD(0, 0)));
	EXPECT_EQ(0, set(&me, UN(12, 2)));
	EXPECT_STREQ("WR 10-11, WR 14-19", held(&me));
	EXPECT_EQ(0, set(&me, UN(0, 0)));
	EXPECT_STREQ("UN 0+0", ask(&other, RD(0, 0)));
	stop_server(&server);
	stop(&other);
}

TEST_HARNESS_MAIN
