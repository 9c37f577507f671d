// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for POSIX file locks: what user space cannot see.
 *
 * Locks of a lock manager and private data of a filesystem are reference
 * counted here, file_operations with ->lock are made up, allocations of locks
 * are counted and made to fail, and the lock list is read after each call.
 */
#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/module.h>

#define EOF	OFFSET_MAX

/* Let the fake ->lock do what the VFS does for a file without ->lock. */
#define LOCAL	1000

/*
 * Owners are letters: A, B and C belong to a lock manager (their locks have
 * fl_lmops and fl_ops), P is the process that calls fcntl(), O an open file
 * description.
 */
#define LM_OWNERS	3

struct locks_range {
	char owner;
	unsigned char type;
	loff_t start;
	loff_t end;
};

struct locks_owner {
	int refs;
};

struct locks_test {
	struct kunit *test;

	/* Three opens of one file; fd refers to file. */
	struct file *file;
	struct file *rdonly;
	struct file *wronly;
	int fd;

	/* The references that the lock manager and the filesystem gave. */
	struct locks_owner owner[LM_OWNERS];
	int private;
	int module_refs;

	/* The request of the call under test, and what it was before. */
	struct file_lock req;
	struct file_lock passed;
	/* For calls within this call. */
	struct file_lock inner;

	/* Allocations: how many, which one fails, which one has a side effect. */
	struct {
		unsigned int calls;
		unsigned int fail;
		bool fail_rest;
		unsigned int change_at;
		const struct locks_range *change;
		int expirable;
		bool changed;
	} alloc;

	/* What the fake ->lock returns call by call, and what it has seen. */
	struct {
		int ret[3];
		bool set_ops;
		int calls;
		unsigned int cmd[3];
		unsigned int flags;
		unsigned char type;
		fl_owner_t owner;
	} fs;

	/* How often lm_lock_expirable says yes, and what was called then. */
	struct {
		int left;
		bool remove;
		int asked;
		int expired;
	} lm;

	char text[256];
	char text2[256];
};

static struct locks_test *locks_test_this(void)
{
	return kunit_get_current_test()->priv;
}

/* The references of the lock manager and of the filesystem. */

static fl_owner_t locks_test_get_owner(fl_owner_t owner)
{
	struct locks_owner *o = owner;

	o->refs++;
	return owner;
}

static void locks_test_put_owner(fl_owner_t owner)
{
	struct locks_owner *o = owner;

	o->refs--;
}

static void locks_test_copy_lock(struct file_lock *new, struct file_lock *fl)
{
	locks_test_this()->private++;
}

static void locks_test_release_private(struct file_lock *fl)
{
	locks_test_this()->private--;
}

static fl_owner_t locks_test_owner(struct locks_test *t, char owner)
{
	switch (owner) {
	case 'O':
		return t->file;
	case 'P':
		return current->files;
	default:
		return &t->owner[owner - 'A'];
	}
}

static char locks_test_owner_name(struct locks_test *t, fl_owner_t owner)
{
	static const char names[] = "ABCOP";
	const char *name;

	for (name = names; *name; name++)
		if (owner == locks_test_owner(t, *name))
			return *name;
	return '?';
}

static bool locks_test_is_lm(char owner)
{
	return owner < 'A' + LM_OWNERS;
}

static bool locks_test_expirable(struct file_lock *fl)
{
	struct locks_test *t = locks_test_this();

	t->lm.asked++;
	if (!t->lm.left)
		return false;
	t->lm.left--;
	return true;
}

static void locks_test_expire(void);

/* Never loaded, but somebody can hold references to it. */
static struct module locks_test_module;

static int locks_test_module_refs(void)
{
#ifdef CONFIG_MODULE_UNLOAD
	return atomic_read(&locks_test_module.refcnt);
#else
	return 0;
#endif
}

static const struct lock_manager_operations locks_test_lmops = {
	.lm_mod_owner = IS_ENABLED(CONFIG_MODULE_UNLOAD) ? &locks_test_module : NULL,
	.lm_get_owner = locks_test_get_owner,
	.lm_put_owner = locks_test_put_owner,
	.lm_lock_expirable = locks_test_expirable,
	.lm_expire_lock = locks_test_expire,
};

static const struct file_lock_operations locks_test_flops = {
	.fl_copy_lock = locks_test_copy_lock,
	.fl_release_private = locks_test_release_private,
};

/* Requests */

static void locks_test_fill(struct locks_test *t, struct file_lock *fl,
			    const struct locks_range *r)
{
	locks_init_lock(fl);
	fl->c.flc_owner = locks_test_owner(t, r->owner);
	fl->c.flc_flags = FL_POSIX;
	fl->c.flc_type = r->type;
	fl->c.flc_pid = r->owner;
	fl->c.flc_file = t->file;
	fl->fl_start = r->start;
	fl->fl_end = r->end;
	if (r->owner == 'O')
		fl->c.flc_flags |= FL_OFDLCK;
	if (locks_test_is_lm(r->owner)) {
		fl->fl_lmops = &locks_test_lmops;
		locks_test_get_owner(fl->c.flc_owner);
		fl->fl_ops = &locks_test_flops;
		t->private++;
	}
}

static int locks_test_call(struct locks_test *t, const struct locks_range *r,
			   unsigned int flags)
{
	locks_test_fill(t, &t->req, r);
	t->req.c.flc_flags |= flags;
	memcpy(&t->passed, &t->req, sizeof(t->req));
	return posix_lock_file(t->file, &t->req, NULL);
}

/* No list and no other thread knows the lock. */
static void locks_test_expect_idle(struct kunit *test, struct file_lock *fl)
{
	KUNIT_EXPECT_PTR_EQ(test, fl->c.flc_blocker, NULL);
	KUNIT_EXPECT_TRUE(test, list_empty(&fl->c.flc_list));
	KUNIT_EXPECT_TRUE(test, hlist_unhashed(&fl->c.flc_link));
	KUNIT_EXPECT_TRUE(test, list_empty(&fl->c.flc_blocked_requests));
	KUNIT_EXPECT_TRUE(test, list_empty(&fl->c.flc_blocked_member));
	KUNIT_EXPECT_TRUE(test, list_empty(&fl->c.flc_wait.head));
}

/* A range that only a merge may have changed; all the rest stays. */
static void locks_test_expect_passed(struct locks_test *t, loff_t start,
				     loff_t end)
{
	struct file_lock *is = &t->req, *was = &t->passed;
	struct kunit *test = t->test;

	KUNIT_EXPECT_EQ(test, is->fl_start, start);
	KUNIT_EXPECT_EQ(test, is->fl_end, end);
	KUNIT_EXPECT_PTR_EQ(test, is->c.flc_owner, was->c.flc_owner);
	KUNIT_EXPECT_EQ(test, is->c.flc_flags, was->c.flc_flags);
	KUNIT_EXPECT_EQ(test, is->c.flc_type, was->c.flc_type);
	KUNIT_EXPECT_EQ(test, is->c.flc_pid, was->c.flc_pid);
	KUNIT_EXPECT_PTR_EQ(test, is->c.flc_file, was->c.flc_file);
	KUNIT_EXPECT_PTR_EQ(test, is->fl_ops, was->fl_ops);
	KUNIT_EXPECT_PTR_EQ(test, is->fl_lmops, was->fl_lmops);
}

static void locks_test_expect_unchanged(struct locks_test *t)
{
	locks_test_expect_passed(t, t->passed.fl_start, t->passed.fl_end);
}

static void locks_test_end_call(struct locks_test *t)
{
	locks_test_expect_idle(t->test, &t->req);
	locks_delete_block(&t->req);
	locks_release_private(&t->req);
}

/* For preparations, and for what others do during the call under test. */
static void locks_test_set(struct locks_test *t, const struct locks_range *r)
{
	locks_test_fill(t, &t->inner, r);
	KUNIT_EXPECT_EQ(t->test, posix_lock_file(t->file, &t->inner, NULL), 0);
	locks_release_private(&t->inner);
}

static void locks_test_set_all(struct locks_test *t, const struct locks_range *r)
{
	for (; r->owner; r++)
		locks_test_set(t, r);
}

static void locks_test_unlock(struct locks_test *t, char owner)
{
	const struct locks_range all = { owner, F_UNLCK, 0, EOF };

	locks_test_set(t, &all);
}

static struct list_head *locks_test_list(struct locks_test *t)
{
	struct file_lock_context *ctx = locks_inode_context(file_inode(t->file));

	return ctx ? &ctx->flc_posix : NULL;
}

/*
 * The lock list as text: owner by owner, its locks in list order. This must be
 * the order of their starts, and the locks of one owner must be neighbours.
 */
static void locks_test_print(struct locks_test *t, char *text)
{
	struct list_head *list = locks_test_list(t);
	struct file_lock *fl, *prev;
	const char *owner;
	size_t len = 0;

	text[0] = '\0';
	if (!list)
		return;
	for (owner = "ABCOP?"; *owner; owner++) {
		prev = NULL;
		list_for_each_entry(fl, list, c.flc_list) {
			if (locks_test_owner_name(t, fl->c.flc_owner) != *owner)
				continue;
			if (!prev)
				len += scnprintf(text + len, sizeof(t->text) - len,
						 "%s%c:", len ? " " : "", *owner);
			len += scnprintf(text + len, sizeof(t->text) - len,
					 "%s%c%lld-", prev ? "," : "",
					 lock_is_read(fl) ? 'R' : 'W',
					 fl->fl_start);
			if (fl->fl_end == EOF)
				len += scnprintf(text + len,
						 sizeof(t->text) - len, "EOF");
			else
				len += scnprintf(text + len,
						 sizeof(t->text) - len, "%lld",
						 fl->fl_end);
			if (prev) {
				KUNIT_EXPECT_PTR_EQ(t->test, prev,
						    list_prev_entry(fl, c.flc_list));
				KUNIT_EXPECT_LT(t->test, prev->fl_start,
						fl->fl_start);
			}
			prev = fl;
		}
	}
}

static void locks_test_expect_list(struct locks_test *t, const char *want)
{
	locks_test_print(t, t->text);
	KUNIT_EXPECT_STREQ(t->test, t->text, want);
}

/* Between two calls, every reference belongs to a lock on the list. */
static void locks_test_expect_balance(struct locks_test *t, const char *where)
{
	struct list_head *list = locks_test_list(t);
	int i, refs[LM_OWNERS] = {}, private = 0;
	struct file_lock *fl;

	if (list) {
		list_for_each_entry(fl, list, c.flc_list) {
			if (fl->fl_ops)
				private++;
			for (i = 0; fl->fl_lmops && i < LM_OWNERS; i++)
				if (fl->c.flc_owner == &t->owner[i])
					refs[i]++;
		}
	}
	for (i = 0; i < LM_OWNERS; i++)
		KUNIT_EXPECT_EQ_MSG(t->test, t->owner[i].refs, refs[i],
				    "%s: owner %c", where, 'A' + i);
	KUNIT_EXPECT_EQ_MSG(t->test, t->private, private, "%s", where);
	KUNIT_EXPECT_EQ_MSG(t->test, locks_test_module_refs(), t->module_refs,
			    "%s", where);
}

/* What every ->lock can rely on, whatever it is going to do. */
static int locks_test_fs_lock(struct file *filp, int cmd, struct file_lock *fl)
{
	struct locks_test *t = locks_test_this();
	struct kunit *test = t->test;
	int ret, nr = min_t(int, t->fs.calls++, ARRAY_SIZE(t->fs.ret) - 1);

	if (!nr || cmd == F_GETLK) {
		locks_test_expect_idle(test, fl);
		KUNIT_EXPECT_PTR_EQ(test, fl->fl_ops, NULL);
		KUNIT_EXPECT_PTR_EQ(test, fl->fl_lmops, NULL);
		KUNIT_EXPECT_PTR_EQ(test, memchr_inv(&fl->fl_u, 0, sizeof(fl->fl_u)),
				    NULL);
	}
	KUNIT_EXPECT_PTR_EQ(test, fl->c.flc_file, filp);
	KUNIT_EXPECT_EQ(test, fl->c.flc_pid, current->tgid);
	t->fs.cmd[nr] = cmd;
	t->fs.flags = fl->c.flc_flags;
	t->fs.type = fl->c.flc_type;
	t->fs.owner = fl->c.flc_owner;

	ret = t->fs.ret[nr];
	if (cmd == F_GETLK && ret == LOCAL)
		posix_test_lock(filp, fl);
	if (t->fs.set_ops && !fl->fl_ops) {
		fl->fl_ops = &locks_test_flops;
		t->private++;
	}
	if (ret != LOCAL)
		return ret;
	return cmd == F_GETLK ? 0 : posix_lock_file(filp, fl, NULL);
}

static const struct file_operations locks_test_vfs = {};

static const struct file_operations locks_test_fs = {
	.lock = locks_test_fs_lock,
};

static void locks_test_use_fs(struct locks_test *t, bool fs)
{
	t->file->f_op = fs ? &locks_test_fs : &locks_test_vfs;
	t->rdonly->f_op = t->file->f_op;
	t->wronly->f_op = t->file->f_op;
}

/* Drop all locks and forget what was counted. */
static void locks_test_reset(struct locks_test *t)
{
	struct list_head *list = locks_test_list(t);
	struct file_lock *fl;
	int tries = 0;

	memset(&t->alloc, 0, sizeof(t->alloc));
	memset(&t->lm, 0, sizeof(t->lm));
	memset(&t->fs, 0, sizeof(t->fs));
	locks_test_use_fs(t, false);

	while (list && !list_empty(list)) {
		fl = list_first_entry(list, struct file_lock, c.flc_list);
		KUNIT_ASSERT_LT(t->test, tries++, 16);
		locks_init_lock(&t->inner);
		t->inner.c.flc_owner = fl->c.flc_owner;
		t->inner.c.flc_flags = FL_POSIX;
		t->inner.c.flc_type = F_UNLCK;
		t->inner.fl_end = EOF;
		posix_lock_file(t->file, &t->inner, NULL);
	}
	locks_test_expect_balance(t, "no locks");
}

/*
 * Stands in for locks_alloc_lock(). The side effect of an allocation is what
 * others may do to the list while the caller sleeps for memory.
 */
static struct file_lock *locks_test_alloc_lock(void)
{
	struct locks_test *t = locks_test_this();
	unsigned int nr = ++t->alloc.calls;
	struct file_lock *fl = NULL;

	kunit_deactivate_static_stub(t->test, locks_alloc_lock);
	if (nr == t->alloc.change_at) {
		locks_test_set_all(t, t->alloc.change);
		locks_test_print(t, t->text2);
		t->lm.left += t->alloc.expirable;
		t->alloc.changed = true;
	}
	if (!t->alloc.fail || nr < t->alloc.fail ||
	    (nr > t->alloc.fail && !t->alloc.fail_rest))
		fl = locks_alloc_lock();
	kunit_activate_static_stub(t->test, locks_alloc_lock,
				   locks_test_alloc_lock);
	return fl;
}

/* Called without any lock held, so that it may change the list itself. */
static void locks_test_expire(void)
{
	struct locks_test *t = locks_test_this();

	t->lm.expired++;
	if (IS_ENABLED(CONFIG_MODULE_UNLOAD))
		KUNIT_EXPECT_EQ(t->test, locks_test_module_refs(),
				t->module_refs + 1);
	if (t->lm.remove && !t->lm.left) {
		locks_test_unlock(t, 'B');
		locks_test_unlock(t, 'C');
	}
}

static int locks_test_init(struct kunit *test)
{
	struct locks_test *t;
	int fd;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	t->test = test;
	t->fd = -1;
	locks_init_lock(&t->req);
	test->priv = t;

#ifdef CONFIG_MODULE_UNLOAD
	atomic_set(&locks_test_module.refcnt, 1);
#endif
	t->module_refs = locks_test_module_refs();

	t->file = anon_inode_create_getfile("[locks_kunit]", &locks_test_vfs,
					    NULL, O_RDWR, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->file);
	i_size_write(file_inode(t->file), 1000);
	t->rdonly = alloc_file_clone(t->file, O_RDONLY, &locks_test_vfs);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->rdonly);
	t->wronly = alloc_file_clone(t->file, O_WRONLY, &locks_test_vfs);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->wronly);

	fd = get_unused_fd_flags(0);
	KUNIT_ASSERT_GE(test, fd, 0);
	fd_install(fd, get_file(t->file));
	t->fd = fd;

	kunit_activate_static_stub(test, locks_alloc_lock, locks_test_alloc_lock);
	return 0;
}

static void locks_test_exit(struct kunit *test)
{
	struct locks_test *t = test->priv;

	if (!t)
		return;
	if (t->fd >= 0) {
		/* A test that was aborted may have left a waiter. */
		locks_delete_block(&t->req);
		locks_test_reset(t);
		close_fd(t->fd);
	}
	if (!IS_ERR_OR_NULL(t->wronly))
		__fput_sync(t->wronly);
	if (!IS_ERR_OR_NULL(t->rdonly))
		__fput_sync(t->rdonly);
	if (!IS_ERR_OR_NULL(t->file))
		__fput_sync(t->file);
}

/*
 * posix_lock_file(): one call each on a list of known content.
 *
 * Without memory a call may either do its work or return ENOLCK and do
 * nothing, except where it cannot work without (MUST_FAIL) or where it has
 * always worked without (MUST_WORK).
 */
enum locks_nomem { MAY_FAIL, MUST_FAIL, MUST_WORK };

/*
 * Upper limits of allocations by what a call does, the lock context aside. An
 * unlock of the whole file and a look for a conflict allocate nothing.
 */
enum {
	MAX_LOCK = 1,		/* or several that are merged or replaced */
	MAX_SPLIT = 2,		/* of another type, inside an own lock */
	MAX_CONFLICT = 1,
	MAX_UNLOCK = 0,
	MAX_UNLOCK_SPLIT = 1,	/* inside an own lock */
	MAX_REQUEST = 0,	/* of fcntl_setlk(), on top */
};

struct locks_case {
	const char *desc;
	struct locks_range held[6];
	struct locks_range call;
	const char *list;
	unsigned int flags;
	int error;
	/* The range in the request afterwards, if it is not as passed. */
	const loff_t *merged;
	unsigned int allocs;
	enum locks_nomem nomem;
};

#define MERGED(start, end)	((const loff_t[]){ start, end })
#define RD(owner, start, end)	{ owner, F_RDLCK, start, end }
#define WR(owner, start, end)	{ owner, F_WRLCK, start, end }
#define UN(owner, start, end)	{ owner, F_UNLCK, start, end }

static const struct locks_case locks_cases[] = {
	/* New locks */
	{ "first lock", {}, WR('A', 0, 9), "A:W0-9", .allocs = MAX_LOCK,
	  .nomem = MUST_FAIL },
	{ "last byte", {}, RD('A', EOF, EOF), "A:R9223372036854775807-EOF",
	  .allocs = MAX_LOCK, .nomem = MUST_FAIL },
	{ "before and behind own locks", { WR('A', 0, 9), WR('A', 40, 49) },
	  WR('A', 20, 29), "A:W0-9,W20-29,W40-49", .allocs = MAX_LOCK,
	  .nomem = MUST_FAIL },
	{ "one byte from an own lock", { WR('A', 0, 9) }, WR('A', 11, 19),
	  "A:W0-9,W11-19", .allocs = MAX_LOCK, .nomem = MUST_FAIL },
	{ "beside another owner", { WR('B', 0, 9) }, WR('A', 10, 19),
	  "A:W10-19 B:W0-9", .allocs = MAX_LOCK, .nomem = MUST_FAIL },
	{ "among several owners",
	  { WR('A', 0, 9), WR('B', 20, 29), WR('C', 40, 49) }, WR('B', 10, 14),
	  "A:W0-9 B:W10-14,W20-29 C:W40-49", .allocs = MAX_LOCK,
	  .nomem = MUST_FAIL },
	{ "shared", { RD('B', 0, 9) }, RD('A', 5, 14), "A:R5-14 B:R0-9",
	  .allocs = MAX_LOCK, .nomem = MUST_FAIL },
	{ "beside an own lock of another type", { RD('A', 0, 9) },
	  WR('A', 10, 19), "A:R0-9,W10-19", .allocs = MAX_LOCK,
	  .nomem = MUST_FAIL },
	/* Conflicts */
	{ "read against write", { WR('B', 5, 5) }, RD('A', 0, 9), "B:W5-5",
	  .error = -EAGAIN, .allocs = MAX_CONFLICT },
	{ "write against read", { WR('B', 9, 9), RD('C', 3, 3) }, WR('A', 0, 3),
	  "B:W9-9 C:R3-3", .error = -EAGAIN, .allocs = MAX_CONFLICT },
	{ "upgrade of a shared lock", { RD('A', 0, 9), RD('B', 5, 5) },
	  WR('A', 0, 9), "A:R0-9 B:R5-5", .error = -EAGAIN,
	  .allocs = MAX_CONFLICT },
	{ "look for a conflict", { WR('B', 5, 5) }, RD('A', 0, 9), "B:W5-5",
	  .flags = FL_ACCESS, .error = -EAGAIN, .nomem = MUST_WORK },
	{ "look for a conflict that is not there", { WR('B', 5, 5) },
	  RD('A', 6, 9), "B:W5-5", .flags = FL_ACCESS, .nomem = MUST_WORK },
	/* Merging */
	{ "merge with the left neighbour", { WR('A', 0, 9) }, WR('A', 10, 19),
	  "A:W0-19", .merged = MERGED(0, 19), .allocs = MAX_LOCK },
	{ "merge with the right neighbour", { WR('A', 10, EOF) }, WR('A', 0, 9),
	  "A:W0-EOF", .merged = MERGED(0, EOF), .allocs = MAX_LOCK },
	{ "merge, overlap on the left", { RD('A', 0, 9) }, RD('A', 5, EOF),
	  "A:R0-EOF", .merged = MERGED(0, EOF), .allocs = MAX_LOCK },
	{ "merge, overlap on the right", { RD('A', 10, 19) }, RD('A', 5, 14),
	  "A:R5-19", .merged = MERGED(5, 19), .allocs = MAX_LOCK },
	{ "merge into a bigger lock", { WR('A', 0, 99) }, WR('A', 40, 49),
	  "A:W0-99", .merged = MERGED(0, 99), .allocs = MAX_LOCK },
	{ "merge a smaller lock", { WR('A', 40, 49) }, WR('A', 0, 99),
	  "A:W0-99", .allocs = MAX_LOCK },
	{ "merge with the same lock", { WR('A', 40, 49) }, WR('A', 40, 49),
	  "A:W40-49", .allocs = MAX_LOCK },
	/* The request gets the result of the first merge only. */
	{ "merge several",
	  { WR('A', 0, 9), WR('A', 20, 29), WR('A', 40, 49), WR('A', 60, 69) },
	  WR('A', 5, 45), "A:W0-49,W60-69", .merged = MERGED(0, 45),
	  .allocs = MAX_LOCK },
	{ "no merge across owners", { RD('B', 10, 19) }, RD('A', 0, 9),
	  "A:R0-9 B:R10-19", .allocs = MAX_LOCK, .nomem = MUST_FAIL },
	/* Another type */
	{ "retype", { WR('A', 10, 19) }, RD('A', 10, 19), "A:R10-19",
	  .allocs = MAX_LOCK },
	{ "retype a smaller lock", { RD('A', 10, 19) }, WR('A', 0, EOF),
	  "A:W0-EOF", .allocs = MAX_LOCK },
	{ "retype several", { WR('A', 0, 9), WR('A', 20, 29), WR('A', 40, 49) },
	  RD('A', 5, 44), "A:W0-4,R5-44,W45-49", .allocs = MAX_LOCK },
	{ "retype the left part", { WR('A', 0, 99) }, RD('A', 0, 49),
	  "A:R0-49,W50-99", .allocs = MAX_LOCK, .nomem = MUST_FAIL },
	{ "retype the right part", { WR('A', 0, 99) }, RD('A', 50, 99),
	  "A:W0-49,R50-99", .allocs = MAX_LOCK, .nomem = MUST_FAIL },
	{ "retype the middle", { WR('A', 0, 99), WR('B', 200, 299) },
	  RD('A', 40, 49), "A:W0-39,R40-49,W50-99 B:W200-299",
	  .allocs = MAX_SPLIT, .nomem = MUST_FAIL },
	{ "retype and merge",
	  { RD('A', 0, 9), WR('A', 10, 19), RD('A', 20, 29) }, RD('A', 10, 19),
	  "A:R0-29", .merged = MERGED(0, 19), .allocs = MAX_LOCK },
	{ "retype a part and merge", { WR('A', 0, 99), RD('A', 100, 109) },
	  RD('A', 90, 99), "A:W0-89,R90-109", .merged = MERGED(90, 109),
	  .allocs = MAX_LOCK },
	/* Unlocking */
	{ "unlock exactly", { WR('A', 0, 9), WR('A', 20, 29) }, UN('A', 20, 29),
	  "A:W0-9", .allocs = MAX_UNLOCK, .nomem = MUST_WORK },
	{ "unlock the left part", { WR('A', 0, 99) }, UN('A', 0, 9), "A:W10-99",
	  .allocs = MAX_UNLOCK, .nomem = MUST_WORK },
	{ "unlock the right part", { RD('A', 0, EOF) }, UN('A', EOF, EOF),
	  "A:R0-9223372036854775806", .allocs = MAX_UNLOCK,
	  .nomem = MUST_WORK },
	{ "unlock the middle", { WR('A', 0, 99), WR('B', 200, 299) },
	  UN('A', 40, 49), "A:W0-39,W50-99 B:W200-299",
	  .allocs = MAX_UNLOCK_SPLIT, .nomem = MUST_FAIL },
	{ "unlock several", { WR('A', 0, 9), RD('A', 20, 29), WR('A', 40, 49) },
	  UN('A', 5, 44), "A:W0-4,W45-49", .allocs = MAX_UNLOCK,
	  .nomem = MUST_WORK },
	{ "unlock a gap", { WR('A', 0, 9), WR('A', 20, 29) }, UN('A', 10, 19),
	  "A:W0-9,W20-29", .allocs = MAX_UNLOCK, .nomem = MUST_WORK },
	{ "unlock what another owner holds", { WR('B', 0, 9) }, UN('A', 0, 9),
	  "B:W0-9", .allocs = MAX_UNLOCK, .nomem = MUST_WORK },
	{ "unlock what has to exist", { WR('A', 0, 9) }, UN('A', 10, 19),
	  "A:W0-9", .flags = FL_EXISTS, .error = -ENOENT, .allocs = MAX_UNLOCK,
	  .nomem = MUST_WORK },
	{ "unlock what has to exist and does", { WR('A', 0, 9) }, UN('A', 0, 4),
	  "A:W5-9", .flags = FL_EXISTS, .allocs = MAX_UNLOCK,
	  .nomem = MUST_WORK },
	{ "unlock the whole file",
	  { WR('A', 0, 9), WR('B', 20, 29), RD('A', 40, EOF) }, UN('A', 0, EOF),
	  "B:W20-29", .nomem = MUST_WORK },
	/* All of it */
	{ "several calls", { WR('A', 0, 99), UN('A', 40, 49), RD('A', 60, 69) },
	  WR('A', 100, 104), "A:W0-39,W50-59,R60-69,W70-104",
	  .merged = MERGED(70, 104), .allocs = MAX_LOCK },
};

KUNIT_ARRAY_PARAM_DESC(locks_case, locks_cases, desc);

static void locks_test_expect_result(struct locks_test *t, int error,
				     const struct locks_case *c)
{
	KUNIT_EXPECT_EQ(t->test, error, c->error);
	if (c->merged)
		locks_test_expect_passed(t, c->merged[0], c->merged[1]);
	else
		locks_test_expect_unchanged(t);
	locks_test_expect_list(t, c->list);
}

/* List, errno, request, references and number of allocations. */
static void locks_test_posix_lock(struct kunit *test)
{
	const struct locks_case *c = test->param_value;
	struct locks_test *t = test->priv;
	int error;

	locks_test_set_all(t, c->held);
	t->alloc.calls = 0;
	error = locks_test_call(t, &c->call, c->flags);
	KUNIT_EXPECT_LE(test, t->alloc.calls, c->allocs);
	locks_test_expect_result(t, error, c);
	locks_test_end_call(t);
	locks_test_expect_balance(t, "after the call");
}

static unsigned int locks_test_nomem(struct locks_test *t, unsigned int fail,
				     bool fail_rest)
{
	const struct locks_case *c = t->test->param_value;
	struct kunit *test = t->test;
	unsigned int calls;
	int error;

	locks_test_reset(t);
	locks_test_set_all(t, c->held);
	locks_test_print(t, t->text2);

	t->alloc.calls = 0;
	t->alloc.fail = fail;
	t->alloc.fail_rest = fail_rest;
	error = locks_test_call(t, &c->call, c->flags);
	calls = t->alloc.calls;

	if (fail_rest && c->nomem == MUST_FAIL)
		KUNIT_EXPECT_EQ(test, error, -ENOLCK);
	if (error == -ENOLCK) {
		KUNIT_EXPECT_NE(test, c->nomem, MUST_WORK);
		KUNIT_EXPECT_GE(test, calls, fail);
		locks_test_expect_unchanged(t);
		locks_test_expect_list(t, t->text2);
		locks_test_end_call(t);
		locks_test_expect_balance(t, "after ENOLCK");

		t->alloc.fail = 0;
		error = locks_test_call(t, &c->call, c->flags);
	}
	locks_test_expect_result(t, error, c);
	locks_test_end_call(t);
	locks_test_expect_balance(t, "after the call");
	return calls;
}

/* The same calls while memory is short: one allocation fails, then all do. */
static void locks_test_posix_lock_nomem(struct kunit *test)
{
	struct locks_test *t = test->priv;
	unsigned int nr = 1;

	while (locks_test_nomem(t, nr, false) >= nr)
		nr++;
	locks_test_nomem(t, 1, true);
}

/*
 * Others may change the list whenever the caller sleeps for memory: the result
 * must be as if they had been first. It does not matter whether that is before
 * the list has been looked at or after a first look at it.
 */
struct locks_change_case {
	const char *desc;
	struct locks_range held[4];
	struct locks_range call;
	struct locks_range change[4];
	const char *list;
	const char *unchanged;
	int error;
	unsigned int flags;
};

static const struct locks_change_case locks_change_cases[] = {
	{ "nothing to unlock any more", { WR('A', 0, 99) }, UN('A', 40, 49),
	  { UN('A', 0, 99) }, "", "A:W0-39,W50-99" },
	{ "nothing to unlock any more, it has to exist", { WR('A', 0, 99) },
	  UN('A', 40, 49), { UN('A', 0, 99) }, "", "A:W0-39,W50-99",
	  .error = -ENOENT, .flags = FL_EXISTS },
	{ "nothing to split any more, unlock", { WR('A', 0, 99) },
	  UN('A', 40, 49), { UN('A', 45, EOF) }, "A:W0-39", "A:W0-39,W50-99" },
	{ "nothing to split any more, retype", { WR('A', 0, 99) },
	  RD('A', 40, 49), { UN('A', 30, 59) }, "A:W0-29,R40-49,W60-99",
	  "A:W0-39,R40-49,W50-99" },
	{ "something else to split, unlock", { WR('A', 0, 99) },
	  UN('A', 40, 49),
	  { UN('A', 0, EOF), RD('B', 300, 399), RD('A', 20, 79) },
	  "A:R20-39,R50-79 B:R300-399", "A:W0-39,W50-99" },
	{ "something to split", { WR('A', 0, 9) }, RD('A', 40, 49),
	  { WR('A', 10, 99) }, "A:W0-39,R40-49,W50-99", "A:W0-9,R40-49" },
	{ "a part to split", { WR('A', 0, 99) }, UN('A', 40, 49),
	  { RD('A', 45, 45) }, "A:W0-39,W50-99", "A:W0-39,W50-99" },
	{ "a conflict instead of a split", { RD('A', 0, 99) }, WR('A', 40, 49),
	  { RD('B', 45, 45) }, "A:R0-99 B:R45-45", "A:R0-39,W40-49,R50-99",
	  .error = -EAGAIN },
	{ "a conflict with a new lock", {}, WR('A', 0, 9), { WR('B', 9, 9) },
	  "B:W9-9", "A:W0-9", .error = -EAGAIN },
	{ "nothing to merge with any more", { WR('A', 0, 9) }, WR('A', 10, 19),
	  { UN('A', 0, 9) }, "A:W10-19", "A:W0-19" },
	{ "something to merge with", { WR('B', 100, 199) }, WR('A', 10, 19),
	  { UN('B', 0, EOF), WR('A', 0, 9) }, "A:W0-19",
	  "A:W10-19 B:W100-199" },
};

KUNIT_ARRAY_PARAM_DESC(locks_change_case, locks_change_cases, desc);

static bool locks_test_change_at(struct locks_test *t, unsigned int nr,
				 unsigned int fail)
{
	const struct locks_change_case *c = t->test->param_value;
	bool changed;
	int error;

	locks_test_reset(t);
	locks_test_set_all(t, c->held);

	t->alloc.calls = 0;
	t->alloc.change_at = nr;
	t->alloc.change = c->change;
	t->alloc.fail = fail;
	t->alloc.fail_rest = true;
	error = locks_test_call(t, &c->call, c->flags);
	changed = t->alloc.changed;

	if (fail && error == -ENOLCK) {
		locks_test_expect_list(t, t->text2);
	} else {
		KUNIT_EXPECT_EQ(t->test, error, changed ? c->error : 0);
		locks_test_expect_list(t, changed ? c->list : c->unchanged);
	}
	if (error)
		locks_test_expect_unchanged(t);
	locks_test_end_call(t);
	locks_test_expect_balance(t, "after the change");
	return changed;
}

static void locks_test_change(struct kunit *test)
{
	struct locks_test *t = test->priv;
	unsigned int nr;

	/* With memory, and without from this allocation on. */
	for (nr = 1; locks_test_change_at(t, nr, 0); nr++)
		locks_test_change_at(t, nr, nr);
}

/*
 * Allocations of fcntl(), and the same without memory. The first call of a
 * process on an inode allocates a lock context besides, which is not counted.
 */
struct locks_fcntl_case {
	const char *desc;
	unsigned int cmd;
	short type;
	loff_t start;
	loff_t len;
	const char *list;
	int error;
	unsigned int allocs;
};

static const struct locks_fcntl_case locks_fcntl_cases[] = {
	/* P holds W0-99, O W200-299, B W500-509. */
	{ "F_GETLK", F_GETLK, F_WRLCK, 20, 1, "B:W500-509 O:W200-299 P:W0-99" },
	{ "F_GETLK, conflict", F_GETLK, F_RDLCK, 500, 1,
	  "B:W500-509 O:W200-299 P:W0-99" },
	{ "F_OFD_GETLK", F_OFD_GETLK, F_WRLCK, 220, 1,
	  "B:W500-509 O:W200-299 P:W0-99" },
	{ "F_SETLK", F_SETLK, F_WRLCK, 120, 1,
	  "B:W500-509 O:W200-299 P:W0-99,W120-120", .allocs = MAX_LOCK },
	{ "F_SETLK, merge", F_SETLK, F_WRLCK, 100, 1,
	  "B:W500-509 O:W200-299 P:W0-100", .allocs = MAX_LOCK },
	{ "F_SETLK, retype inside", F_SETLK, F_RDLCK, 20, 1,
	  "B:W500-509 O:W200-299 P:W0-19,R20-20,W21-99", .allocs = MAX_SPLIT },
	{ "F_SETLK, conflict", F_SETLK, F_RDLCK, 500, 1,
	  "B:W500-509 O:W200-299 P:W0-99", .error = -EAGAIN,
	  .allocs = MAX_CONFLICT },
	{ "F_SETLK, unlock", F_SETLK, F_UNLCK, 0, 100, "B:W500-509 O:W200-299",
	  .allocs = MAX_UNLOCK },
	{ "F_SETLK, unlock a part", F_SETLK, F_UNLCK, 0, 20,
	  "B:W500-509 O:W200-299 P:W20-99", .allocs = MAX_UNLOCK },
	{ "F_SETLK, unlock the middle", F_SETLK, F_UNLCK, 20, 1,
	  "B:W500-509 O:W200-299 P:W0-19,W21-99", .allocs = MAX_UNLOCK_SPLIT },
	{ "F_SETLK, unlock nothing", F_SETLK, F_UNLCK, 900, 1,
	  "B:W500-509 O:W200-299 P:W0-99", .allocs = MAX_UNLOCK },
	{ "F_SETLK, unlock the whole file", F_SETLK, F_UNLCK, 0, 0,
	  "B:W500-509 O:W200-299" },
	{ "F_OFD_SETLK", F_OFD_SETLK, F_WRLCK, 120, 1,
	  "B:W500-509 O:W120-120,W200-299 P:W0-99", .allocs = MAX_LOCK },
	{ "F_OFD_SETLK, unlock", F_OFD_SETLK, F_UNLCK, 200, 100,
	  "B:W500-509 P:W0-99", .allocs = MAX_UNLOCK },
	{ "F_SETLKW", F_SETLKW, F_WRLCK, 120, 1,
	  "B:W500-509 O:W200-299 P:W0-99,W120-120", .allocs = MAX_LOCK },
};

KUNIT_ARRAY_PARAM_DESC(locks_fcntl_case, locks_fcntl_cases, desc);

/*
 * On 32 bits there are two entries to each function, with their own struct and
 * command numbers. They do the same but for the command that ->lock gets to
 * see.
 */
#define LOCKS_ENTRIES	(BITS_PER_LONG == 32 ? 2 : 1)

static unsigned int locks_test_cmd64(unsigned int cmd)
{
	switch (cmd) {
	case F_GETLK:
		return F_GETLK64;
	case F_SETLK:
		return F_SETLK64;
	case F_SETLKW:
		return F_SETLKW64;
	default:
		return cmd;
	}
}

static bool locks_test_is_getlk(unsigned int cmd)
{
	return cmd == F_GETLK || cmd == F_OFD_GETLK;
}

static int locks_test_fcntl(struct locks_test *t, int entry, struct file *filp,
			    unsigned int cmd, struct flock64 *l)
{
	struct flock flock = {
		.l_type = l->l_type,
		.l_whence = l->l_whence,
		.l_start = l->l_start,
		.l_len = l->l_len,
		.l_pid = l->l_pid,
	};
	int error;

#if BITS_PER_LONG == 32
	if (entry == 1 && locks_test_is_getlk(cmd))
		return fcntl_getlk64(filp, locks_test_cmd64(cmd), l);
	if (entry == 1)
		return fcntl_setlk64(t->fd, filp, locks_test_cmd64(cmd), l);
#endif
	if (locks_test_is_getlk(cmd))
		error = fcntl_getlk(filp, cmd, &flock);
	else
		error = fcntl_setlk(t->fd, filp, cmd, &flock);
	l->l_type = flock.l_type;
	l->l_whence = flock.l_whence;
	l->l_start = flock.l_start;
	l->l_len = flock.l_len;
	l->l_pid = flock.l_pid;
	return error;
}

static int locks_test_fcntl_case(struct locks_test *t, int entry,
				 const struct locks_fcntl_case *c)
{
	struct flock64 l = {
		.l_type = c->type,
		.l_start = c->start,
		.l_len = c->len,
	};

	return locks_test_fcntl(t, entry, t->file, c->cmd, &l);
}

static void locks_test_fcntl_allocs(struct kunit *test)
{
	static const struct locks_range held[] = {
		WR('P', 0, 99), WR('O', 200, 299), WR('B', 500, 509), {}
	};
	const struct locks_fcntl_case *c = test->param_value;
	struct locks_test *t = test->priv;
	unsigned int nr, calls, allocs = c->allocs;
	int entry, error;

	if (!locks_test_is_getlk(c->cmd))
		allocs += MAX_REQUEST;
	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		nr = 0;
		do {
			locks_test_reset(t);
			locks_test_set_all(t, held);
			t->alloc.calls = 0;
			t->alloc.fail = nr;
			error = locks_test_fcntl_case(t, entry, c);
			calls = t->alloc.calls;
			KUNIT_EXPECT_LE(test, calls, allocs);
			if (nr && error == -ENOLCK) {
				locks_test_expect_list(t, "B:W500-509 O:W200-299 P:W0-99");
				locks_test_expect_balance(t, "after ENOLCK");
				t->alloc.fail = 0;
				error = locks_test_fcntl_case(t, entry, c);
			}
			KUNIT_EXPECT_EQ(test, error, c->error);
			locks_test_expect_list(t, c->list);
			locks_test_expect_balance(t, "after the call");
		} while (nr++ <= calls);
	}
}

/*
 * Every exit of fcntl_getlk(): with no lock at all on the inode, with one in
 * another place, with one in the way; with and without ->lock. An error must
 * be the same in all of them, and no reference may be lost in any.
 */
struct locks_getlk_case {
	const char *desc;
	unsigned int cmd;
	struct flock64 l;
	/* Does not fit into the struct flock of a 32-bit system. */
	bool big;
	int error;
	/* Overlaps 100-149 */
	bool conflict;
};

#define FLOCK(type, whence, start, len, pid) {	\
	.l_type = type,				\
	.l_whence = whence,			\
	.l_start = start,			\
	.l_len = len,				\
	.l_pid = pid,				\
}

static const struct locks_getlk_case locks_getlk_cases[] = {
	{ "no conflict", F_GETLK, FLOCK(F_WRLCK, SEEK_SET, 0, 100, 77) },
	{ "no conflict, relative to the end", F_GETLK,
	  FLOCK(F_RDLCK, SEEK_END, -10, 5, 77) },
	{ "no conflict, OFD", F_OFD_GETLK,
	  FLOCK(F_WRLCK, SEEK_SET, 150, 0, 0) },
	{ "no conflict, what is held", F_OFD_GETLK,
	  FLOCK(F_UNLCK, SEEK_SET, 0, 0, 0) },
	{ "conflict", F_GETLK, FLOCK(F_RDLCK, SEEK_SET, 149, 1, 77),
	  .conflict = true },
	{ "conflict, relative to the position", F_GETLK,
	  FLOCK(F_WRLCK, SEEK_CUR, 60, 1, 0), .conflict = true },
	{ "conflict, negative length", F_GETLK,
	  FLOCK(F_RDLCK, SEEK_END, -899, -1, 0), .conflict = true },
	{ "conflict, to the end", F_GETLK, FLOCK(F_RDLCK, SEEK_SET, 0, 0, 0),
	  .conflict = true },
	{ "conflict, last byte", F_GETLK, FLOCK(F_RDLCK, SEEK_SET, 1, EOF, 0),
	  .big = true, .conflict = true },
	{ "conflict, OFD", F_OFD_GETLK, FLOCK(F_WRLCK, SEEK_SET, 100, 1, 0),
	  .conflict = true },
	{ "type F_UNLCK", F_GETLK, FLOCK(F_UNLCK, SEEK_SET, 100, 1, 0),
	  .error = -EINVAL },
	{ "bad type", F_GETLK, FLOCK(99, SEEK_SET, 100, 1, 0),
	  .error = -EINVAL },
	{ "bad type, OFD", F_OFD_GETLK, FLOCK(99, SEEK_SET, 100, 1, 0),
	  .error = -EINVAL },
	{ "bad whence", F_GETLK, FLOCK(F_RDLCK, 3, 100, 1, 0),
	  .error = -EINVAL },
	{ "negative start", F_GETLK, FLOCK(F_RDLCK, SEEK_END, -1001, 1, 0),
	  .error = -EINVAL },
	{ "negative start after a negative length", F_GETLK,
	  FLOCK(F_RDLCK, SEEK_SET, 5, -6, 0), .error = -EINVAL },
	{ "overflow of the end", F_GETLK, FLOCK(F_RDLCK, SEEK_SET, 2, EOF, 0),
	  .big = true, .error = -EOVERFLOW },
	{ "overflow of the start", F_GETLK, FLOCK(F_RDLCK, SEEK_CUR, EOF, 1, 0),
	  .big = true, .error = -EOVERFLOW },
	{ "bad l_pid, OFD", F_OFD_GETLK, FLOCK(F_RDLCK, SEEK_SET, 100, 1, 1),
	  .error = -EINVAL },
	/* The first of two errors */
	{ "type F_UNLCK and overflow", F_GETLK,
	  FLOCK(F_UNLCK, SEEK_SET, 2, EOF, 0), .big = true, .error = -EINVAL },
	{ "bad type and overflow, OFD", F_OFD_GETLK,
	  FLOCK(99, SEEK_SET, 2, EOF, 0), .big = true, .error = -EOVERFLOW },
	{ "overflow and bad l_pid, OFD", F_OFD_GETLK,
	  FLOCK(F_RDLCK, SEEK_SET, 2, EOF, 1), .big = true,
	  .error = -EOVERFLOW },
};

KUNIT_ARRAY_PARAM_DESC(locks_getlk_case, locks_getlk_cases, desc);

static void locks_test_expect_flock(struct kunit *test, const struct flock64 *is,
				    const struct flock64 *want, const char *where)
{
	KUNIT_EXPECT_EQ_MSG(test, is->l_type, want->l_type, "%s", where);
	KUNIT_EXPECT_EQ_MSG(test, is->l_whence, want->l_whence, "%s", where);
	KUNIT_EXPECT_EQ_MSG(test, is->l_start, want->l_start, "%s", where);
	KUNIT_EXPECT_EQ_MSG(test, is->l_len, want->l_len, "%s", where);
	KUNIT_EXPECT_EQ_MSG(test, is->l_pid, want->l_pid, "%s", where);
}

static void locks_test_getlk_one(struct locks_test *t, int entry,
				 const struct locks_getlk_case *c, bool in_way,
				 const char *where)
{
	static const struct flock64 conflock = FLOCK(F_WRLCK, SEEK_SET, 100, 50, 'B');
	struct kunit *test = t->test;
	struct flock64 l = c->l, want = c->l;
	int error;

	t->alloc.calls = 0;
	error = locks_test_fcntl(t, entry, t->file, c->cmd, &l);
	KUNIT_EXPECT_EQ_MSG(test, error, c->error, "%s", where);
	KUNIT_EXPECT_EQ_MSG(test, t->alloc.calls, 0, "%s", where);
	if (!error) {
		want.l_type = F_UNLCK;
		locks_test_expect_flock(test, &l,
					c->conflict && in_way ? &conflock : &want,
					where);
	}
	locks_test_expect_balance(t, where);
}

static void locks_test_getlk(struct kunit *test)
{
	static const struct locks_range elsewhere = WR('C', 5000, 5009);
	static const struct locks_range in_way = WR('B', 100, 149);
	const struct locks_getlk_case *c = test->param_value;
	struct locks_test *t = test->priv;
	int entry, fs;

	t->file->f_pos = 50;
	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		if (c->big && entry == 0 && sizeof(off_t) < sizeof(loff_t))
			continue;
		for (fs = 0; fs < 3; fs++) {
			locks_test_reset(t);
			t->fs.ret[0] = LOCAL;
			t->fs.set_ops = fs == 2;
			locks_test_use_fs(t, fs);

			t->fs.calls = 0;
			locks_test_getlk_one(t, entry, c, false, "no locks");
			KUNIT_EXPECT_EQ(test, t->fs.calls, fs && !c->error);
			/* A query needs no memory, not even a context. */
			if (!entry && !fs)
				KUNIT_EXPECT_PTR_EQ(test, locks_test_list(t), NULL);

			/* To the end, that would be a conflict. */
			if (c->l.l_len && c->l.l_len != EOF) {
				locks_test_set(t, &elsewhere);
				t->fs.calls = 0;
				locks_test_getlk_one(t, entry, c, false,
						     "lock elsewhere");
				locks_test_unlock(t, 'C');
			}

			locks_test_set(t, &in_way);
			t->fs.calls = 0;
			locks_test_getlk_one(t, entry, c, true, "lock in the way");
			KUNIT_EXPECT_EQ(test, t->fs.calls, fs && !c->error);
		}
	}
}

/* An error of ->lock, with whatever it has left in the request. */
static void locks_test_getlk_fs_error(struct kunit *test)
{
	static const struct locks_range in_way = WR('B', 100, 149);
	static const unsigned int cmds[] = { F_GETLK, F_OFD_GETLK };
	struct locks_test *t = test->priv;
	int entry, i, set_ops, error;

	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		for (i = 0; i < ARRAY_SIZE(cmds) * 2; i++) {
			struct flock64 l = FLOCK(F_WRLCK, SEEK_SET, 100, 1, 0);

			set_ops = i & 1;
			locks_test_reset(t);
			locks_test_set(t, &in_way);
			locks_test_use_fs(t, true);
			t->fs.set_ops = set_ops;
			t->fs.ret[0] = -EIO;
			error = locks_test_fcntl(t, entry, t->file, cmds[i / 2], &l);
			KUNIT_EXPECT_EQ(test, error, -EIO);
			KUNIT_EXPECT_EQ(test, t->fs.calls, 1);
			locks_test_expect_balance(t, "after an error");

			/* An answer that ->lock is not supposed to give. */
			t->fs.calls = 0;
			t->fs.ret[0] = FILE_LOCK_DEFERRED;
			kunit_warning_suppress(test) {
				error = locks_test_fcntl(t, entry, t->file,
							 cmds[i / 2], &l);
			}
			KUNIT_EXPECT_EQ(test, error, -EIO);
			locks_test_expect_balance(t, "after FILE_LOCK_DEFERRED");
		}
	}
}

/* F_OFD_GETLK with F_UNLCK asks for locks of the same open file. */
static void locks_test_getlk_held(struct kunit *test)
{
	static const struct flock64 want = FLOCK(F_RDLCK, SEEK_SET, 5, 3, -1);
	static const struct flock64 none = FLOCK(F_UNLCK, SEEK_SET, 0, 0, 0);
	static const struct locks_range held[] = {
		WR('B', 100, 149), WR('P', 0, 4), RD('O', 5, 7), {}
	};
	struct locks_test *t = test->priv;
	struct flock64 l;
	int entry;

	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		locks_test_reset(t);
		locks_test_set_all(t, held);
		l = none;
		KUNIT_EXPECT_EQ(test, locks_test_fcntl(t, entry, t->file,
						       F_OFD_GETLK, &l), 0);
		locks_test_expect_flock(test, &l, &want, "own");
		l = none;
		KUNIT_EXPECT_EQ(test, locks_test_fcntl(t, entry, t->rdonly,
						       F_OFD_GETLK, &l), 0);
		locks_test_expect_flock(test, &l, &none, "another open");
		locks_test_expect_balance(t, "after both");
	}
}

/* A conflicting lock that the struct flock of a 32-bit system cannot hold. */
static void locks_test_getlk_big(struct kunit *test)
{
	static const struct {
		struct locks_range held;
		struct flock64 l;
		bool fits;
	} cases[] = {
		{ WR('B', 0x80000000LL, 0x80000009LL),
		  FLOCK(F_WRLCK, SEEK_SET, 0x80000000LL, 10, 'B') },
		{ WR('B', 100, 0x80000000LL),
		  FLOCK(F_WRLCK, SEEK_SET, 100, 0x80000000LL - 99, 'B') },
		{ WR('B', 100, 0x7fffffffLL),
		  FLOCK(F_WRLCK, SEEK_SET, 100, 0x7fffffff - 99, 'B'), true },
		{ WR('B', 100, EOF),
		  FLOCK(F_WRLCK, SEEK_SET, 100, 0, 'B'), true },
	};
	struct locks_test *t = test->priv;
	int entry, i, error;

	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		bool small = entry == 0 && sizeof(off_t) < sizeof(loff_t);

		for (i = 0; i < ARRAY_SIZE(cases); i++) {
			struct flock64 l = FLOCK(F_RDLCK, SEEK_SET, 0, 0, 0);

			locks_test_reset(t);
			locks_test_set(t, &cases[i].held);
			error = locks_test_fcntl(t, entry, t->file, F_GETLK, &l);
			if (small && !cases[i].fits) {
				KUNIT_EXPECT_EQ(test, error, -EOVERFLOW);
			} else {
				KUNIT_EXPECT_EQ(test, error, 0);
				locks_test_expect_flock(test, &l, &cases[i].l, "big");
			}
			locks_test_expect_balance(t, "after F_GETLK");
		}
	}
}

/*
 * Every exit of fcntl_setlk() that one thread can reach. B holds W100-149.
 */
enum locks_open { OPEN_RDWR, OPEN_RDONLY, OPEN_WRONLY };

struct locks_setlk_case {
	const char *desc;
	unsigned int cmd;
	struct flock64 l;
	const char *list;
	bool big;
	enum locks_open open;
	bool wrong_fd;
	bool signal;
	int error;
};

#define HELD	"B:W100-149"

static const struct locks_setlk_case locks_setlk_cases[] = {
	{ "lock", F_SETLK, FLOCK(F_WRLCK, SEEK_SET, 0, 10, 0), HELD " P:W0-9" },
	{ "lock, l_pid", F_SETLK, FLOCK(F_RDLCK, SEEK_SET, 0, 10, 77),
	  HELD " P:R0-9" },
	{ "lock, relative to the position", F_SETLKW,
	  FLOCK(F_WRLCK, SEEK_CUR, -10, 10, 0), HELD " P:W40-49" },
	{ "lock, relative to the end", F_SETLKW,
	  FLOCK(F_WRLCK, SEEK_END, 0, -10, 0), HELD " P:W990-999" },
	{ "lock to the last byte", F_SETLK,
	  FLOCK(F_WRLCK, SEEK_SET, 150, EOF - 149, 0), HELD " P:W150-EOF",
	  .big = true },
	{ "lock, OFD", F_OFD_SETLK, FLOCK(F_WRLCK, SEEK_SET, 150, 0, 0),
	  HELD " O:W150-EOF" },
	{ "lock and wait, OFD", F_OFD_SETLKW,
	  FLOCK(F_WRLCK, SEEK_SET, 150, 0, 0), HELD " O:W150-EOF" },
	{ "unlock", F_SETLK, FLOCK(F_UNLCK, SEEK_SET, 100, 1, 0), HELD },
	{ "unlock, OFD", F_OFD_SETLK, FLOCK(F_UNLCK, SEEK_SET, 0, 0, 0), HELD },
	{ "unlock, not even open for reading", F_SETLK,
	  FLOCK(F_UNLCK, SEEK_SET, 0, 0, 0), HELD, .open = OPEN_WRONLY },
	{ "conflict", F_SETLK, FLOCK(F_RDLCK, SEEK_SET, 0, 101, 0), HELD,
	  .error = -EAGAIN },
	{ "conflict, OFD", F_OFD_SETLK, FLOCK(F_WRLCK, SEEK_SET, 149, 0, 0),
	  HELD, .error = -EAGAIN },
	{ "conflict, interrupted", F_SETLKW, FLOCK(F_WRLCK, SEEK_SET, 0, 0, 0),
	  HELD, .signal = true, .error = -ERESTARTSYS },
	{ "conflict, interrupted, OFD", F_OFD_SETLKW,
	  FLOCK(F_WRLCK, SEEK_SET, 0, 0, 0), HELD, .signal = true,
	  .error = -ERESTARTSYS },
	{ "close race", F_SETLK, FLOCK(F_WRLCK, SEEK_SET, 0, 10, 0), HELD,
	  .wrong_fd = true, .error = -EBADF },
	{ "close race, unlock", F_SETLK, FLOCK(F_UNLCK, SEEK_SET, 0, 10, 0),
	  HELD, .wrong_fd = true },
	{ "close race, OFD", F_OFD_SETLK, FLOCK(F_WRLCK, SEEK_SET, 0, 10, 0),
	  HELD " O:W0-9", .wrong_fd = true },
	{ "read lock, not open for reading", F_SETLK,
	  FLOCK(F_RDLCK, SEEK_SET, 0, 10, 0), HELD, .open = OPEN_WRONLY,
	  .error = -EBADF },
	{ "write lock, not open for writing, OFD", F_OFD_SETLK,
	  FLOCK(F_WRLCK, SEEK_SET, 0, 10, 0), HELD, .error = -EBADF,
	  .open = OPEN_RDONLY },
	{ "bad type", F_SETLK, FLOCK(99, SEEK_SET, 0, 10, 0), HELD,
	  .error = -EINVAL },
	{ "bad whence", F_SETLK, FLOCK(F_WRLCK, -1, 0, 10, 0), HELD,
	  .error = -EINVAL },
	{ "negative start", F_OFD_SETLKW, FLOCK(F_WRLCK, SEEK_SET, -1, 10, 0),
	  HELD, .error = -EINVAL },
	{ "overflow", F_SETLK, FLOCK(F_WRLCK, SEEK_SET, 3, EOF - 1, 0), HELD,
	  .big = true, .error = -EOVERFLOW },
	{ "bad l_pid, OFD", F_OFD_SETLK, FLOCK(F_WRLCK, SEEK_SET, 0, 10, 1),
	  HELD, .error = -EINVAL },
	{ "bad l_pid and wait, OFD", F_OFD_SETLKW,
	  FLOCK(F_WRLCK, SEEK_SET, 0, 10, 1), HELD, .error = -EINVAL },
	/* The first of two errors */
	{ "bad type and overflow", F_SETLK, FLOCK(99, SEEK_SET, 3, EOF - 1, 0),
	  HELD, .big = true, .error = -EOVERFLOW },
	{ "overflow and not open for writing", F_SETLK,
	  FLOCK(F_WRLCK, SEEK_SET, 3, EOF - 1, 0), HELD, .open = OPEN_RDONLY,
	  .big = true, .error = -EOVERFLOW },
	{ "bad type and not open for writing", F_SETLK,
	  FLOCK(99, SEEK_SET, 0, 10, 0), HELD, .error = -EINVAL,
	  .open = OPEN_RDONLY },
	{ "not open for writing and bad l_pid, OFD", F_OFD_SETLK,
	  FLOCK(F_WRLCK, SEEK_SET, 0, 10, 1), HELD, .error = -EBADF,
	  .open = OPEN_RDONLY },
};

KUNIT_ARRAY_PARAM_DESC(locks_setlk_case, locks_setlk_cases, desc);

static struct file *locks_test_file(struct locks_test *t, enum locks_open open)
{
	switch (open) {
	case OPEN_RDONLY:
		return t->rdonly;
	case OPEN_WRONLY:
		return t->wronly;
	default:
		return t->file;
	}
}

static void locks_test_setlk(struct kunit *test)
{
	static const struct locks_range held = WR('B', 100, 149);
	const struct locks_setlk_case *c = test->param_value;
	struct locks_test *t = test->priv;
	int entry, fs, error, fd = t->fd;
	struct flock64 l;

	t->file->f_pos = 50;
	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		if (c->big && entry == 0 && sizeof(off_t) < sizeof(loff_t))
			continue;
		for (fs = 0; fs < 3; fs++) {
			locks_test_reset(t);
			locks_test_set(t, &held);
			memset(t->fs.ret, 0, sizeof(t->fs.ret));
			t->fs.ret[0] = LOCAL;
			t->fs.ret[1] = LOCAL;
			t->fs.set_ops = fs == 2;
			locks_test_use_fs(t, fs);
			if (c->wrong_fd)
				t->fd = INT_MAX;
			if (c->signal)
				set_thread_flag(TIF_SIGPENDING);

			l = c->l;
			error = locks_test_fcntl(t, entry,
						 locks_test_file(t, c->open),
						 c->cmd, &l);
			clear_thread_flag(TIF_SIGPENDING);
			t->fd = fd;

			KUNIT_EXPECT_EQ(test, error, c->error);
			locks_test_expect_flock(test, &l, &c->l, "flock");
			locks_test_expect_list(t, c->list);
			locks_test_expect_balance(t, "after F_SETLK");
		}
	}
}

/* Whatever ->lock returns is passed on, and what it left is released. */
static void locks_test_setlk_fs(struct kunit *test)
{
	static const int rets[] = { 0, -EAGAIN, -EIO, -ERESTARTSYS, -ENOLCK };
	static const unsigned int cmds[] = {
		F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW,
	};
	struct locks_test *t = test->priv;
	int entry, i, j, set_ops, error;

	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		for (i = 0; i < ARRAY_SIZE(cmds); i++) {
			for (j = 0; j < ARRAY_SIZE(rets) * 2; j++) {
				struct flock64 l = FLOCK(F_WRLCK, SEEK_SET, 0, 9, 0);

				set_ops = j & 1;
				locks_test_reset(t);
				locks_test_use_fs(t, true);
				t->fs.set_ops = set_ops;
				t->fs.ret[0] = rets[j / 2];
				error = locks_test_fcntl(t, entry, t->file,
							 cmds[i], &l);
				KUNIT_EXPECT_EQ(test, error, rets[j / 2]);
				KUNIT_EXPECT_EQ(test, t->fs.calls, 1);
				locks_test_expect_list(t, "");
				locks_test_expect_balance(t, "after ->lock");
			}
		}
	}
}

/* The request that ->lock gets: command, flags, type and owner. */
struct locks_cmd_case {
	const char *desc;
	unsigned int cmd;
	unsigned int seen;
	unsigned int flags;
	char owner;
};

static const struct locks_cmd_case locks_cmd_cases[] = {
	{ "F_GETLK", F_GETLK, F_GETLK, FL_POSIX, 'P' },
	{ "F_OFD_GETLK", F_OFD_GETLK, F_GETLK, FL_POSIX | FL_OFDLCK, 'O' },
	{ "F_SETLK", F_SETLK, F_SETLK, FL_POSIX, 'P' },
	{ "F_SETLKW", F_SETLKW, F_SETLKW, FL_POSIX | FL_SLEEP, 'P' },
	{ "F_OFD_SETLK", F_OFD_SETLK, F_SETLK, FL_POSIX | FL_OFDLCK, 'O' },
	{ "F_OFD_SETLKW", F_OFD_SETLKW, F_SETLKW,
	  FL_POSIX | FL_OFDLCK | FL_SLEEP, 'O' },
};

KUNIT_ARRAY_PARAM_DESC(locks_cmd_case, locks_cmd_cases, desc);

static void locks_test_cmd(struct kunit *test)
{
	static const unsigned char types[] = { F_RDLCK, F_WRLCK, F_UNLCK };
	const struct locks_cmd_case *c = test->param_value;
	struct locks_test *t = test->priv;
	int entry, i;

	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		/* Only the 64-bit twin of F_SETLK passes its own number on. */
		unsigned int seen = entry && c->seen != F_GETLK ?
				    locks_test_cmd64(c->seen) : c->seen;

		for (i = 0; i < ARRAY_SIZE(types); i++) {
			struct flock64 l = FLOCK(types[i], SEEK_SET, 0, 9, 0);

			if (c->cmd == F_GETLK && types[i] == F_UNLCK)
				continue;
			locks_test_reset(t);
			locks_test_use_fs(t, true);
			t->fs.set_ops = true;
			/* A filesystem that has to be asked again. */
			if (c->seen != F_GETLK)
				t->fs.ret[0] = FILE_LOCK_DEFERRED;
			KUNIT_EXPECT_EQ(test, locks_test_fcntl(t, entry, t->file,
							       c->cmd, &l), 0);
			KUNIT_EXPECT_EQ(test, t->fs.calls, 1 + (c->seen != F_GETLK));
			KUNIT_EXPECT_EQ(test, t->fs.cmd[0], seen);
			if (t->fs.calls > 1)
				KUNIT_EXPECT_EQ(test, t->fs.cmd[1], seen);
			KUNIT_EXPECT_EQ(test, t->fs.flags, c->flags);
			KUNIT_EXPECT_EQ(test, t->fs.type, types[i]);
			KUNIT_EXPECT_PTR_EQ(test, t->fs.owner,
					    locks_test_owner(t, c->owner));
			locks_test_expect_balance(t, "after ->lock");
		}
	}
}

/* close(): an unlock of its own, unless there is nothing to unlock. */
static void locks_test_close(struct kunit *test)
{
	static const struct locks_range held[] = {
		WR('B', 100, 149), WR('P', 0, 4), RD('P', 10, 19), RD('O', 5, 7), {}
	};
	struct locks_test *t = test->priv;
	int fs;

	locks_remove_posix(t->file, current->files);
	for (fs = 0; fs < 3; fs++) {
		locks_test_reset(t);
		locks_test_use_fs(t, fs);
		t->fs.set_ops = fs == 2;
		t->fs.ret[0] = LOCAL;
		locks_remove_posix(t->file, current->files);
		KUNIT_EXPECT_EQ(test, t->fs.calls, 0);

		locks_test_set_all(t, held);
		t->alloc.calls = 0;
		locks_remove_posix(t->file, current->files);
		locks_test_expect_list(t, HELD " O:R5-7");
		KUNIT_EXPECT_EQ(test, t->alloc.calls, 0);
		locks_test_expect_balance(t, "after close");
		if (fs) {
			KUNIT_EXPECT_EQ(test, t->fs.calls, 1);
			KUNIT_EXPECT_EQ(test, t->fs.cmd[0], F_SETLK);
			KUNIT_EXPECT_EQ(test, t->fs.flags, FL_CLOSE_POSIX);
			KUNIT_EXPECT_EQ(test, t->fs.type, F_UNLCK);
		}
		t->fs.calls = 0;
		locks_remove_posix(t->file, t->file);
		locks_test_expect_list(t, HELD);
		locks_test_expect_balance(t, "after the last close");
	}
}

/* An unlock does not need a lock context where none is. */
static void locks_test_unlock_never_locked(struct kunit *test)
{
	static const struct locks_range all = UN('A', 0, EOF), part = UN('A', 5, 9);
	struct locks_test *t = test->priv;

	KUNIT_EXPECT_EQ(test, locks_test_call(t, &all, 0), 0);
	locks_test_end_call(t);
	KUNIT_EXPECT_EQ(test, locks_test_call(t, &part, 0), 0);
	locks_test_end_call(t);
	KUNIT_EXPECT_PTR_EQ(test, locks_test_list(t), NULL);
	KUNIT_EXPECT_EQ(test, t->alloc.calls, 0);
}

/* The caller asked for the lock in the way: the copy is its to release. */
static void locks_test_conflock(struct kunit *test)
{
	static const struct locks_range held = RD('B', 100, EOF);
	static const struct locks_range call = WR('A', 0, 100);
	struct locks_test *t = test->priv;

	locks_test_set(t, &held);
	locks_test_fill(t, &t->req, &call);
	locks_init_lock(&t->inner);
	KUNIT_EXPECT_EQ(test, posix_lock_file(t->file, &t->req, &t->inner), -EAGAIN);
	locks_test_expect_idle(test, &t->inner);
	KUNIT_EXPECT_EQ(test, t->inner.c.flc_type, F_RDLCK);
	KUNIT_EXPECT_EQ(test, t->inner.fl_start, 100);
	KUNIT_EXPECT_EQ(test, t->inner.fl_end, EOF);
	KUNIT_EXPECT_EQ(test, t->inner.c.flc_pid, 'B');
	KUNIT_EXPECT_PTR_EQ(test, t->inner.c.flc_owner, locks_test_owner(t, 'B'));
	KUNIT_EXPECT_PTR_EQ(test, t->inner.fl_ops, NULL);
	KUNIT_EXPECT_EQ(test, t->owner[1].refs, 2);
	locks_release_private(&t->inner);
	locks_test_end_call(t);
	locks_test_expect_balance(t, "after the conflict");
}

/*
 * A lock manager that drops a lock rather than let it be in the way: it is
 * asked again until it says no, and the answer is that of the last look.
 */
struct locks_expire_case {
	const char *desc;
	int times;
	bool remove;
};

static const struct locks_expire_case locks_expire_cases[] = {
	{ "not expirable", 0, false },
	{ "once", 1, true },
	{ "twice", 2, true },
	{ "once, in vain", 1, false },
	{ "twice, in vain", 2, false },
};

KUNIT_ARRAY_PARAM_DESC(locks_expire_case, locks_expire_cases, desc);

static void locks_test_expire_prepare(struct locks_test *t)
{
	const struct locks_expire_case *c = t->test->param_value;
	static const struct locks_range held[] = {
		RD('A', 0, 99), RD('B', 45, 45), {}
	};

	locks_test_reset(t);
	locks_test_set_all(t, held);
	t->alloc.calls = 0;
	t->lm.left = c->times;
	t->lm.remove = c->remove;
}

static void locks_test_expect_expired(struct locks_test *t, int times, bool remove)
{
	KUNIT_EXPECT_EQ(t->test, t->lm.left, 0);
	KUNIT_EXPECT_EQ(t->test, t->lm.expired, times);
	KUNIT_EXPECT_EQ(t->test, t->lm.asked, times + !remove);
	locks_test_expect_balance(t, "after expiry");
}

static void locks_test_expire_getlk(struct kunit *test)
{
	const struct locks_expire_case *c = test->param_value;
	struct locks_test *t = test->priv;
	struct flock64 l;
	int entry;

	for (entry = 0; entry < LOCKS_ENTRIES; entry++) {
		l = (struct flock64)FLOCK(F_WRLCK, SEEK_SET, 40, 10, 0);
		locks_test_expire_prepare(t);
		locks_test_unlock(t, 'A');
		KUNIT_EXPECT_EQ(test, locks_test_fcntl(t, entry, t->file, F_GETLK,
						       &l), 0);
		KUNIT_EXPECT_EQ(test, l.l_type, c->remove ? F_UNLCK : F_RDLCK);
		KUNIT_EXPECT_EQ(test, l.l_start, c->remove ? 40 : 45);
		locks_test_expect_expired(t, c->times, c->remove);
	}
}

static void locks_test_expire_setlk(struct kunit *test)
{
	static const struct locks_range calls[] = {
		WR('A', 0, 99), WR('A', 40, 49), WR('A', 45, 199),
	};
	static const char * const lists[] = {
		"A:W0-99", "A:R0-39,W40-49,R50-99", "A:R0-44,W45-199",
	};
	const struct locks_expire_case *c = test->param_value;
	struct locks_test *t = test->priv;
	int i, error;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		locks_test_expire_prepare(t);
		error = locks_test_call(t, &calls[i], 0);
		KUNIT_EXPECT_LE(test, t->alloc.calls, 2);
		KUNIT_EXPECT_EQ(test, error, c->remove ? 0 : -EAGAIN);
		locks_test_expect_list(t, c->remove ? lists[i] : "A:R0-99 B:R45-45");
		locks_test_expect_unchanged(t);
		locks_test_end_call(t);
		locks_test_expect_expired(t, c->times, c->remove);
	}
}

/*
 * The call splits a lock, and while it sleeps for memory yet another lock
 * comes that has to be expired. No more memory is needed for that.
 */
static void locks_test_expire_split(struct kunit *test)
{
	static const struct locks_range change[] = { RD('C', 46, 46), {} };
	static const struct locks_range call = WR('A', 40, 49);
	const struct locks_expire_case *c = test->param_value;
	struct locks_test *t = test->priv;
	int error, times;
	unsigned int nr;
	bool changed;

	for (nr = 1, changed = true; changed; nr++) {
		locks_test_expire_prepare(t);
		t->alloc.change_at = nr;
		t->alloc.change = change;
		t->alloc.expirable = 1;
		error = locks_test_call(t, &call, 0);
		changed = t->alloc.changed;
		times = c->times + changed;

		/* C goes as B goes: the answer is the same as without it. */
		KUNIT_EXPECT_EQ(test, error, c->remove ? 0 : -EAGAIN);
		if (c->remove)
			locks_test_expect_list(t, "A:R0-39,W40-49,R50-99");
		KUNIT_EXPECT_LE(test, t->alloc.calls, 2);
		locks_test_expect_unchanged(t);
		locks_test_end_call(t);
		locks_test_expect_expired(t, times, c->remove);
	}
}

/* Requests that wait, and what wakes them. */
static void locks_test_wait(struct kunit *test)
{
	static const struct locks_range held = WR('B', 0, 99);
	static const struct locks_range call = WR('A', 40, 49);
	static const struct locks_range wakes[] = {
		UN('B', 0, 99), UN('B', 40, 49), UN('B', 90, 99), UN('B', 0, 9),
		RD('B', 0, 99), RD('B', 40, 49), RD('B', 0, 9), RD('B', 90, 99),
	};
	struct locks_test *t = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(wakes); i++) {
		locks_test_reset(t);
		locks_test_set(t, &held);
		KUNIT_EXPECT_EQ(test, locks_test_call(t, &call, FL_SLEEP),
				FILE_LOCK_DEFERRED);
		locks_test_expect_unchanged(t);
		KUNIT_EXPECT_NOT_NULL(test, t->req.c.flc_blocker);
		KUNIT_EXPECT_FALSE(test, list_empty(&t->req.c.flc_blocked_member));
		KUNIT_EXPECT_TRUE(test, list_empty(&t->req.c.flc_list));

		locks_test_set(t, &wakes[i]);
		locks_test_expect_idle(test, &t->req);
		KUNIT_EXPECT_EQ(test, locks_delete_block(&t->req), -ENOENT);
		locks_test_end_call(t);
		locks_test_expect_balance(t, "woken");
	}

	/* Nobody wakes it: the caller gives up. */
	locks_test_reset(t);
	locks_test_set(t, &held);
	KUNIT_EXPECT_EQ(test, locks_test_call(t, &call, FL_SLEEP), FILE_LOCK_DEFERRED);
	KUNIT_EXPECT_EQ(test, locks_delete_block(&t->req), 0);
	locks_test_expect_unchanged(t);
	locks_test_end_call(t);
	locks_test_expect_list(t, "B:W0-99");
	locks_test_expect_balance(t, "given up");
}

/* B waits for A: A must not wait for B, and learns so at once. */
static void locks_test_deadlock(struct kunit *test)
{
	static const struct locks_range held[] = { WR('A', 0, 9), WR('B', 20, 29), {} };
	static const struct locks_range b = WR('B', 0, 9), a = WR('A', 20, 29);
	struct locks_test *t = test->priv;
	struct file_lock *waiter;

	waiter = kunit_kzalloc(test, sizeof(*waiter), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, waiter);
	locks_test_set_all(t, held);
	locks_test_fill(t, waiter, &b);
	waiter->c.flc_flags |= FL_SLEEP;
	KUNIT_EXPECT_EQ(test, posix_lock_file(t->file, waiter, NULL),
			FILE_LOCK_DEFERRED);

	KUNIT_EXPECT_EQ(test, locks_test_call(t, &a, FL_SLEEP), -EDEADLK);
	locks_test_expect_unchanged(t);
	locks_test_end_call(t);
	locks_test_expect_list(t, "A:W0-9 B:W20-29");

	locks_test_unlock(t, 'A');
	locks_test_expect_idle(test, waiter);
	KUNIT_EXPECT_EQ(test, posix_lock_file(t->file, waiter, NULL), 0);
	locks_test_expect_idle(test, waiter);
	locks_release_private(waiter);
	locks_test_expect_list(t, "B:W0-9,W20-29");
	locks_test_expect_balance(t, "after the deadlock");
}

/*
 * NLMv3 does not check that a range ends behind its start. Locks of one owner
 * may then overlap or be out of order; they still must go away again.
 */
static void locks_test_inverted(struct kunit *test)
{
	static const struct locks_range held[] = {
		WR('A', 0, 200), RD('A', 100, 51), WR('A', 150, 49), UN('A', 120, 30),
		RD('A', 60, 59), UN('A', 101, 100), {}
	};
	struct locks_test *t = test->priv;

	locks_test_set_all(t, held);
	locks_test_expect_balance(t, "inverted ranges");
	locks_test_unlock(t, 'A');
	locks_test_expect_list(t, "");
	locks_test_expect_balance(t, "no locks");
}

/*
 * After such a range a request may find a lock to cut when it has replaced
 * another one: it gets through or is refused, but does not start over while
 * it is on the list itself, and others may drop the locks meanwhile.
 */
static void locks_test_inverted_split(struct kunit *test)
{
	static const struct locks_range held[] = {
		WR('A', 0, 200), RD('A', 100, 51), UN('A', 0, 70), {}
	};
	static const struct locks_range drop[] = { UN('A', 0, EOF), {} };
	static const struct locks_range calls[] = {
		RD('A', 60, 120), UN('A', 60, 120), {}
	};
	struct locks_test *t = test->priv;
	const struct locks_range *call;
	unsigned int nr, fail;
	int error;

	for (call = calls; call->owner; call++) {
		for (nr = 0; nr <= 3; nr++) {
			for (fail = 0; fail <= 3; fail++) {
				locks_test_reset(t);
				locks_test_set_all(t, held);
				t->alloc.calls = 0;
				t->alloc.change_at = nr;
				t->alloc.change = drop;
				t->alloc.fail = fail;
				error = locks_test_call(t, call, 0);
				KUNIT_EXPECT_TRUE(test, !error || error == -ENOLCK);
				t->alloc.fail = 0;
				locks_test_end_call(t);
				locks_test_expect_balance(t, "inverted, then split");
				locks_test_unlock(t, 'A');
				locks_test_expect_list(t, "");
			}
		}
	}
}

/*
 * Initialisation leaves nothing to chance. All bytes of all fields are given
 * here; whoever adds a field adds it here too. What is not the same after two
 * initialisations of different memory can only be padding, which is smaller
 * than the alignment.
 */
struct locks_field {
	void *start;
	size_t size;
};

#define FIELD(field)	{ &(field), sizeof(field) }

static void locks_test_expect_initial(struct kunit *test, struct file_lock *fl,
				      u8 *known)
{
	const struct locks_field zero[] = {
		FIELD(fl->c.flc_blocker), FIELD(fl->c.flc_link),
		FIELD(fl->c.flc_owner), FIELD(fl->c.flc_flags),
		FIELD(fl->c.flc_type), FIELD(fl->c.flc_pid),
		FIELD(fl->c.flc_link_cpu), FIELD(fl->c.flc_file),
		FIELD(fl->fl_start), FIELD(fl->fl_end),
		FIELD(fl->fl_ops), FIELD(fl->fl_lmops), FIELD(fl->fl_u),
	};
	const struct locks_field other[] = {
		FIELD(fl->c.flc_list), FIELD(fl->c.flc_blocked_requests),
		FIELD(fl->c.flc_blocked_member), FIELD(fl->c.flc_wait),
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(zero); i++) {
		KUNIT_EXPECT_NULL_MSG(test,
				      memchr_inv(zero[i].start, 0, zero[i].size),
				      "field %d", i);
		memset(known + (zero[i].start - (void *)fl), 1, zero[i].size);
	}
	for (i = 0; i < ARRAY_SIZE(other); i++)
		memset(known + (other[i].start - (void *)fl), 1, other[i].size);

	locks_test_expect_idle(test, fl);
	KUNIT_ASSERT_TRUE(test, spin_trylock(&fl->c.flc_wait.lock));
	spin_unlock(&fl->c.flc_wait.lock);
}

static void locks_test_init_lock(struct kunit *test)
{
	u8 *a, *b, *known;
	int i, run = 0;

	a = kunit_kmalloc(test, sizeof(struct file_lock), GFP_KERNEL);
	b = kunit_kmalloc(test, sizeof(struct file_lock), GFP_KERNEL);
	known = kunit_kzalloc(test, sizeof(struct file_lock), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, a && b && known);

	memset(a, 0xa5, sizeof(struct file_lock));
	memset(b, 0x5a, sizeof(struct file_lock));
	locks_init_lock((struct file_lock *)a);
	locks_init_lock((struct file_lock *)b);
	locks_test_expect_initial(test, (struct file_lock *)a, known);
	locks_test_expect_initial(test, (struct file_lock *)b, known);

	for (i = 0; i < sizeof(struct file_lock); i++) {
		run = known[i] || a[i] == b[i] ? 0 : run + 1;
		KUNIT_EXPECT_LT_MSG(test, run, __alignof__(struct file_lock),
				    "byte %d is not initialised", i);
	}
}

/* The allocator may hand out memory that was used before. */
static void locks_test_alloc(struct kunit *test)
{
	struct file_lock *fl[16];
	u8 *known;
	int i;

	known = kunit_kzalloc(test, sizeof(*fl[0]), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, known);
	kunit_deactivate_static_stub(test, locks_alloc_lock);
	for (i = 0; i < ARRAY_SIZE(fl); i++) {
		fl[i] = locks_alloc_lock();
		KUNIT_ASSERT_NOT_NULL(test, fl[i]);
		memset(fl[i], 0xa5, sizeof(*fl[i]));
	}
	for (i = 0; i < ARRAY_SIZE(fl); i++)
		kmem_cache_free(filelock_cache, fl[i]);
	for (i = 0; i < ARRAY_SIZE(fl); i++) {
		fl[i] = locks_alloc_lock();
		KUNIT_ASSERT_NOT_NULL(test, fl[i]);
		locks_test_expect_initial(test, fl[i], known);
	}
	for (i = 0; i < ARRAY_SIZE(fl); i++)
		locks_free_lock(fl[i]);
}

static struct kunit_case locks_test_cases[] = {
	KUNIT_CASE_PARAM(locks_test_posix_lock, locks_case_gen_params),
	KUNIT_CASE_PARAM(locks_test_posix_lock_nomem, locks_case_gen_params),
	KUNIT_CASE_PARAM(locks_test_change, locks_change_case_gen_params),
	KUNIT_CASE_PARAM(locks_test_fcntl_allocs, locks_fcntl_case_gen_params),
	KUNIT_CASE_PARAM(locks_test_getlk, locks_getlk_case_gen_params),
	KUNIT_CASE(locks_test_getlk_fs_error),
	KUNIT_CASE(locks_test_getlk_held),
	KUNIT_CASE(locks_test_getlk_big),
	KUNIT_CASE_PARAM(locks_test_setlk, locks_setlk_case_gen_params),
	KUNIT_CASE(locks_test_setlk_fs),
	KUNIT_CASE_PARAM(locks_test_cmd, locks_cmd_case_gen_params),
	KUNIT_CASE(locks_test_close),
	KUNIT_CASE(locks_test_unlock_never_locked),
	KUNIT_CASE(locks_test_conflock),
	KUNIT_CASE_PARAM(locks_test_expire_getlk, locks_expire_case_gen_params),
	KUNIT_CASE_PARAM(locks_test_expire_setlk, locks_expire_case_gen_params),
	KUNIT_CASE_PARAM(locks_test_expire_split, locks_expire_case_gen_params),
	KUNIT_CASE(locks_test_wait),
	KUNIT_CASE(locks_test_deadlock),
	KUNIT_CASE(locks_test_inverted),
	KUNIT_CASE(locks_test_inverted_split),
	KUNIT_CASE(locks_test_init_lock),
	KUNIT_CASE(locks_test_alloc),
	{}
};

static struct kunit_suite locks_test_suite = {
	.name = "filelock",
	.init = locks_test_init,
	.exit = locks_test_exit,
	.test_cases = locks_test_cases,
};

kunit_test_suite(locks_test_suite);
