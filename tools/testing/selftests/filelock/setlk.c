// SPDX-License-Identifier: GPL-2.0
/*
 * What F_SETLK and F_OFD_SETLK accept, what is held after them, and who releases it.
 */

#include "common.h"
#include <sys/socket.h>

/* Which bytes a lock covers, or why there is none; F_GETLK takes the same ranges. */
TEST_F(lock, ranges)
{
	static const struct {
		int whence;
		int64_t start, len;
		int err;
		const char *held;
	} table[] = {
		{ SEEK_SET, 0, 1, 0, "WR 0-0" },
		{ SEEK_SET, 0, 0, 0, "WR 0-EOF" },
		{ SEEK_SET, 5000, 10, 0, "WR 5000-5009" },
		{ SEEK_CUR, 10, 10, 0, "WR 11-20" },
		{ SEEK_CUR, -1, 1, 0, "WR 0-0" },
		{ SEEK_END, 0, 0, 0, "WR 1000-EOF" },
		{ SEEK_END, -10, 5, 0, "WR 990-994" },

		/* l_whence */
		{ 3, 0, 1, EINVAL, NULL },
		{ -1, 0, 1, EINVAL, NULL },

		/* up to the last offset */
		{ SEEK_SET, MAX_OFFSET, 0, 0, "WR 9223372036854775807-EOF" },
		{ SEEK_SET, MAX_OFFSET, 1, 0, "WR 9223372036854775807-EOF" },
		{ SEEK_SET, MAX_OFFSET, 2, EOVERFLOW, NULL },
		{ SEEK_SET, MAX_OFFSET - 1, 1, 0, "WR 9223372036854775806-9223372036854775806" },
		{ SEEK_SET, 0, MAX_OFFSET, 0, "WR 0-9223372036854775806" },
		{ SEEK_SET, 1, MAX_OFFSET, 0, "WR 1-EOF" },
		{ SEEK_SET, 2, MAX_OFFSET, EOVERFLOW, NULL },
		{ SEEK_SET, 2, MAX_OFFSET - 1, 0, "WR 2-EOF" },
		{ SEEK_SET, 3, MAX_OFFSET - 1, EOVERFLOW, NULL },
		{ SEEK_CUR, MAX_OFFSET - 1, 1, 0, "WR 9223372036854775807-EOF" },
		{ SEEK_CUR, MAX_OFFSET, 1, EOVERFLOW, NULL },
		{ SEEK_CUR, 0, MAX_OFFSET, 0, "WR 1-EOF" },
		{ SEEK_END, MAX_OFFSET, 1, EOVERFLOW, NULL },
		{ SEEK_END, MAX_OFFSET - 1000, 1, 0, "WR 9223372036854775807-EOF" },
		{ SEEK_END, MAX_OFFSET - 999, 1, EOVERFLOW, NULL },

		/* a negative length: the bytes before l_start */
		{ SEEK_SET, 100, -10, 0, "WR 90-99" },
		{ SEEK_SET, 10, -10, 0, "WR 0-9" },
		{ SEEK_SET, 5, -10, EINVAL, NULL },
		{ SEEK_SET, 0, -1, EINVAL, NULL },
		{ SEEK_SET, 0, INT32_MIN, EINVAL, NULL },
		{ SEEK_SET, 0, INT64_MIN, EINVAL, NULL },
		{ SEEK_SET, MAX_OFFSET, -MAX_OFFSET, 0, "WR 0-9223372036854775806" },
		{ SEEK_SET, MAX_OFFSET, INT64_MIN, EINVAL, NULL },
		{ SEEK_CUR, 0, -1, 0, "WR 0-0" },
		{ SEEK_CUR, 0, -2, EINVAL, NULL },
		{ SEEK_END, 0, -1000, 0, "WR 0-999" },
		{ SEEK_END, 0, -1001, EINVAL, NULL },

		/* a negative start */
		{ SEEK_SET, -1, 1, EINVAL, NULL },
		{ SEEK_SET, -1, 0, EINVAL, NULL },
		{ SEEK_SET, INT64_MIN, 0, EINVAL, NULL },
		{ SEEK_CUR, -2, 1, EINVAL, NULL },
		{ SEEK_CUR, INT32_MIN, 1, EINVAL, NULL },
		{ SEEK_CUR, INT64_MIN, 1, EINVAL, NULL },
		{ SEEK_END, -1000, 1, 0, "WR 0-0" },
		{ SEEK_END, -1001, 1, EINVAL, NULL },
		{ SEEK_END, -1001, 0, EINVAL, NULL },
	};
	size_t i;

	ASSERT_EQ(1, lseek(self->me.fd, 1, SEEK_SET));
	for (i = 0; i < ARRAY_SIZE(table); i++) {
		struct lock lock = { F_WRLCK, table[i].whence, table[i].start, table[i].len, 0 };
		struct lock question = lock;

		if (!fits(self->me.entry, lock.start) || !fits(self->me.entry, lock.len))
			continue;
		EXPECT_EQ(table[i].err, set(&self->me, lock))
		{
			TH_LOG("row %zu", i);
		}
		EXPECT_STREQ(table[i].held ?: "", held(&self->me))
		{
			TH_LOG("row %zu", i);
		}
		EXPECT_EQ(table[i].err, do_call(&self->me, self->me.fd, GET, &question))
		{
			TH_LOG("row %zu", i);
		}

		/* The same range, or an error that releases nothing. */
		lock.type = F_UNLCK;
		EXPECT_EQ(table[i].err, set(&self->me, lock))
		{
			TH_LOG("row %zu", i);
		}
		EXPECT_STREQ("", held(&self->me))
		{
			TH_LOG("row %zu", i);
		}
	}
}

/* What one owner holds after one lock call upon the other: merged, split, replaced. */
TEST_F(lock, lists)
{
	static const struct {
		struct lock steps[6];
		const char *held;
	} table[] = {
		{ { WR(0, 100), UN(40, 10), RD(60, 10), WR(100, 5) },
		  "WR 0-39, WR 50-59, RD 60-69, WR 70-104" },
		/* adjacent and overlapping locks of one type are one lock, of two types are not */
		{ { WR(0, 10), WR(10, 10) }, "WR 0-19" },
		{ { WR(10, 10), WR(0, 10) }, "WR 0-19" },
		{ { WR(0, 10), WR(5, 10) }, "WR 0-14" },
		{ { WR(0, 10), WR(11, 10) }, "WR 0-9, WR 11-20" },
		{ { WR(0, 10), WR(20, 10), WR(10, 10) }, "WR 0-29" },
		{ { WR(0, 10), RD(10, 10), WR(20, 10) }, "WR 0-9, RD 10-19, WR 20-29" },
		{ { RD(0, 10), RD(20, 10), RD(40, 10), RD(5, 40) }, "RD 0-49" },
		/* another type takes over: a part, the edges, all, and more than all */
		{ { WR(0, 30), RD(10, 10) }, "WR 0-9, RD 10-19, WR 20-29" },
		{ { WR(0, 30), RD(0, 10) }, "RD 0-9, WR 10-29" },
		{ { WR(0, 30), RD(20, 10) }, "WR 0-19, RD 20-29" },
		{ { WR(0, 30), RD(0, 30) }, "RD 0-29" },
		{ { WR(10, 10), RD(0, 30) }, "RD 0-29" },
		{ { WR(10, 10), WR(30, 10), RD(0, 35) }, "RD 0-34, WR 35-39" },
		{ { WR(0, 30), RD(10, 10), WR(10, 10) }, "WR 0-29" },
		{ { RD(0, 10), WR(10, 10), RD(20, 10), RD(10, 10) }, "RD 0-29" },
		/* the same again changes nothing */
		{ { WR(5, 5), WR(5, 5) }, "WR 5-9" },
		{ { WR(0, 30), WR(10, 10) }, "WR 0-29" },
		/* an unlock of nothing, the edges, a hole, all, several */
		{ { UN(0, 0) }, "" },
		{ { WR(10, 10), UN(0, 10), UN(20, 0) }, "WR 10-19" },
		{ { WR(10, 10), UN(0, 15) }, "WR 15-19" },
		{ { WR(10, 10), UN(15, 0) }, "WR 10-14" },
		{ { WR(10, 10), UN(14, 1) }, "WR 10-13, WR 15-19" },
		{ { WR(10, 10), UN(10, 10) }, "" },
		{ { WR(0, 10), RD(20, 10), WR(40, 10), UN(5, 40) }, "WR 0-4, WR 45-49" },
		{ { WR(0, 10), RD(20, 10), WR(40, 10), UN(0, 0) }, "" },
		/* up to the end */
		{ { WR(0, 0), UN(10, 10) }, "WR 0-9, WR 20-EOF" },
		{ { WR(20, 0), WR(0, 20) }, "WR 0-EOF" },
		{ { WR(0, 0), RD(100, 0) }, "WR 0-99, RD 100-EOF" },
		{ { WR(0, 0), UN(1, 0) }, "WR 0-0" },
		{ { WR(0, 10), WR(0, 0), UN(0, 1) }, "WR 1-EOF" },
	};
	size_t i, step;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		for (step = 0; step < ARRAY_SIZE(table[i].steps); step++) {
			/* A step that is not there reads like a read lock of everything. */
			if (!memcmp(&table[i].steps[step], &RD(0, 0), sizeof(struct lock)))
				break;
			EXPECT_EQ(0, set(&self->me, table[i].steps[step]))
			{
				TH_LOG("row %zu, step %zu", i, step);
			}
		}
		EXPECT_STREQ(table[i].held, held(&self->me))
		{
			TH_LOG("row %zu", i);
		}
		ASSERT_EQ(0, set(&self->me, UN(0, 0)));
	}
}

/* F_SETLK fails at once if anybody else's lock is in the way, and changes nothing. */
TEST_F(lock, conflict_is_EAGAIN)
{
	ASSERT_EQ(0, set(&self->other, RD(10, 10)));
	ASSERT_EQ(0, set(&self->other, WR(30, 10)));
	ASSERT_EQ(0, set(&self->me, RD(0, 15)));
	EXPECT_EQ(EAGAIN, set(&self->me, WR(19, 1)));
	EXPECT_EQ(EAGAIN, set(&self->me, WR(0, 15)));
	EXPECT_EQ(EAGAIN, set(&self->me, RD(0, 0)));
	EXPECT_EQ(EAGAIN, set(&self->me, RD(39, 1)));
	EXPECT_EQ(EAGAIN, set(&self->other, WR(14, 1)));
	EXPECT_STREQ("RD 0-14", held(&self->me));
	EXPECT_STREQ("RD 10-19, WR 30-39", held(&self->other));

	/* Beside it, and after it. */
	EXPECT_EQ(0, set(&self->me, RD(10, 20)));
	EXPECT_EQ(0, set(&self->me, WR(40, 0)));
	EXPECT_EQ(0, set(&self->other, UN(30, 10)));
	EXPECT_EQ(0, set(&self->me, RD(30, 10)));
	EXPECT_EQ(0, set(&self->other, RD(0, 40)));
}

/* Where nothing is in the way, the waiting commands are like the others. */
TEST_F(lock, nothing_to_wait_for)
{
	struct lock lock = WR(10, 10);

	ASSERT_EQ(0, set(&self->other, WR(20, 0)));
	EXPECT_EQ(0, do_call(&self->me, self->me.fd, SETW, &lock));
	EXPECT_STREQ("WR 10-19", held(&self->me));
	EXPECT_EQ(EAGAIN, set(&self->other, WR(10, 1)));
	lock = UN(0, 0);
	EXPECT_EQ(0, do_call(&self->me, self->me.fd, SETW, &lock));
	EXPECT_STREQ("", held(&self->me));
}

/* Two owners with ranges of their own do not meet. */
TEST_F(lock, disjoint_ranges)
{
	int i;

	for (i = 0; i < 40; i += 10) {
		EXPECT_EQ(0, set(&self->me, WR(i, 5)));
		EXPECT_EQ(0, set(&self->other, WR(i + 5, 5)));
	}
	EXPECT_STREQ("UN 0+5", ask(&self->me, WR(0, 5)));
	EXPECT_STREQ("WR 5+5 of peer", ask(&self->me, WR(0, 10)));
	EXPECT_EQ(0, set(&self->me, UN(0, 0)));
	EXPECT_STREQ("", held(&self->me));
	EXPECT_STREQ("WR 5-9, WR 15-19, WR 25-29, WR 35-39", held(&self->other));
}

/* A lock needs a descriptor with its access mode, an unlock does not. */
TEST_F(lock, access_mode)
{
	int rdonly = party_open(&self->me, self->me.fd, O_RDONLY);
	int wronly = party_open(&self->me, self->me.fd, O_WRONLY);

	ASSERT_LE(0, rdonly);
	ASSERT_LE(0, wronly);
	EXPECT_EQ(EBADF, set_on(&self->me, wronly, RD(0, 1)));
	EXPECT_EQ(EBADF, set_on(&self->me, rdonly, WR(0, 1)));
	EXPECT_STREQ("UN 0+0", ask(&self->other, WR(0, 0)));
	EXPECT_EQ(0, set_on(&self->me, rdonly, RD(0, 1)));
	EXPECT_EQ(0, set_on(&self->me, wronly, WR(1, 1)));
	EXPECT_EQ(0, set_on(&self->me, rdonly, UN(0, 0)));
	EXPECT_EQ(0, set_on(&self->me, wronly, UN(0, 0)));
	EXPECT_STREQ("UN 0+0", ask(&self->other, WR(0, 0)));
}

/*
 * Any close() of the file drops the POSIX locks of the process on it, an OFD lock
 * lives until the last reference to its description goes.
 */
TEST_F(lock, close_of_another_descriptor)
{
	const char *kept = "WR 10+10 of peer", *gone = "UN 0+0";
	int fd;

	ASSERT_EQ(0, set(&self->other, WR(10, 10)));
	ASSERT_STREQ(kept, ask(&self->me, WR(0, 0)));
	fd = party_open(&self->other, self->other.fd, O_RDONLY);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, party_close(&self->other, fd));
	EXPECT_STREQ(variant->ofd ? kept : gone, ask(&self->me, WR(0, 0)));

	ASSERT_EQ(0, set(&self->other, WR(10, 10)));
	fd = party_dup(&self->other, self->other.fd);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, party_close(&self->other, fd));
	EXPECT_STREQ(variant->ofd ? kept : gone, ask(&self->me, WR(0, 0)));

	ASSERT_EQ(0, set(&self->other, WR(10, 10)));
	fd = party_dup(&self->other, self->other.fd);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, party_close(&self->other, self->other.fd));
	EXPECT_STREQ(variant->ofd ? kept : gone, ask(&self->me, WR(0, 0)));
	ASSERT_EQ(0, party_close(&self->other, fd));
	EXPECT_STREQ(gone, ask(&self->me, WR(0, 0)));
}

/* A close() of somebody else's drops nothing, the end of the process everything. */
TEST_F(lock, end_of_the_owner)
{
	struct party child = self->other;

	child.fd = self->me.fd;
	child.peer = NULL;
	ASSERT_TRUE(start(&child));
	child.fd = party_open(&child, child.fd, O_RDWR);
	ASSERT_LE(0, child.fd);
	ASSERT_EQ(0, set(&child, WR(10, 10)));
	ASSERT_EQ(0, set(&self->other, WR(30, 10)));
	ASSERT_EQ(0, party_close(&self->me, self->me.fd));
	EXPECT_EQ(EAGAIN, set(&self->other, WR(10, 1)));
	stop(&child);
	EXPECT_EQ(0, set(&self->other, WR(10, 1)));
	EXPECT_STREQ("WR 10-10, WR 30-39", held(&self->other));
}

/* A forked child is another owner of POSIX locks, but the same one of OFD locks. */
TEST_F(lock, fork)
{
	struct party child = self->me;

	self->other.peer = &self->me;
	child.peer = &self->me;
	ASSERT_EQ(0, set(&self->me, WR(10, 10)));
	ASSERT_TRUE(start(&child));
	if (variant->ofd) {
		EXPECT_STREQ("UN 0+0", ask(&child, WR(0, 0)));
		EXPECT_EQ(0, set(&child, UN(10, 5)));
		EXPECT_STREQ("WR 15+5 of peer", ask(&self->other, WR(0, 0)));
	} else {
		EXPECT_STREQ("WR 10+10 of peer", ask(&child, WR(0, 0)));
		EXPECT_EQ(EAGAIN, set(&child, WR(10, 1)));
		EXPECT_EQ(0, set(&child, UN(0, 0)));
		EXPECT_STREQ("WR 10+10 of peer", ask(&self->other, WR(0, 0)));
	}

	/* Neither does the child's close release anything, nor its end. */
	ASSERT_EQ(0, party_close(&child, child.fd));
	EXPECT_EQ(EAGAIN, set(&self->other, WR(15, 1)));
	stop(&child);
	EXPECT_EQ(EAGAIN, set(&self->other, WR(15, 1)));

	/* The parent's releases what is its own; a description lives on in a child. */
	child.fd = self->me.fd;
	ASSERT_TRUE(start(&child));
	ASSERT_EQ(0, party_close(&self->me, self->me.fd));
	EXPECT_EQ(variant->ofd ? EAGAIN : 0, set(&self->other, WR(15, 1)));
	stop(&child);
	EXPECT_EQ(0, set(&self->other, WR(0, 0)));
}

/* Files that are no regular ones, through the native entry. */
FIXTURE(descriptor)
{
	struct party me;
};

FIXTURE_VARIANT(descriptor)
{
	bool ofd;
};

FIXTURE_VARIANT_ADD(descriptor, posix) { false };
FIXTURE_VARIANT_ADD(descriptor, ofd) { true };

FIXTURE_SETUP(descriptor)
{
	self->me.pid = getpid();
	self->me.entry = &entries[NATIVE];
	self->me.ofd = variant->ofd;
}

FIXTURE_TEARDOWN(descriptor)
{
}

TEST_F(descriptor, pipe)
{
	const struct lock from_end = { F_WRLCK, SEEK_END, 0, 1, 0 };
	int ends[2];

	ASSERT_EQ(0, pipe(ends));
	EXPECT_EQ(0, set_on(&self->me, ends[0], RD(0, 1)));
	EXPECT_EQ(EBADF, set_on(&self->me, ends[0], WR(0, 1)));
	EXPECT_EQ(EBADF, set_on(&self->me, ends[1], RD(0, 1)));
	EXPECT_EQ(0, set_on(&self->me, ends[1], UN(0, 0)));
	EXPECT_EQ(0, set_on(&self->me, ends[0], UN(0, 0)));
	EXPECT_EQ(0, set_on(&self->me, ends[1], from_end));

	/* Both ends are one file. */
	self->me.fd = ends[1];
	EXPECT_STREQ("WR 0-0", held(&self->me));
	EXPECT_EQ(variant->ofd ? EAGAIN : 0, set_on(&self->me, ends[0], RD(0, 1)));
}

TEST_F(descriptor, socket)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		SKIP(return, "no UNIX domain sockets: %s", strerror(errno));
	EXPECT_EQ(0, set_on(&self->me, pair[0], WR(0, 1)));
	EXPECT_EQ(0, set_on(&self->me, pair[1], WR(0, 1)));
}

TEST_F(descriptor, directory)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, set_on(&self->me, fd, RD(MAX_OFFSET - 10, 1)));
	EXPECT_EQ(EBADF, set_on(&self->me, fd, WR(MAX_OFFSET - 10, 1)));
	EXPECT_EQ(0, set_on(&self->me, fd, UN(MAX_OFFSET - 10, 1)));
}

TEST_F(descriptor, proc_file)
{
	int fd = open("/proc/self/status", O_RDONLY);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, set_on(&self->me, fd, RD(0, 1)));
	EXPECT_EQ(EBADF, set_on(&self->me, fd, WR(0, 1)));
}

TEST_F(descriptor, device)
{
	int fd = open("/dev/null", O_RDWR);

	ASSERT_LE(0, fd);
	/* Somebody else's lock may be there, but hardly here. */
	EXPECT_EQ(0, set_on(&self->me, fd, WR(MAX_OFFSET - getpid(), 1)));
	EXPECT_EQ(0, set_on(&self->me, fd, UN(MAX_OFFSET - getpid(), 1)));
}

/* One descriptor of one process, locked twice: by the process and by the description. */
FIXTURE(kinds)
{
	struct party first, second;
};

FIXTURE_VARIANT(kinds)
{
	bool first_ofd, second_ofd;
};

FIXTURE_VARIANT_ADD(kinds, posix_posix) { false, false };
FIXTURE_VARIANT_ADD(kinds, posix_ofd) { false, true };
FIXTURE_VARIANT_ADD(kinds, ofd_posix) { true, false };
FIXTURE_VARIANT_ADD(kinds, ofd_ofd) { true, true };

FIXTURE_SETUP(kinds)
{
	self->first.pid = getpid();
	self->first.entry = &entries[NATIVE];
	self->first.ofd = variant->first_ofd;
	self->first.fd = new_file(false);
	ASSERT_LE(0, self->first.fd);
	self->second = self->first;
	self->second.ofd = variant->second_ofd;
	self->second.peer = &self->first;
}

FIXTURE_TEARDOWN(kinds)
{
	EXPECT_EQ(0, close(self->first.fd));
}

/* POSIX and OFD locks conflict with each other even in one process. */
TEST_F(kinds, one_process)
{
	bool same = variant->first_ofd == variant->second_ofd;

	ASSERT_EQ(0, set(&self->first, WR(10, 10)));
	EXPECT_STREQ(same ? "UN 15+1" : "WR 10+10 of peer", ask(&self->second, WR(15, 1)));
	EXPECT_EQ(same ? 0 : EAGAIN, set(&self->second, WR(15, 1)));
	EXPECT_STREQ("WR 10-19", held(&self->first));
	EXPECT_EQ(0, set(&self->second, UN(0, 0)));
	EXPECT_STREQ(same ? "" : "WR 10-19", held(&self->first));
}

/* Another open of the file: the same process, but another description. */
TEST_F(kinds, two_descriptions)
{
	bool same = !variant->first_ofd && !variant->second_ofd;

	self->second.fd = party_open(&self->second, self->first.fd, O_RDWR);
	ASSERT_LE(0, self->second.fd);
	ASSERT_EQ(0, set(&self->first, WR(10, 10)));
	EXPECT_STREQ(same ? "UN 15+1" : "WR 10+10 of peer", ask(&self->second, WR(15, 1)));
	EXPECT_EQ(same ? 0 : EAGAIN, set(&self->second, RD(15, 1)));
}

/* F_SETLEASE takes the three types of a lock, and no other. */
TEST(lease)
{
	int fd = new_file(true), lease;
	char path[64];

	if (fd < 0)
		SKIP(return, "no file can be made in TMPDIR (or /tmp): %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	lease = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, lease);
	close(fd);
	if (fcntl(lease, F_SETLEASE, F_RDLCK))
		SKIP(return, "no leases in TMPDIR (or /tmp): %s", strerror(errno));
	EXPECT_EQ(F_RDLCK, fcntl(lease, F_GETLEASE));
	EXPECT_EQ(0, fcntl(lease, F_SETLEASE, F_RDLCK));
	errno = 0;
	EXPECT_EQ(-1, fcntl(lease, F_SETLEASE, 5));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(F_RDLCK, fcntl(lease, F_GETLEASE));
	EXPECT_EQ(0, fcntl(lease, F_SETLEASE, F_UNLCK));
	EXPECT_EQ(F_UNLCK, fcntl(lease, F_GETLEASE));
}

TEST_HARNESS_MAIN
