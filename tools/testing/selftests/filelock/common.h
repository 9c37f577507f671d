/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of single fcntl() lock calls have in common: the ways into the
 * kernel, processes that lock on demand, and answers as text.
 *
 * A lock call has several entries: on a 64-bit kernel fcntl() and the two of
 * 32-bit programs, which x86 offers to every program through "int $0x80"; on a
 * 32-bit kernel fcntl64(), and fcntl() with 32-bit offsets. Each of them has
 * commands and a structure of its own, see entries[].
 *
 * No large file support: it would hide fcntl() of a 32-bit kernel.
 */

#ifndef _FILELOCK_COMMON_H
#define _FILELOCK_COMMON_H

#undef _FILE_OFFSET_BITS
#undef _TIME_BITS
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#include "kselftest_harness.h"

#ifndef F_OFD_GETLK
#define F_OFD_GETLK	36
#define F_OFD_SETLK	37
#define F_OFD_SETLKW	38
#endif

#define MAX_OFFSET	INT64_MAX
#define FILE_SIZE	1000
#define POISON		0xa5
#define TOUCHED		(-1)	/* instead of an errno: bytes changed that must not */

enum op { GET, SET, SETW };

/* struct flock in words of the tests; bits too many for an entry are lost. */
struct lock {
	int type, whence;
	int64_t start, len;
	int pid;
};

#define LOCK(type, start, len)	((struct lock){ type, SEEK_SET, start, len, 0 })
#define RD(start, len)		LOCK(F_RDLCK, start, len)
#define WR(start, len)		LOCK(F_WRLCK, start, len)
#define UN(start, len)		LOCK(F_UNLCK, start, len)

struct layout {
	size_t size;
	struct {
		size_t at, size;
	} type, whence, start, len, pid;
};

struct entry {
	long nr;
	bool int80;
	const struct layout *layout;
	int posix[3], ofd[3];		/* by op; an OFD command 0 does not exist */
};

enum { NATIVE, LEGACY, COMPAT64, COMPAT };

/* i386 on x86_64, where no header has the numbers of i386. */
#if defined(__x86_64__) && !defined(__ILP32__)
#define HAVE_INT80
#define I386_NR_GETPID	20
#define I386_NR_FCNTL	55
#define I386_NR_FCNTL64	221
#endif

/* On musl struct flock has 64-bit offsets everywhere. */
#if defined(SYS_fcntl) && defined(SYS_fcntl64) && defined(__GLIBC__)
#define HAVE_LEGACY
#endif

static const struct layout flock_layout = {
	sizeof(struct flock),
	{ offsetof(struct flock, l_type), sizeof(short) },
	{ offsetof(struct flock, l_whence), sizeof(short) },
	{ offsetof(struct flock, l_start), sizeof(off_t) },
	{ offsetof(struct flock, l_len), sizeof(off_t) },
	{ offsetof(struct flock, l_pid), sizeof(pid_t) },
};

#ifdef SYS_fcntl64
static const struct layout flock64_layout = {
	sizeof(struct flock64),
	{ offsetof(struct flock64, l_type), sizeof(short) },
	{ offsetof(struct flock64, l_whence), sizeof(short) },
	{ offsetof(struct flock64, l_start), sizeof(off64_t) },
	{ offsetof(struct flock64, l_len), sizeof(off64_t) },
	{ offsetof(struct flock64, l_pid), sizeof(pid_t) },
};
#endif

/* i386 aligns a 64-bit integer to 4 bytes. */
#ifdef HAVE_INT80
static const struct layout i386_flock_layout = {
	16, { 0, 2 }, { 2, 2 }, { 4, 4 }, { 8, 4 }, { 12, 4 }
};

static const struct layout i386_flock64_layout = {
	24, { 0, 2 }, { 2, 2 }, { 4, 8 }, { 12, 8 }, { 20, 4 }
};
#endif

static const struct entry entries[] = {
#ifdef SYS_fcntl64
	[NATIVE] = { SYS_fcntl64, false, &flock64_layout, { F_GETLK64, F_SETLK64, F_SETLKW64 },
		     { F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW } },
#else
	[NATIVE] = { SYS_fcntl, false, &flock_layout, { F_GETLK, F_SETLK, F_SETLKW },
		     { F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW } },
#endif
#ifdef HAVE_LEGACY
	[LEGACY] = { SYS_fcntl, false, &flock_layout, { F_GETLK, F_SETLK, F_SETLKW }, {} },
#endif
#ifdef HAVE_INT80
	[COMPAT64] = { I386_NR_FCNTL64, true, &i386_flock64_layout, { 12, 13, 14 },
		       { F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW } },
	[COMPAT] = { I386_NR_FCNTL, true, &i386_flock_layout, { 5, 6, 7 }, {} },
#endif
};

static long int80(long nr, long a, long b, long c)
{
	long ret = -EINVAL;

#ifdef HAVE_INT80
	__asm__ volatile ("int $0x80" : "=a" (ret) : "0" (nr), "b" (a), "c" (b), "d" (c)
			  : "r8", "r9", "r10", "r11", "cc", "memory");
#else
	(void)nr, (void)a, (void)b, (void)c;
#endif
	return (int)ret;
}

/* Without IA32 emulation the instruction is a general protection fault. */
static bool __maybe_unused int80_works(void)
{
	int status = -1;
#ifdef HAVE_INT80
	pid_t pid = fork();

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		_exit(int80(I386_NR_GETPID, 0, 0, 0) <= 0);
	}
	waitpid(pid, &status, 0);
#endif
	return !status;
}

/* The kernel's own architecture; uname() may have been told to lie about it. */
static const char *kernel_machine(void)
{
	static struct utsname name;
	int persona = personality(0xffffffff);

	personality(PER_LINUX);
	uname(&name);
	personality(persona);
	return name.machine;
}

static bool __maybe_unused kernel_is_64bit(void)
{
	const char *machine = kernel_machine();

	return strstr(machine, "64") || !strcmp(machine, "s390x") || !strcmp(machine, "alpha");
}

static bool __maybe_unused kernel_is_older(int version, int patchlevel)
{
	struct utsname name;
	int v, p;

	uname(&name);
	return sscanf(name.release, "%d.%d", &v, &p) == 2 &&
	       (v < version || (v == version && p < patchlevel));
}

/* One system call. Returns 0 or an errno. */
static int enter(const struct entry *entry, int fd, int cmd, void *arg)
{
	long ret;

	if (entry->int80)
		return -int80(entry->nr, fd, cmd, (long)arg);
	ret = syscall(entry->nr, fd, cmd, arg);
	return ret == -1 ? errno : ret;
}

static void put_field(char *to, size_t size, int64_t value)
{
	int32_t word = value;
	int16_t half = value;

	memcpy(to, size == 8 ? (void *)&value : size == 4 ? (void *)&word : (void *)&half, size);
}

static int64_t get_field(const char *from, size_t size)
{
	int64_t value;
	int32_t word;
	int16_t half;

	memcpy(size == 8 ? (void *)&value : size == 4 ? (void *)&word : (void *)&half, from, size);
	return size == 8 ? value : size == 4 ? word : half;
}

static void put_lock(const struct layout *layout, char *to, const struct lock *lock)
{
	put_field(to + layout->type.at, layout->type.size, lock->type);
	put_field(to + layout->whence.at, layout->whence.size, lock->whence);
	put_field(to + layout->start.at, layout->start.size, lock->start);
	put_field(to + layout->len.at, layout->len.size, lock->len);
	put_field(to + layout->pid.at, layout->pid.size, lock->pid);
}

static void get_lock(const struct layout *layout, const char *from, struct lock *lock)
{
	lock->type = get_field(from + layout->type.at, layout->type.size);
	lock->whence = get_field(from + layout->whence.at, layout->whence.size);
	lock->start = get_field(from + layout->start.at, layout->start.size);
	lock->len = get_field(from + layout->len.at, layout->len.size);
	lock->pid = get_field(from + layout->pid.at, layout->pid.size);
}

/* A page that every entry can address, poisoned, before one that none may touch. */
static char *new_page(void)
{
	size_t size = getpagesize();
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *page;

#ifdef HAVE_INT80
	flags |= MAP_32BIT;
#endif
	page = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (page == MAP_FAILED) {
		perror("mmap");
		abort();
	}
	memset(page, POISON, size);
	mprotect(page + size, size, PROT_NONE);
	return page;
}

/*
 * One lock call, with the structure at the very end of a page. Returns 0, an
 * errno, or TOUCHED if the kernel wrote to anything but the fields of an answer.
 */
static int call(const struct entry *entry, bool ofd, int fd, enum op op, struct lock *lock)
{
	static char *page;
	const struct layout *layout = entry->layout;
	char *here, before[128];
	int err;

	if (!page)
		page = new_page();
	here = page + getpagesize() - sizeof(before);
	memset(here, POISON, sizeof(before));
	put_lock(layout, here + sizeof(before) - layout->size, lock);
	memcpy(before, here, sizeof(before));
	err = enter(entry, fd, (ofd ? entry->ofd : entry->posix)[op],
		    here + sizeof(before) - layout->size);
	if (!err && op == GET) {
		get_lock(layout, here + sizeof(before) - layout->size, lock);
		put_lock(layout, before + sizeof(before) - layout->size, lock);
	}
	return memcmp(before, here, sizeof(before)) ? TOUCHED : err;
}

/* Somebody who locks: this process, or another one that does what it is told. */
struct party {
	pid_t pid;
	int fd;				/* the file, opened on its own */
	const struct entry *entry;
	bool ofd;
	int to, from;			/* orders and replies, of another process */
	const struct party *peer;	/* who holds what this one meets */
};

enum action { CALL, OPEN, DUP, CLOSE };

struct order {
	enum action action;
	int fd, arg;
	bool ofd;
	const struct entry *entry;
	struct lock lock;
	int result;
};

static void obey(struct order *order)
{
	char path[64];

	switch (order->action) {
	case CALL:
		order->result = call(order->entry, order->ofd, order->fd, order->arg,
				     &order->lock);
		break;
	case OPEN:
		snprintf(path, sizeof(path), "/proc/self/fd/%d", order->fd);
		order->result = open(path, order->arg | O_CLOEXEC);
		break;
	case DUP:
		order->result = dup(order->fd);
		break;
	case CLOSE:
		order->result = close(order->fd);
		break;
	}
}

static int tell(const struct party *party, struct order *order)
{
	if (party->pid == getpid())
		obey(order);
	else if (write(party->to, order, sizeof(*order)) != sizeof(*order) ||
		 read(party->from, order, sizeof(*order)) != sizeof(*order))
		order->result = TOUCHED;
	return order->result;
}

/* Another process, with the descriptors of this one. */
static bool start(struct party *party)
{
	struct order order;
	int to[2], from[2];

	if (pipe(to) || pipe(from))
		return false;
	party->pid = fork();
	if (!party->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		while (read(to[0], &order, sizeof(order)) == sizeof(order)) {
			obey(&order);
			if (write(from[1], &order, sizeof(order)) != sizeof(order))
				break;
		}
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	party->to = to[1];
	party->from = from[0];
	return party->pid > 0;
}

static void stop(struct party *party)
{
	close(party->to);
	close(party->from);
	/* A process started later has a copy of the pipe. */
	kill(party->pid, SIGKILL);
	waitpid(party->pid, NULL, 0);
}

static int party_open(const struct party *party, int fd, int flags)
{
	return tell(party, &(struct order){ .action = OPEN, .fd = fd, .arg = flags });
}

static int __maybe_unused party_dup(const struct party *party, int fd)
{
	return tell(party, &(struct order){ .action = DUP, .fd = fd });
}

static int party_close(const struct party *party, int fd)
{
	return tell(party, &(struct order){ .action = CLOSE, .fd = fd });
}

static int do_call(const struct party *party, int fd, enum op op, struct lock *lock)
{
	struct order order = { CALL, fd, op, party->ofd, party->entry, *lock, 0 };
	int err = tell(party, &order);

	*lock = order.lock;
	return err;
}

/* The next ones return 0, an errno or TOUCHED. */
static int __maybe_unused set_on(const struct party *party, int fd, struct lock lock)
{
	return do_call(party, fd, SET, &lock);
}

static int __maybe_unused set(const struct party *party, struct lock lock)
{
	return do_call(party, party->fd, SET, &lock);
}

static const char *name_of_error(int err)
{
	static const struct {
		int err;
		const char *name;
	} table[] = {
		{ TOUCHED, "touched" }, { EAGAIN, "EAGAIN" }, { EBADF, "EBADF" },
		{ EFAULT, "EFAULT" }, { EINVAL, "EINVAL" }, { EIO, "EIO" }, { ENOLCK, "ENOLCK" },
		{ EOVERFLOW, "EOVERFLOW" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].err == err)
			return table[i].name;
	}
	return strerror(err);
}

static const char *name_of_type(int type)
{
	return type == F_RDLCK ? "RD" : type == F_WRLCK ? "WR" : type == F_UNLCK ? "UN" : "?";
}

/*
 * What F_GETLK or F_OFD_GETLK say: "EINVAL", "UN end-10+5 pid 77" for an answer that
 * is not relative to the start, "WR 100+50 of peer" if the owner is the one who is
 * told by the peer's pid, or by -1 when its locks belong to its description.
 */
static const char *ask_on(const struct party *party, int fd, struct lock lock)
{
	static char text[128];
	int err = do_call(party, fd, GET, &lock), used;

	if (err)
		return name_of_error(err);
	used = snprintf(text, sizeof(text), "%s %s%lld+%lld", name_of_type(lock.type),
			lock.whence == SEEK_SET ? "" : lock.whence == SEEK_CUR ? "cur" :
			lock.whence == SEEK_END ? "end" : "?",
			(long long)lock.start, (long long)lock.len);
	if (lock.type != F_UNLCK && party->peer &&
	    lock.pid == (party->peer->ofd ? -1 : party->peer->pid))
		strcat(text, " of peer");
	else if (lock.pid || lock.type != F_UNLCK)
		snprintf(text + used, sizeof(text) - used, " pid %d", lock.pid);
	return text;
}

static const char __maybe_unused *ask(const struct party *party, struct lock lock)
{
	return ask_on(party, party->fd, lock);
}

/* The locks behind a descriptor in the order of its fdinfo: "WR 0-39, RD 60-EOF". */
static const char __maybe_unused *held(const struct party *party)
{
	static char text[1024];
	char path[64], line[256], type[16], end[32];
	long long first;
	FILE *file;

	text[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", party->pid, party->fd);
	file = fopen(path, "r");
	if (!file)
		return "no fdinfo";
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "lock: %*d: %*s %*s %15s %*d %*s %lld %31s", type, &first,
			   end) != 3)
			continue;
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %lld-%s",
			 text[0] ? ", " : "", !strcmp(type, "READ") ? "RD" : "WR", first, end);
	}
	fclose(file);
	return text;
}

/* A file without a name: in memory, or in the directory that TMPDIR tells. */
static int new_file(bool in_directory)
{
	const char *directory = getenv("TMPDIR");
	char path[PATH_MAX];
	int fd;

	if (in_directory) {
		snprintf(path, sizeof(path), "%s/filelock-XXXXXX", directory ? directory : "/tmp");
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	} else {
		fd = syscall(SYS_memfd_create, "filelock", 1 /* MFD_CLOEXEC */);
	}
	if (fd >= 0 && ftruncate(fd, FILE_SIZE)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Two parties with one file. The other one always takes the native entry. */
static void __maybe_unused set_up(struct __test_metadata *const _metadata, struct party *me,
				  struct party *other, bool in_directory)
{
	int fd = new_file(in_directory);

	if (fd < 0 && in_directory)
		SKIP(return, "no file can be made in TMPDIR (or /tmp): %s", strerror(errno));
	ASSERT_LE(0, fd);
	me->pid = getpid();
	me->peer = other;
	other->peer = me;
	other->entry = &entries[NATIVE];
	ASSERT_TRUE(start(other));
	other->fd = party_open(other, fd, O_RDWR);
	ASSERT_LE(0, other->fd);
	ASSERT_EQ(0, party_close(other, fd));
	me->fd = fd;
}

#ifndef OWN_FIXTURE
FIXTURE(lock)
{
	struct party me, other;
};

FIXTURE_VARIANT(lock)
{
	int entry;
	bool ofd;
	bool in_directory;
};

FIXTURE_VARIANT_ADD(lock, posix) { .entry = NATIVE };
FIXTURE_VARIANT_ADD(lock, ofd) { .entry = NATIVE, .ofd = true };
FIXTURE_VARIANT_ADD(lock, posix_tmpdir) { .entry = NATIVE, .in_directory = true };
FIXTURE_VARIANT_ADD(lock, ofd_tmpdir) { .entry = NATIVE, .ofd = true, .in_directory = true };
#ifdef HAVE_LEGACY
FIXTURE_VARIANT_ADD(lock, legacy_posix) { .entry = LEGACY };
#endif
#ifdef HAVE_INT80
FIXTURE_VARIANT_ADD(lock, compat64_posix) { .entry = COMPAT64 };
FIXTURE_VARIANT_ADD(lock, compat64_ofd) { .entry = COMPAT64, .ofd = true };
FIXTURE_VARIANT_ADD(lock, compat_posix) { .entry = COMPAT };
#endif

FIXTURE_SETUP(lock)
{
	self->me.entry = &entries[variant->entry];
	self->me.ofd = variant->ofd;
	self->other.ofd = variant->ofd;
	if (self->me.entry->int80 && !int80_works())
		SKIP(return, "the kernel has no IA32 emulation");
	set_up(_metadata, &self->me, &self->other, variant->in_directory);
}

FIXTURE_TEARDOWN(lock)
{
	stop(&self->other);
}
#endif /* OWN_FIXTURE */

/* Whether the structure of an entry can hold an offset. */
static bool __maybe_unused fits(const struct entry *entry, int64_t offset)
{
	return entry->layout->start.size == 8 || offset == (int32_t)offset;
}

#endif
