// SPDX-License-Identifier: GPL-2.0
/*
 * What F_GETLK and F_OFD_GETLK answer, through every entry of the kernel.
 */

#include "common.h"

#ifndef F_EXLCK
#define F_EXLCK	4
#define F_SHLCK	8
#endif

#define GIB2	0x80000000LL

/* Without a conflict only l_type changes, to F_UNLCK. */
TEST_F(lock, no_conflict_changes_only_the_type)
{
	struct lock question = { F_WRLCK, SEEK_END, -10, 5, 0 };

	EXPECT_STREQ("UN end-10+5", ask(&self->me, question));
	question.type = F_RDLCK;
	EXPECT_STREQ("UN end-10+5", ask(&self->me, question));
	question.whence = SEEK_CUR;
	question.start = 7;
	EXPECT_STREQ("UN cur7+5", ask(&self->me, question));
	question.len = -3;
	EXPECT_STREQ("UN cur7+-3", ask(&self->me, question));
	if (!variant->ofd) {
		question.pid = 77;
		EXPECT_STREQ("UN cur7+-3 pid 77", ask(&self->me, question));
	}

	/* The same with locks that do not conflict: beside the range, and an own one. */
	ASSERT_EQ(0, set(&self->other, WR(100, 50)));
	ASSERT_EQ(0, set(&self->me, WR(200, 50)));
	EXPECT_STREQ("UN 99+1", ask(&self->me, WR(99, 1)));
	EXPECT_STREQ("UN 150+0", ask(&self->me, WR(150, 0)));
	EXPECT_STREQ("UN 200+50", ask(&self->me, WR(200, 50)));
}

/* A conflict rewrites every field, relative to the start of the file. */
TEST_F(lock, conflict_rewrites_every_field)
{
	const struct lock relative = { F_WRLCK, SEEK_CUR, 60, 1, 0 };
	const struct lock from_end = { F_RDLCK, SEEK_END, -851, 1, 0 };
	const struct lock backwards = { F_WRLCK, SEEK_SET, 101, -1, 0 };
	struct lock question = WR(149, 7);

	ASSERT_EQ(0, set(&self->other, WR(100, 50)));
	ASSERT_EQ(50, lseek(self->me.fd, 50, SEEK_SET));
	EXPECT_STREQ("WR 100+50 of peer", ask(&self->me, relative));
	EXPECT_STREQ("WR 100+50 of peer", ask(&self->me, from_end));
	EXPECT_STREQ("WR 100+50 of peer", ask(&self->me, backwards));
	EXPECT_STREQ("WR 100+50 of peer", ask(&self->me, RD(0, 0)));
	EXPECT_STREQ("WR 100+50 of peer", ask(&self->me, WR(0, 101)));
	if (!variant->ofd)
		question.pid = 77;
	EXPECT_STREQ("WR 100+50 of peer", ask(&self->me, question));

	/* A question takes no lock. */
	EXPECT_STREQ("", held(&self->me));
}

/* A read lock conflicts with a writer only. */
TEST_F(lock, read_locks_share)
{
	ASSERT_EQ(0, set(&self->other, RD(100, 0)));
	EXPECT_STREQ("UN 0+0", ask(&self->me, RD(0, 0)));
	EXPECT_STREQ("RD 100+0 of peer", ask(&self->me, WR(500, 1)));
	EXPECT_STREQ("UN 99+1", ask(&self->me, WR(99, 1)));
}

/* A lock to the end of the file has the length 0, however it was asked for. */
TEST_F(lock, length_to_the_end_is_0)
{
	ASSERT_EQ(0, set(&self->other, WR(100, 0)));
	EXPECT_STREQ("WR 100+0 of peer", ask(&self->me, RD(5000, 1)));

	ASSERT_EQ(0, set(&self->other, UN(0, 0)));
	ASSERT_EQ(0, set(&self->other, WR(0, 0)));
	EXPECT_STREQ("WR 0+0 of peer", ask(&self->me, WR(10, 1)));

	ASSERT_EQ(0, set(&self->other, UN(0, 0)));
	ASSERT_EQ(0, set(&self->other, WR(300, MAX_OFFSET - 299)));
	EXPECT_STREQ("WR 300+0 of peer", ask(&self->me, WR(0, 0)));
	if (fits(self->me.entry, MAX_OFFSET)) {
		ASSERT_EQ(0, set(&self->other, UN(0, 0)));
		ASSERT_EQ(0, set(&self->other, RD(MAX_OFFSET - 9, 10)));
		EXPECT_STREQ("RD 9223372036854775798+0 of peer", ask(&self->me, WR(0, 0)));
		ASSERT_EQ(0, set(&self->other, UN(MAX_OFFSET, 1)));
		EXPECT_STREQ("RD 9223372036854775798+9 of peer", ask(&self->me, WR(0, 0)));
	}
}

/* Only F_RDLCK and F_WRLCK can be asked for; the structure stays as it was. */
TEST_F(lock, bad_type_is_EINVAL)
{
	static const int types[] = { 99, -1, F_EXLCK, F_SHLCK };
	size_t i;

	ASSERT_EQ(0, set(&self->other, WR(0, 0)));
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		EXPECT_STREQ("EINVAL", ask(&self->me, LOCK(types[i], 0, 1)))
		{
			TH_LOG("l_type %d", types[i]);
		}
	}
	if (!variant->ofd)
		EXPECT_STREQ("EINVAL", ask(&self->me, UN(0, 1)));
}

/* The access mode of a descriptor limits what it locks, not what it asks. */
TEST_F(lock, question_needs_no_access_mode)
{
	int fd;

	ASSERT_EQ(0, set(&self->other, WR(10, 10)));
	fd = party_open(&self->me, self->me.fd, O_RDONLY);
	ASSERT_LE(0, fd);
	EXPECT_STREQ("WR 10+10 of peer", ask_on(&self->me, fd, WR(0, 0)));
	EXPECT_STREQ("UN 0+10", ask_on(&self->me, fd, WR(0, 10)));
	fd = party_open(&self->me, self->me.fd, O_WRONLY);
	ASSERT_LE(0, fd);
	EXPECT_STREQ("WR 10+10 of peer", ask_on(&self->me, fd, RD(0, 0)));
	EXPECT_STREQ("UN 0+10", ask_on(&self->me, fd, RD(0, 10)));
}

/* Of several conflicting locks any may be reported, with its own range and owner. */
TEST_F(lock, one_of_several_conflicts)
{
	struct party third = self->other;
	char expected[64];
	const char *seen;

	third.peer = NULL;
	third.fd = self->me.fd;
	ASSERT_TRUE(start(&third));
	third.fd = party_open(&third, third.fd, O_RDWR);
	ASSERT_LE(0, third.fd);
	ASSERT_EQ(0, set(&self->other, RD(500, 10)));
	ASSERT_EQ(0, set(&third, RD(100, 20)));

	seen = ask(&self->me, WR(0, 0));
	snprintf(expected, sizeof(expected), "RD 100+20 pid %d", third.pid);
	if (variant->ofd)
		strcpy(expected, "RD 100+20 of peer");
	EXPECT_TRUE(!strcmp(seen, "RD 500+10 of peer") || !strcmp(seen, expected))
	{
		TH_LOG("%s", seen);
	}

	/* A range that only one of them covers leaves no choice, nor does each for the other. */
	EXPECT_STREQ("RD 500+10 of peer", ask(&self->me, WR(120, 0)));
	EXPECT_STREQ(expected, ask(&self->me, WR(0, 500)));
	self->other.peer = &third;
	EXPECT_STREQ("RD 100+20 of peer", ask(&self->other, WR(0, 0)));
	third.peer = &self->other;
	EXPECT_STREQ("RD 500+10 of peer", ask(&third, WR(0, 0)));
	stop(&third);
}

/* The structure is read and written with the usual care, and in its own size only. */
TEST_F(lock, user_memory)
{
	const struct entry *entry = self->me.entry;
	const int *commands = variant->ofd ? entry->ofd : entry->posix;
	const struct lock question = WR(0, 1);
	size_t page_size = getpagesize(), size = entry->layout->size, i;
	int fd = self->me.fd;
	char *page, *end, *cut;

	page = new_page();
	end = page + page_size;
	ASSERT_EQ(0, set(&self->other, WR(10, 10)));

	EXPECT_EQ(EFAULT, enter(entry, fd, commands[GET], NULL));
	EXPECT_EQ(EFAULT, enter(entry, fd, commands[SET], NULL));
	EXPECT_EQ(EFAULT, enter(entry, fd, commands[GET], end));

	/* The last byte of the structure cannot be read. */
	cut = end - size + 1;
	put_lock(entry->layout, page, &question);
	memcpy(cut, page, size - 1);
	EXPECT_EQ(EFAULT, enter(entry, fd, commands[GET], cut));
	EXPECT_EQ(EFAULT, enter(entry, fd, commands[SET], cut));
	EXPECT_STREQ("", held(&self->me));

	/* F_GETLK writes, with a conflict and without; F_SETLK does not. */
	memset(page, POISON, page_size);
	put_lock(entry->layout, page, &question);
	put_lock(entry->layout, page + 64, &WR(10, 1));
	ASSERT_EQ(0, mprotect(page, page_size, PROT_READ));
	EXPECT_EQ(EFAULT, enter(entry, fd, commands[GET], page));
	EXPECT_EQ(EFAULT, enter(entry, fd, commands[GET], page + 64));
	EXPECT_EQ(EAGAIN, enter(entry, fd, commands[SET], page + 64));
	EXPECT_EQ(0, enter(entry, fd, commands[SET], page));
	EXPECT_STREQ("WR 0-0", held(&self->me));

	/* A structure at any address will do. */
	ASSERT_EQ(0, mprotect(page, page_size, PROT_READ | PROT_WRITE));
	for (i = 0; i < 8; i++) {
		put_lock(entry->layout, page + i, &question);
		EXPECT_EQ(0, enter(entry, fd, commands[GET], page + i));
	}
}

/* A descriptor without access is refused before the structure is looked at. */
TEST_F(lock, bad_descriptor_is_EBADF)
{
	const int *commands = variant->ofd ? self->me.entry->ofd : self->me.entry->posix;
	int fd, op;

	fd = party_open(&self->me, self->me.fd, O_PATH);
	ASSERT_LE(0, fd);
	for (op = GET; op <= SETW; op++) {
		EXPECT_EQ(EBADF, enter(self->me.entry, fd, commands[op], NULL));
		EXPECT_EQ(EBADF, enter(self->me.entry, -1, commands[op], NULL));
	}
	EXPECT_STREQ("EBADF", ask_on(&self->me, fd, WR(0, 1)));
	EXPECT_EQ(EBADF, set_on(&self->me, fd, UN(0, 1)));
	ASSERT_EQ(0, close(fd));
	EXPECT_STREQ("EBADF", ask_on(&self->me, fd, WR(0, 1)));
	EXPECT_EQ(EBADF, set_on(&self->me, fd, UN(0, 1)));
}

/* Which of two errors is reported. */
TEST_F(lock, order_of_checks)
{
	enum { POSIX = 1, OFD = 2, BOTH = POSIX | OFD };
	static const struct {
		int families;
		enum op op;
		int flags;
		struct lock lock;
		int err;
		bool old;	/* before 6.6 F_OFD_GETLK looked at the type first */
	} table[] = {
		/* the type, of F_GETLK only */
		{ POSIX, GET, O_RDWR, { F_UNLCK, SEEK_SET, MAX_OFFSET, 2, 0 }, EINVAL, true },
		{ POSIX, GET, O_RDWR, { 99, SEEK_SET, MAX_OFFSET, 2, 0 }, EINVAL, true },
		/* l_whence */
		{ BOTH, GET, O_RDWR, { F_WRLCK, 3, MAX_OFFSET, 2, 0 }, EINVAL, true },
		{ BOTH, SET, O_RDWR, { F_WRLCK, 3, MAX_OFFSET, 2, 0 }, EINVAL, true },
		{ BOTH, SET, O_RDONLY, { F_WRLCK, -1, 0, 1, 0 }, EINVAL, true },
		/* the range */
		{ OFD, GET, O_RDWR, { 99, SEEK_SET, MAX_OFFSET, 2, 0 }, EOVERFLOW, false },
		{ OFD, GET, O_RDWR, { F_UNLCK, SEEK_SET, MAX_OFFSET, 2, 0 }, EOVERFLOW, false },
		{ OFD, GET, O_RDWR, { F_WRLCK, SEEK_SET, MAX_OFFSET, 2, 77 }, EOVERFLOW, true },
		{ BOTH, SET, O_RDWR, { 99, SEEK_SET, MAX_OFFSET, 2, 0 }, EOVERFLOW, true },
		{ BOTH, SET, O_RDWR, { F_WRLCK, SEEK_SET, MAX_OFFSET, 2, 77 }, EOVERFLOW, true },
		{ BOTH, SET, O_RDONLY, { F_WRLCK, SEEK_SET, MAX_OFFSET, 2, 0 }, EOVERFLOW, true },
		/* the type, of F_SETLK */
		{ BOTH, SET, O_RDONLY, { 99, SEEK_SET, 0, 1, 0 }, EINVAL, true },
		{ BOTH, SET, O_WRONLY, { 99, SEEK_SET, 0, 1, 0 }, EINVAL, true },
		/* the access mode, of F_SETLK */
		{ BOTH, SET, O_RDONLY, { F_WRLCK, SEEK_SET, 0, 1, 77 }, EBADF, true },
		{ BOTH, SET, O_WRONLY, { F_RDLCK, SEEK_SET, 0, 1, 77 }, EBADF, true },
		/* l_pid, which is nothing to F_SETLK and F_GETLK */
		{ OFD, GET, O_RDWR, { F_WRLCK, SEEK_SET, 0, 1, 77 }, EINVAL, true },
		{ OFD, GET, O_RDONLY, { F_WRLCK, SEEK_SET, 0, 1, -1 }, EINVAL, true },
		{ OFD, SET, O_RDWR, { F_WRLCK, SEEK_SET, 0, 1, 77 }, EINVAL, true },
		{ OFD, SETW, O_RDWR, { F_WRLCK, SEEK_SET, 0, 1, 77 }, EINVAL, true },
		{ OFD, SET, O_RDWR, { F_UNLCK, SEEK_SET, 0, 1, -1 }, EINVAL, true },
		{ POSIX, GET, O_RDWR, { F_WRLCK, SEEK_SET, 0, 1, 77 }, 0, true },
		{ POSIX, SET, O_RDWR, { F_WRLCK, SEEK_SET, 0, 1, 77 }, 0, true },
		{ POSIX, SETW, O_RDWR, { F_WRLCK, SEEK_SET, 0, 1, -1 }, 0, true },
	};
	size_t i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		struct lock lock = table[i].lock;

		if (!(table[i].families & (variant->ofd ? OFD : POSIX)) ||
		    !fits(self->me.entry, lock.start) ||
		    (!table[i].old && kernel_is_older(6, 6)))
			continue;
		fd = party_open(&self->me, self->me.fd, table[i].flags);
		ASSERT_LE(0, fd);
		EXPECT_EQ(table[i].err, do_call(&self->me, fd, table[i].op, &lock))
		{
			TH_LOG("row %zu", i);
		}
		close(fd);
	}
}

/* One party asks about the other's lock, of the same kind or of the other kind. */
FIXTURE(kinds)
{
	struct party me, other;
};

FIXTURE_VARIANT(kinds)
{
	bool held_ofd, asked_ofd;
	int entry;
};

FIXTURE_VARIANT_ADD(kinds, posix_of_posix) { false, false, NATIVE };
FIXTURE_VARIANT_ADD(kinds, posix_of_ofd) { true, false, NATIVE };
FIXTURE_VARIANT_ADD(kinds, ofd_of_posix) { false, true, NATIVE };
FIXTURE_VARIANT_ADD(kinds, ofd_of_ofd) { true, true, NATIVE };
#ifdef HAVE_INT80
FIXTURE_VARIANT_ADD(kinds, compat64_posix_of_ofd) { true, false, COMPAT64 };
FIXTURE_VARIANT_ADD(kinds, compat64_ofd_of_posix) { false, true, COMPAT64 };
FIXTURE_VARIANT_ADD(kinds, compat_posix_of_ofd) { true, false, COMPAT };
#endif
#ifdef HAVE_LEGACY
FIXTURE_VARIANT_ADD(kinds, legacy_posix_of_ofd) { true, false, LEGACY };
#endif

FIXTURE_SETUP(kinds)
{
	self->me.entry = &entries[variant->entry];
	self->me.ofd = variant->asked_ofd;
	self->other.ofd = variant->held_ofd;
	if (self->me.entry->int80 && !int80_works())
		SKIP(return, "the kernel has no IA32 emulation");
	set_up(_metadata, &self->me, &self->other, false);
}

FIXTURE_TEARDOWN(kinds)
{
	stop(&self->other);
}

/* The owner of an OFD lock is -1 for everybody, that of a POSIX lock its process. */
TEST_F(kinds, owner)
{
	ASSERT_EQ(0, set(&self->other, RD(0, 10)));
	ASSERT_EQ(0, set(&self->other, WR(20, 10)));
	EXPECT_STREQ("UN 0+10", ask(&self->me, RD(0, 10)));
	EXPECT_STREQ("RD 0+10 of peer", ask(&self->me, WR(0, 10)));
	EXPECT_STREQ("WR 20+10 of peer", ask(&self->me, RD(20, 10)));
	EXPECT_STREQ("WR 20+10 of peer", ask(&self->me, WR(20, 10)));

	/* Shared with an own read lock, the other's is the one that is met. */
	EXPECT_EQ(0, set(&self->me, RD(0, 10)));
	EXPECT_STREQ("RD 0+10 of peer", ask(&self->me, WR(0, 10)));
}

FIXTURE(description)
{
	struct party me, other;
};

FIXTURE_VARIANT(description)
{
	int entry;
};

FIXTURE_VARIANT_ADD(description, native) { NATIVE };
#ifdef HAVE_INT80
FIXTURE_VARIANT_ADD(description, compat64) { COMPAT64 };
#endif

FIXTURE_SETUP(description)
{
	self->me.entry = &entries[variant->entry];
	self->me.ofd = true;
	self->other.ofd = true;
	if (self->me.entry->int80 && !int80_works())
		SKIP(return, "the kernel has no IA32 emulation");
	set_up(_metadata, &self->me, &self->other, false);
}

FIXTURE_TEARDOWN(description)
{
	stop(&self->other);
}

/* F_OFD_GETLK with F_UNLCK, since 6.6: what does this open file description hold? */
TEST_F(description, unlck_asks_what_is_held)
{
	struct party child = self->me, posix = self->me;
	int fd2;

	if (kernel_is_older(6, 6)) {
		EXPECT_STREQ("EINVAL", ask(&self->me, UN(0, 0)));
		SKIP(return, "F_UNLCK cannot be asked for before 6.6");
	}
	EXPECT_STREQ("UN 0+0", ask(&self->me, UN(0, 0)));
	ASSERT_EQ(0, set(&self->me, RD(5, 3)));
	EXPECT_STREQ("RD 5+3 of peer", ask(&self->me, UN(0, 0)));
	EXPECT_STREQ("RD 5+3 of peer", ask_on(&self->me, dup(self->me.fd), UN(7, 1)));
	EXPECT_STREQ("UN 8+0", ask(&self->me, UN(8, 0)));
	ASSERT_TRUE(start(&child));
	EXPECT_STREQ("RD 5+3 of peer", ask(&child, UN(0, 0)));
	stop(&child);

	/* Another description holds nothing, and knows nothing of others. */
	fd2 = party_open(&self->me, self->me.fd, O_RDWR);
	ASSERT_LE(0, fd2);
	EXPECT_STREQ("UN 0+0", ask_on(&self->me, fd2, UN(0, 0)));
	EXPECT_STREQ("UN 0+0", ask(&self->other, UN(0, 0)));

	/* A POSIX lock of this process is none of the description. */
	posix.ofd = false;
	ASSERT_EQ(0, set(&posix, RD(20, 3)));
	EXPECT_STREQ("UN 20+3", ask(&self->me, UN(20, 3)));
}

/* Entries with 32-bit offsets. The holder's are 64-bit ones. */
FIXTURE(narrow)
{
	struct party me, other;
	bool clips;
};

FIXTURE_VARIANT(narrow)
{
	int entry;
};

#ifdef HAVE_LEGACY
FIXTURE_VARIANT_ADD(narrow, legacy) { LEGACY };
#endif
#ifdef HAVE_INT80
FIXTURE_VARIANT_ADD(narrow, compat) { COMPAT };
#endif
#if !defined(HAVE_LEGACY) && !defined(HAVE_INT80)
FIXTURE_VARIANT_ADD(narrow, none) { NATIVE };
#endif

FIXTURE_SETUP(narrow)
{
	self->me.entry = &entries[variant->entry];
	self->clips = kernel_is_64bit();
	if (variant->entry == NATIVE)
		SKIP(return, "no entry with 32-bit offsets on this architecture");
	if (self->me.entry->int80 && !int80_works())
		SKIP(return, "the kernel has no IA32 emulation");
	set_up(_metadata, &self->me, &self->other, false);
}

FIXTURE_TEARDOWN(narrow)
{
	stop(&self->other);
}

/* A lock that starts where the structure cannot tell is EOVERFLOW. */
TEST_F(narrow, start_too_large)
{
	ASSERT_EQ(0, set(&self->other, WR(GIB2, 1)));
	EXPECT_STREQ("EOVERFLOW", ask(&self->me, WR(0, 0)));
	EXPECT_STREQ("UN 0+2147483647", ask(&self->me, WR(0, GIB2 - 1)));
	ASSERT_EQ(0, set(&self->other, UN(0, 0)));
	ASSERT_EQ(0, set(&self->other, WR(GIB2, 0)));
	EXPECT_STREQ("EOVERFLOW", ask(&self->me, RD(0, 0)));
	ASSERT_EQ(0, set(&self->other, UN(0, 0)));
	ASSERT_EQ(0, set(&self->other, WR(GIB2 - 1, 1)));
	EXPECT_STREQ("WR 2147483647+1 of peer", ask(&self->me, WR(0, 0)));
}

/*
 * A lock that ends where the structure cannot tell: a 64-bit kernel tells its
 * length, clipped to the largest if need be; a 32-bit kernel says EOVERFLOW.
 */
TEST_F(narrow, end_too_large)
{
	ASSERT_EQ(0, set(&self->other, WR(100, GIB2)));
	EXPECT_STREQ(self->clips ? "WR 100+2147483647 of peer" : "EOVERFLOW",
		     ask(&self->me, WR(0, 0)));
	ASSERT_EQ(0, set(&self->other, UN(0, 0)));
	ASSERT_EQ(0, set(&self->other, WR(100, GIB2 - 99)));
	EXPECT_STREQ(self->clips ? "WR 100+2147483549 of peer" : "EOVERFLOW",
		     ask(&self->me, WR(0, 0)));

	/* The last byte that both can tell, and the end of the file. */
	ASSERT_EQ(0, set(&self->other, UN(GIB2, 0)));
	EXPECT_STREQ("WR 100+2147483548 of peer", ask(&self->me, WR(0, 0)));
	ASSERT_EQ(0, set(&self->other, WR(100, 0)));
	EXPECT_STREQ("WR 100+0 of peer", ask(&self->me, WR(0, 0)));
}

/* What is set may end, and with the 64-bit commands start, beyond 2^31. */
TEST_F(narrow, set_beyond_2_gib)
{
	EXPECT_EQ(0, set(&self->me, WR(GIB2 - 1, 1)));
	EXPECT_STREQ("WR 2147483647-2147483647", held(&self->me));
	EXPECT_EQ(0, set(&self->me, WR(GIB2 - 1, 2)));
	EXPECT_STREQ("WR 2147483647-2147483648", held(&self->me));
	EXPECT_EQ(0, set(&self->me, WR(GIB2 - 1, GIB2 - 1)));
	EXPECT_STREQ("WR 2147483647-4294967293", held(&self->me));
	EXPECT_EQ(0, set(&self->me, UN(0, 0)));
	EXPECT_STREQ("", held(&self->me));
	self->me.entry = &entries[self->me.entry->int80 ? COMPAT64 : NATIVE];
	EXPECT_EQ(0, set(&self->me, WR(0x90000000, 5)));
	EXPECT_STREQ("WR 2415919104-2415919108", held(&self->me));
}

/*
 * fcntl() of 32-bit programs knows no command with 64-bit offsets, but that of
 * i386 is fcntl64() on a 64-bit kernel.
 */
TEST_F(narrow, commands_with_64_bit_offsets)
{
	const struct entry *wide = &entries[self->me.entry->int80 ? COMPAT64 : NATIVE];
	struct entry mixed = *wide;
	int expected = strcmp(kernel_machine(), "x86_64") ? EINVAL : 0, op;
	struct lock lock;

	mixed.nr = self->me.entry->nr;
	for (op = GET; op <= SETW; op++) {
		lock = UN(0, 0);
		if (op == GET)
			lock.type = F_RDLCK;
		EXPECT_EQ(expected, call(&mixed, false, self->me.fd, op, &lock));
		EXPECT_EQ(expected, call(&mixed, true, self->me.fd, op, &lock));
	}
}

/* An owner's pid is told as the caller's pid namespace has it, 0 if it has none. */
TEST(pid_namespaces)
{
	struct party me = { .pid = getpid(), .entry = &entries[NATIVE] };
	struct party first = me, second = me, me_ofd = me, first_ofd, second_ofd;
	char expected[64];

	me.fd = new_file(false);
	ASSERT_LE(0, me.fd);
	me_ofd.ofd = true;
	me_ofd.fd = party_open(&me, me.fd, O_RDWR);
	first.fd = party_open(&me, me.fd, O_RDWR);
	second.fd = party_open(&me, me.fd, O_RDWR);
	ASSERT_LE(0, second.fd);
	if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
		SKIP(return, "no pid namespace can be made: %s", strerror(errno));
	ASSERT_TRUE(start(&first));
	ASSERT_TRUE(start(&second));

	/* Seen from outside, from beside, and from inside. */
	ASSERT_EQ(0, set(&first, WR(0, 1)));
	snprintf(expected, sizeof(expected), "WR 0+1 pid %d", first.pid);
	EXPECT_STREQ(expected, ask(&me, WR(0, 1)));
	EXPECT_STREQ(expected, ask(&me_ofd, WR(0, 1)));
	EXPECT_STREQ("WR 0+1 pid 1", ask(&second, WR(0, 1)));
	ASSERT_EQ(0, set(&me, WR(10, 1)));
	EXPECT_STREQ("WR 10+1 pid 0", ask(&first, WR(10, 1)));

	/* Nothing of this is for OFD locks. */
	first_ofd = first;
	first_ofd.ofd = true;
	second_ofd = second;
	second_ofd.ofd = true;
	ASSERT_EQ(0, set(&first_ofd, WR(20, 1)));
	EXPECT_STREQ("WR 20+1 pid -1", ask(&me, WR(20, 1)));
	EXPECT_STREQ("WR 20+1 pid -1", ask(&me_ofd, WR(20, 1)));
	EXPECT_STREQ("WR 20+1 pid -1", ask(&second, WR(20, 1)));
	EXPECT_STREQ("WR 20+1 pid -1", ask(&second_ofd, WR(20, 1)));
	ASSERT_EQ(0, set(&me_ofd, WR(30, 1)));
	EXPECT_STREQ("WR 30+1 pid -1", ask(&first, WR(30, 1)));
	EXPECT_STREQ("WR 30+1 pid -1", ask(&first_ofd, WR(30, 1)));
	stop(&second);
	stop(&first);
}

TEST_HARNESS_MAIN
