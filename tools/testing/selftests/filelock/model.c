// SPDX-License-Identifier: GPL-2.0
/*
 * model: random lock calls against a model of POSIX and OFD locks
 *
 * sequence.*: up to four processes share a file. They lock, unlock and query,
 * open, dup, close, fork and exit, one call at a time and in an order known
 * beforehand. The model has an array of cells for each owner. What each call
 * returns is compared with it, and every 64 calls and at the end also the locks
 * that /proc/PID/fdinfo lists. A sequence that fails is played again without
 * some of its calls for as long as it still fails, and the rest is printed.
 *
 * threads.*: six owners in three processes make such calls at the same time,
 * each owner from one thread. A counter that all of them step before and after
 * each call says which calls overlapped. A result is right if some order of the
 * calls, with those that did not overlap in the order in which they were made,
 * gives every call the result it had. The search for that order is complete: as
 * the calls of an owner follow each other and their results are known, what is
 * held depends only on which of the pending calls, one an owner at most, have
 * taken effect. Those sets are all followed. So a failure is no accident of
 * timing, but a wrong result that the order of the calls hides is not found.
 * In threads.own each owner has a range of its own and no result is hidden.
 *
 * Numbers of calls and not seconds limit a run, so that one with the same seed
 * makes the same calls everywhere. The default is what takes about a second on
 * real hardware and less than a minute on an emulated machine.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "kselftest.h"

#define OFFSET_MAX	INT64_MAX
#define DEFAULT_OPS	100000
#define MAX_REPLAYS	3000	/* to shorten one sequence */
#define EXIT_USAGE	2

enum {
	CELLS = 64,		/* that the model divides a file into */
	PROCS = 4,
	FDS = 5,		/* of each process */
	FILES = PROCS * FDS,	/* open file descriptions */
	OWNERS = PROCS + FILES,	/* the processes first */
	SEQUENCE = 1024,	/* calls */
	BATCH = 64,		/* calls from one look at fdinfo to the next */
	RACE_PROCS = 3,
	WORKERS = 6,
	ROUND = 512,		/* calls of each worker */
	CONTROLLER = PROCS,
	FILE_SIZE = 40,		/* for SEEK_END */
	FILE_POS = 10,		/* for SEEK_CUR */
};

enum kind { SETLK, GETLK, OPEN, DUP, CLOSE, FORK, EXIT };
/* What a cell is, and what a request asks for. */
enum type { FREE, READ, WRITE };

static const short type_of[] = { F_UNLCK, F_RDLCK, F_WRLCK };
static const char * const type_name[] = { "F_UNLCK", "F_RDLCK", "F_WRLCK" };
static const int mode_of[] = { O_RDWR, O_RDONLY, O_WRONLY };
static const char * const mode_name[] = { "O_RDWR", "O_RDONLY", "O_WRONLY" };
static const char * const whence_name[] = { "SEEK_SET", "SEEK_CUR", "SEEK_END" };

struct call {
	unsigned char kind;
	/* Process or worker that makes it, and which of its descriptors. */
	unsigned char proc, fd;
	/* DUP: the new descriptor, FORK: the new process, OPEN: the mode. */
	unsigned char to;
	unsigned char type, ofd;
	/* Cells, and how the range is written down. */
	unsigned char first, last, whence, odd;
};

struct result {
	int err;
	/* Of the new process. */
	pid_t pid;
	struct flock fl;
};

/* What the kernel should know after the calls made so far. */
struct world {
	pid_t pid[PROCS];
	bool alive[PROCS];
	/* Index of a description, or -1. */
	signed char fd[PROCS][FDS];
	unsigned char refs[FILES], mode[FILES];
	unsigned char held[OWNERS][CELLS];
};

/* The locks of every owner as a call meets them, and the pid that names it. */
struct view {
	int owners;
	const unsigned char *held[OWNERS];
	pid_t pid[OWNERS];
};

/* A line of fdinfo. */
struct line {
	bool ofd;
	int type;
	pid_t pid;
	off_t start, end;
};

/*
 * Who races: each owner of locks is a thread of one of three processes. A close
 * would drop the POSIX locks of the process too, so that only those two threads
 * close their descriptions whose process has no such locks.
 */
static const struct worker {
	int proc;
	bool ofd, closes;
} workers[WORKERS] = {
	{ .proc = 0, .closes = true },
	{ .proc = 0, .ofd = true },
	{ .proc = 1, .closes = true },
	{ .proc = 1, .ofd = true },
	{ .proc = 2, .ofd = true, .closes = true },
	{ .proc = 2, .ofd = true, .closes = true },
};

/* Memory of all processes. */
static struct shared {
	pid_t pid[PROCS];
	/* Numbers of open descriptors, or -1. */
	int fd[PROCS][FDS];
	/* The batch, and who leaves after its latest call. */
	struct call call[BATCH];
	struct result result[BATCH];
	int count, next;
	bool leaving;

	/* The same of a race. */
	int worker_fd[WORKERS];
	struct call race_call[WORKERS][ROUND];
	struct result race_result[WORKERS][ROUND];
	/* Which worker began or ended a call, in this order. */
	unsigned int stamp;
	unsigned char event[2 * WORKERS * ROUND];
} *shared;

static off_t edge[CELLS];	/* first byte of each cell */
static int turn[PROCS + 1][2];	/* pipes: a byte says whose turn it is */
static int gate[2];		/* holds the workers back until all are there */
static int file;		/* which nobody locks */
static char path[32];		/* for other opens of it */
static pid_t controller;
static bool own_query;		/* F_OFD_GETLK takes F_UNLCK */
static bool loud;		/* print what is done and what is wrong */

static unsigned long ops = DEFAULT_OPS;
static uint64_t first_seed = 1;
static const char *only;

static __printf(1, 2) void complain(const char *fmt, ...)
{
	va_list args;

	if (!loud)
		return;
	printf("#   ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

/* splitmix64: good for any seed, 0 and 1 and 2 included. */
static unsigned int rnd(uint64_t *state, unsigned int below)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return ((z ^ (z >> 31)) >> 32) % below;
}

static bool one_in(uint64_t *state, unsigned int n)
{
	return !rnd(state, n);
}

/*
 * Ranges
 */

static void small_offsets(void)
{
	int i;

	for (i = 0; i < CELLS; i++)
		edge[i] = i;
}

/* The last cell is the byte OFFSET_MAX, the first one all that is not listed. */
static void large_offsets(void)
{
	int i;

	edge[0] = 0;
	for (i = 1; i < CELLS; i++)
		edge[i] = OFFSET_MAX - (CELLS - 1 - i);
}

/* Cell 16 starts at 2^31, cell 32 at 2^32. */
static void wide_cells(void)
{
	int i;

	for (i = 0; i < CELLS; i++)
		edge[i] = (off_t)i << 27;
}

static off_t last_byte(int cell)
{
	return cell == CELLS - 1 ? OFFSET_MAX : edge[cell + 1] - 1;
}

static void set_range(struct flock *fl, off_t start, off_t end)
{
	fl->l_whence = SEEK_SET;
	fl->l_start = start;
	fl->l_len = end == OFFSET_MAX ? 0 : end - start + 1;
}

/* What is passed to fcntl(). Odd is a negative length, or one that ends at OFFSET_MAX. */
static void request(const struct call *c, struct flock *fl)
{
	off_t start = edge[c->first], end = last_byte(c->last);

	memset(fl, 0, sizeof(*fl));
	set_range(fl, start, end);
	fl->l_type = type_of[c->type];
	fl->l_whence = c->whence;
	fl->l_pid = c->ofd ? 0 : 77;
	if (c->odd && end < OFFSET_MAX) {
		fl->l_start = end + 1;
		fl->l_len = start - end - 1;
	} else if (c->odd && start > 0) {
		fl->l_len = end - start + 1;
	}
	if (c->whence == SEEK_CUR)
		fl->l_start -= FILE_POS;
	else if (c->whence == SEEK_END)
		fl->l_start -= FILE_SIZE;
}

/* Not memcmp(), as the padding between the fields has no defined value. */
static bool same_lock(const struct flock *a, const struct flock *b)
{
	return a->l_type == b->l_type && a->l_whence == b->l_whence &&
	       a->l_start == b->l_start && a->l_len == b->l_len &&
	       a->l_pid == b->l_pid;
}

/*
 * The model
 */

static bool excludes(enum type a, enum type b)
{
	return a != FREE && b != FREE && (a == WRITE || b == WRITE);
}

static bool in_conflict(const struct view *v, int caller, const struct call *c)
{
	int o, i;

	for (o = 0; o < v->owners; o++)
		for (i = c->first; o != caller && i <= c->last; i++)
			if (excludes(c->type, v->held[o][i]))
				return true;
	return false;
}

/* Cells of one type in a row are one lock: the last cell of the row. */
static int end_of_lock(const unsigned char *held, int cell)
{
	while (cell < CELLS - 1 && held[cell + 1] == held[cell])
		cell++;
	return cell;
}

/*
 * The next answer that is right, if any: a lock that excludes the one asked for
 * or, for F_UNLCK, a lock of the description itself. Begin with *o = *cell = 0.
 */
static bool next_answer(const struct view *v, int caller, const struct call *c,
			int *o, int *cell, struct flock *fl)
{
	bool own_locks = c->type == FREE;

	for (; *o < v->owners; (*o)++, *cell = 0) {
		const unsigned char *held = v->held[*o];

		if (own_locks ? *o != caller : *o == caller)
			continue;
		while (*cell <= c->last) {
			int first = *cell, last = end_of_lock(held, first);

			*cell = last + 1;
			if (last < c->first || held[first] == FREE)
				continue;
			if (!own_locks && !excludes(c->type, held[first]))
				continue;
			set_range(fl, edge[first], last_byte(last));
			fl->l_type = type_of[held[first]];
			fl->l_pid = v->pid[*o];
			return true;
		}
	}
	return false;
}

static bool answer_is_true(const struct view *v, int caller,
			   const struct call *c, const struct flock *answer)
{
	int o = 0, cell = 0;
	struct flock fl;
	bool any = false;

	while (next_answer(v, caller, c, &o, &cell, &fl)) {
		if (same_lock(&fl, answer))
			return true;
		any = true;
	}
	request(c, &fl);
	fl.l_type = F_UNLCK;
	return !any && same_lock(&fl, answer);
}

static bool is_right(const struct view *v, int caller, const struct call *c,
		     const struct result *r, int want)
{
	struct flock fl;

	if (r->err != want)
		return false;
	if (c->kind != SETLK && c->kind != GETLK)
		return true;
	if (c->kind == GETLK && !want)
		return answer_is_true(v, caller, c, &r->fl);
	request(c, &fl);
	return same_lock(&fl, &r->fl);
}

static void start_world(struct world *w, pid_t pid)
{
	memset(w, 0, sizeof(*w));
	memset(w->fd, -1, sizeof(w->fd));
	w->alive[0] = true;
	w->pid[0] = pid;
}

static void view_world(struct view *v, const struct world *w)
{
	int o;

	v->owners = OWNERS;
	for (o = 0; o < OWNERS; o++) {
		v->held[o] = w->held[o];
		v->pid[o] = o < PROCS ? w->pid[o] : -1;
	}
}

static int owner_of(const struct world *w, const struct call *c)
{
	return c->ofd ? PROCS + w->fd[c->proc][c->fd] : c->proc;
}

/* If the process is there, and room for what the call makes. */
static bool is_possible(const struct world *w, const struct call *c)
{
	if (!w->alive[c->proc])
		return false;
	if (c->kind == OPEN)
		return w->fd[c->proc][c->fd] < 0;
	return c->kind != FORK || !w->alive[c->to];
}

static int want_errno(const struct world *w, const struct view *v,
		      const struct call *c)
{
	int f = w->fd[c->proc][c->fd], err = 0;

	if (c->kind == OPEN || c->kind == FORK || c->kind == EXIT)
		return 0;
	if (f >= 0 && (c->kind != SETLK || c->type == FREE))
		return 0;
	if (f < 0 || mode_of[w->mode[f]] == (c->type == READ ? O_WRONLY : O_RDONLY))
		err = EBADF;
	else if (in_conflict(v, owner_of(w, c), c))
		err = EAGAIN;
	return err;
}

/* Any close drops what the process holds, the last one what the description does. */
static void drop(struct world *w, int proc, int fd)
{
	int f = w->fd[proc][fd];

	if (f < 0)
		return;
	memset(w->held[proc], FREE, CELLS);
	if (!--w->refs[f])
		memset(w->held[PROCS + f], FREE, CELLS);
	w->fd[proc][fd] = -1;
}

static void apply(struct world *w, const struct call *c, pid_t pid)
{
	int f = w->fd[c->proc][c->fd], i;

	switch (c->kind) {
	case SETLK:
		memset(w->held[owner_of(w, c)] + c->first, c->type,
		       c->last - c->first + 1);
		break;
	case OPEN:
		for (f = 0; w->refs[f]; f++)
			;
		w->fd[c->proc][c->fd] = f;
		w->refs[f] = 1;
		w->mode[f] = c->to;
		break;
	case DUP:
		if (c->to == c->fd)
			break;
		w->refs[f]++;
		drop(w, c->proc, c->to);
		w->fd[c->proc][c->to] = f;
		break;
	case CLOSE:
		drop(w, c->proc, c->fd);
		break;
	case FORK:
		for (i = 0; i < FDS; i++) {
			w->fd[c->to][i] = w->fd[c->proc][i];
			if (w->fd[c->to][i] >= 0)
				w->refs[w->fd[c->to][i]]++;
		}
		w->alive[c->to] = true;
		w->pid[c->to] = pid;
		break;
	case EXIT:
		for (i = 0; i < FDS; i++)
			drop(w, c->proc, i);
		w->alive[c->proc] = false;
		break;
	}
}

/*
 * Text
 */

static const char *errno_name(int err)
{
	return !err ? "0" : err == EAGAIN ? "EAGAIN" :
	       err == EBADF ? "EBADF" : strerror(err);
}

static const char *name_of_type(int type)
{
	return type == F_RDLCK ? "F_RDLCK" : type == F_WRLCK ? "F_WRLCK" :
	       type == F_UNLCK ? "F_UNLCK" : "bad type";
}

static void print_lock(const struct flock *fl)
{
	printf("%s ", name_of_type(fl->l_type));
	if (fl->l_whence >= SEEK_SET && fl->l_whence <= SEEK_END)
		printf("%s ", whence_name[fl->l_whence]);
	else
		printf("whence %d ", fl->l_whence);
	printf("%lld+%lld", (long long)fl->l_start, (long long)fl->l_len);
}

static void print_call(const char *who, const struct call *c,
		       const struct result *r)
{
	struct flock fl;

	printf("#   %s%d: ", who, c->proc);
	switch (c->kind) {
	case SETLK:
	case GETLK:
		request(c, &fl);
		printf("fcntl(fd%d, F_%s%s, ", c->fd, c->ofd ? "OFD_" : "",
		       c->kind == SETLK ? "SETLK" : "GETLK");
		print_lock(&fl);
		putchar(')');
		break;
	case OPEN:
		printf("fd%d = open(%s)", c->fd, mode_name[c->to]);
		break;
	case DUP:
		printf("fd%d = dup(fd%d)", c->to, c->fd);
		break;
	case CLOSE:
		printf("close(fd%d)", c->fd);
		break;
	case FORK:
		printf("P%d = fork()", c->to);
		break;
	case EXIT:
		printf("exit()");
		break;
	}
	printf(" = %s", errno_name(r->err));
	if (c->kind == FORK)
		printf(", pid %d", r->pid);
	if (c->kind == GETLK && !r->err) {
		printf(", ");
		print_lock(&r->fl);
		printf(" pid %d", r->fl.l_pid);
	}
	putchar('\n');
}

static void print_right_answers(const struct view *v, int caller,
				const struct call *c)
{
	int o = 0, cell = 0;
	struct flock fl;
	bool any = false;

	while (next_answer(v, caller, c, &o, &cell, &fl)) {
		printf("#   right: ");
		print_lock(&fl);
		printf(" pid %d\n", fl.l_pid);
		any = true;
	}
	if (!any)
		complain("right: F_UNLCK, all else as it was");
}

static void explain(const struct view *v, int caller, const struct call *c,
		    const struct result *r, int want)
{
	if (!loud)
		return;
	if (r->err != want)
		complain("right: %s", errno_name(want));
	else if (c->kind == GETLK && !want)
		print_right_answers(v, caller, c);
	else
		complain("right: the structure as it was");
}

/*
 * fdinfo
 */

static bool parse_line(const char *s, int number, struct line *l)
{
	char kind[8], type[8], end[24];
	long long start;
	int id;

	if (sscanf(s, "lock: %d: %7s ADVISORY %7s %d %*x:%*x:%*u %lld %23s",
		   &id, kind, type, &l->pid, &start, end) != 6)
		return false;
	l->ofd = !strcmp(kind, "OFDLCK");
	l->type = !strcmp(type, "READ") ? READ : WRITE;
	l->start = start;
	l->end = !strcmp(end, "EOF") ? OFFSET_MAX : strtoll(end, NULL, 10);
	return id == number && (l->ofd || !strcmp(kind, "POSIX")) &&
	       (l->type == READ || !strcmp(type, "WRITE"));
}

/* How many locks fdinfo lists, or -1. */
static int read_lines(pid_t pid, int fd, struct line *lines)
{
	static char text[32768];
	char name[48], *s, *save;
	size_t len = 0;
	ssize_t got;
	int n = 0, in;

	snprintf(name, sizeof(name), "/proc/%d/fdinfo/%d", pid, fd);
	in = open(name, O_RDONLY);
	if (in < 0)
		return -1;
	do {
		got = read(in, text + len, sizeof(text) - 1 - len);
		len += got > 0 ? got : 0;
	} while (got > 0);
	close(in);
	if (got < 0)
		return -1;
	text[len] = '\0';
	for (s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
		if (strncmp(s, "lock:", 5))
			continue;
		if (n == 2 * CELLS || !parse_line(s, n + 1, &lines[n])) {
			complain("%s: line %d is wrong: %s", name, n + 1, s);
			return -1;
		}
		n++;
	}
	return n;
}

/* Keep the lines of one kind, which have to be sorted. */
static int select_lines(struct line *lines, int n, bool ofd)
{
	int i, kept = 0;

	for (i = 0; i < n; i++) {
		if (lines[i].ofd != ofd)
			continue;
		lines[kept] = lines[i];
		if (kept && lines[kept - 1].start >= lines[kept].start) {
			complain("fdinfo is not sorted: %lld before %lld",
				 (long long)lines[kept - 1].start,
				 (long long)lines[kept].start);
			return -1;
		}
		kept++;
	}
	return kept;
}

static void print_lines(const char *head, const struct line *lines, int n)
{
	int i;

	if (!loud)
		return;
	printf("#   %s:", head);
	for (i = 0; i < n; i++) {
		printf(" %s %lld-", type_name[lines[i].type],
		       (long long)lines[i].start);
		if (lines[i].end == OFFSET_MAX)
			printf("EOF");
		else
			printf("%lld", (long long)lines[i].end);
		printf(" pid %d%s", lines[i].pid, i < n - 1 ? "," : "");
	}
	puts(n ? "" : " nothing");
}

/* The lines that an owner's locks should make. */
static int model_lines(const unsigned char *held, bool ofd, pid_t pid,
		       struct line *lines)
{
	int cell, n = 0;

	for (cell = 0; cell < CELLS; cell++) {
		int last = end_of_lock(held, cell);

		if (held[cell] != FREE)
			lines[n++] = (struct line) {
				.ofd = ofd, .pid = pid, .type = held[cell],
				.start = edge[cell], .end = last_byte(last),
			};
		cell = last;
	}
	return n;
}

static bool same_lines(const struct line *a, const struct line *b, int n)
{
	for (; n > 0; n--, a++, b++)
		if (a->ofd != b->ofd || a->type != b->type || a->pid != b->pid ||
		    a->start != b->start || a->end != b->end)
			return false;
	return true;
}

/* Compare what fdinfo lists of an owner with what the model says it holds. */
static bool compare_lines(const char *who, int index, const struct line *lines,
			  int n, const unsigned char *held, bool ofd, pid_t pid)
{
	struct line want[CELLS];
	int wanted = model_lines(held, ofd, pid, want);

	if (n == wanted && same_lines(lines, want, n))
		return true;
	complain("the %s locks in fdinfo of %s%d are wrong",
		 ofd ? "OFD" : "POSIX", who, index);
	print_lines("fdinfo", lines, n < 0 ? 0 : n);
	print_lines("right", want, wanted);
	return false;
}

static int by_start(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/*
 * fdinfo of a descriptor lists the POSIX locks that the process made through
 * its description, so those of a process are put together from all of them.
 */
static bool check_fdinfo(const struct world *w, int proc)
{
	struct line lines[2 * CELLS], ofd[2 * CELLS], posix[FDS * 2 * CELLS];
	bool seen[FILES] = { false };
	int i, n, m, count = 0;

	for (i = 0; i < FDS; i++) {
		int f = w->fd[proc][i];

		if (f < 0)
			continue;
		n = read_lines(w->pid[proc], shared->fd[proc][i], lines);
		memcpy(ofd, lines, sizeof(lines));
		m = n < 0 ? -1 : select_lines(ofd, n, true);
		n = n < 0 ? -1 : select_lines(lines, n, false);
		if (n < 0 || m < 0 ||
		    !compare_lines("P", proc, ofd, m, w->held[PROCS + f], true, -1))
			return false;
		if (seen[f])
			continue;
		seen[f] = true;
		memcpy(posix + count, lines, n * sizeof(lines[0]));
		count += n;
	}
	qsort(posix, count, sizeof(posix[0]), by_start);
	return compare_lines("P", proc, posix, count, w->held[proc], false,
			     w->pid[proc]);
}

static bool check_all_fdinfo(const struct world *w)
{
	int p;

	for (p = 0; p < PROCS; p++)
		if (w->alive[p] && !check_fdinfo(w, p))
			return false;
	return true;
}

/*
 * Processes
 */

static void pass_turn(int to)
{
	if (write(turn[to][1], "T", 1) != 1)
		_exit(KSFT_FAIL);
}

/* A process that ends although nobody asked it to leaves no one to wait for. */
static void look_for_dead(void)
{
	siginfo_t si;
	int p;

	for (p = 0; p < PROCS; p++) {
		if (!shared->pid[p] || shared->leaving)
			continue;
		si.si_pid = 0;
		if (!waitid(P_PID, shared->pid[p], &si, WEXITED | WNOHANG | WNOWAIT) &&
		    si.si_pid)
			ksft_exit_fail_msg("process %d of the test ended with %d\n",
					   p, si.si_status);
	}
}

static void child_ended(int sig)
{
	int saved = errno;

	(void)sig;
	if (write(turn[CONTROLLER][1], "D", 1) != 1)
		_exit(KSFT_FAIL);
	errno = saved;
}

static void wait_turn(void)
{
	char c;

	do {
		if (read(turn[CONTROLLER][0], &c, 1) != 1)
			ksft_exit_fail_perror("read");
		if (c == 'D')
			look_for_dead();
	} while (c != 'T');
}

/* Processes of the test are children of the controller and end with it. */
static void end_with_controller(void)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != controller)
		_exit(KSFT_FAIL);
}

static int member(void *arg);

/*
 * A fork of the calling process that becomes the controller's child, which
 * fork() itself cannot say. A stack that is entered in its middle serves
 * whichever way it grows. There are two, as the caller may run on the first.
 */
static pid_t fork_for_controller(intptr_t proc)
{
	static max_align_t stack[2][4096];
	uintptr_t offset = (uintptr_t)&proc - (uintptr_t)stack[0];
	int unused = offset < sizeof(stack[0]);

	return clone(member, &stack[unused][2048], CLONE_PARENT | SIGCHLD,
		     (void *)proc);
}

static int open_again(int mode)
{
	int fd = open(path, mode);

	if (fd >= 0 && lseek(fd, FILE_POS, SEEK_SET) != FILE_POS)
		return -1;
	return fd;
}

static int lock_call(int fd, const struct call *c, struct flock *fl)
{
	if (c->kind == SETLK)
		return fcntl(fd, c->ofd ? F_OFD_SETLK : F_SETLK, fl);
	return fcntl(fd, c->ofd ? F_OFD_GETLK : F_GETLK, fl);
}

static void perform(int *fd, const struct call *c, struct result *r)
{
	int ret = 0;

	switch (c->kind) {
	case SETLK:
	case GETLK:
		request(c, &r->fl);
		ret = lock_call(fd[c->fd], c, &r->fl);
		break;
	case OPEN:
		ret = open_again(mode_of[c->to]);
		fd[c->fd] = ret;
		break;
	case DUP:
		ret = fd[c->to] < 0 ? dup(fd[c->fd]) : dup2(fd[c->fd], fd[c->to]);
		if (ret >= 0)
			fd[c->to] = ret;
		break;
	case CLOSE:
		ret = close(fd[c->fd]);
		fd[c->fd] = -1;
		break;
	case FORK:
		memcpy(shared->fd[c->to], fd, sizeof(shared->fd[0]));
		ret = fork_for_controller(c->to);
		r->pid = ret;
		if (ret > 0)
			shared->pid[c->to] = ret;
		break;
	case EXIT:
		shared->leaving = true;
		break;
	}
	r->err = ret < 0 ? errno : 0;
}

/* What a process of a sequence does: its calls, when it is their turn. */
static int member(void *arg)
{
	struct shared *s = shared;
	int me = (intptr_t)arg;
	bool leave;
	char c;

	end_with_controller();
	while (read(turn[me][0], &c, 1) == 1) {
		do {
			perform(s->fd[me], &s->call[s->next], &s->result[s->next]);
			s->next++;
		} while (s->next < s->count && s->call[s->next].proc == me &&
			 !s->leaving);
		/* The flag may be another one's as soon as the turn is passed. */
		leave = s->leaving;
		if (leave || s->next == s->count)
			pass_turn(CONTROLLER);
		else
			pass_turn(s->call[s->next].proc);
		if (leave)
			_exit(0);
	}
	_exit(KSFT_FAIL);
}

static void reap(int proc)
{
	if (waitpid(shared->pid[proc], NULL, 0) != shared->pid[proc])
		ksft_exit_fail_perror("waitpid");
	shared->pid[proc] = 0;
}

static void start_members(struct world *w)
{
	struct shared *s = shared;
	pid_t pid;

	memset(s->fd, -1, sizeof(s->fd));
	pid = fork();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid)
		member(NULL);
	s->pid[0] = pid;
	start_world(w, pid);
}

/* True if no lock is left when the last process is gone. */
static bool stop_members(void)
{
	struct flock fl = { .l_type = F_WRLCK };
	int p;

	for (p = 0; p < PROCS; p++) {
		if (!shared->pid[p])
			continue;
		kill(shared->pid[p], SIGKILL);
		reap(p);
	}
	return !fcntl(file, F_GETLK, &fl) && fl.l_type == F_UNLCK;
}

/* What makes the same calls, if not at the same times where they race. */
static void print_again(const char *name, uint64_t seed)
{
	ksft_print_msg("%s fails; again: model --only %s --seed %llu --ops 1\n",
		       name, name, (unsigned long long)seed);
}

/*
 * Sequences
 */

static void run_batch(int count)
{
	struct shared *s = shared;

	s->count = count;
	s->next = 0;
	while (s->next < s->count) {
		pass_turn(s->call[s->next].proc);
		wait_turn();
		if (s->leaving) {
			reap(s->call[s->next - 1].proc);
			s->leaving = false;
		}
	}
}

/* The first call of the batch with a wrong result, or count. */
static int check_batch(struct world *w, int count)
{
	struct view v;
	int i, want;

	for (i = 0; i < count; i++) {
		const struct call *c = &shared->call[i];
		const struct result *r = &shared->result[i];

		view_world(&v, w);
		want = want_errno(w, &v, c);
		if (loud)
			print_call("P", c, r);
		if (!is_right(&v, owner_of(w, c), c, r, want)) {
			explain(&v, owner_of(w, c), c, r, want);
			return i;
		}
		if (!want)
			apply(w, c, r->pid);
	}
	return count;
}

/*
 * Make the calls and look at fdinfo each time so many of them are made. Returns
 * the index of the call after which something was wrong, or -1.
 */
static int play(const struct call *calls, int count, int batch)
{
	int index[BATCH], i = 0, n, good, bad = -1;
	struct world ahead, behind;
	struct view v;

	start_members(&behind);
	ahead = behind;
	while (i < count && bad < 0) {
		for (n = 0; i < count && n < batch; i++) {
			if (!is_possible(&ahead, &calls[i]))
				continue;
			index[n] = i;
			shared->call[n++] = calls[i];
			view_world(&v, &ahead);
			if (!want_errno(&ahead, &v, &calls[i]))
				apply(&ahead, &calls[i], 0);
		}
		run_batch(n);
		good = check_batch(&behind, n);
		if (good < n)
			bad = index[good];
		else if (!check_all_fdinfo(&behind))
			bad = i - 1;
	}
	if (!stop_members() && bad < 0) {
		complain("a lock is left when all processes are gone");
		bad = count - 1;
	}
	return bad;
}

/* Play without the calls from first on. The new number of calls if that fails too. */
static int play_without(struct call *calls, int count, int first, int n)
{
	static struct call rest[SEQUENCE];
	int bad;

	memcpy(rest, calls, first * sizeof(*calls));
	memcpy(rest + first, calls + first + n,
	       (count - first - n) * sizeof(*calls));
	bad = play(rest, count - n, 1);
	if (bad < 0)
		return count;
	memcpy(calls, rest, sizeof(rest));
	return bad + 1;
}

/* Take calls out, at first many at a time, until none can be missed. */
static int shorten(struct call *calls, int count)
{
	int chunk = count / 2 ? count / 2 : 1, replays = 0;

	while (replays < MAX_REPLAYS) {
		int before = count, first = 0;

		while (first < count && replays++ < MAX_REPLAYS) {
			int n = chunk < count - first ? chunk : count - first;
			int left = play_without(calls, count, first, n);

			if (left == count)
				first += n;
			count = left;
		}
		if (chunk == 1 && count == before)
			break;
		chunk = chunk > 1 ? chunk / 2 : 1;
	}
	return count;
}

/* Write each call in the plainest way with which the sequence still fails. */
static void make_plain(struct call *calls, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		struct call was = calls[i];

		calls[i].whence = SEEK_SET;
		calls[i].odd = 0;
		if (calls[i].kind == OPEN)
			calls[i].to = 0;
		if (memcmp(&was, &calls[i], sizeof(was)) &&
		    play(calls, count, 1) != count - 1)
			calls[i] = was;
	}
}

static void print_failure(struct call *calls, const char *name, uint64_t seed)
{
	int bad, count;

	print_again(name, seed);
	bad = play(calls, SEQUENCE, 1);
	if (bad < 0) {
		ksft_print_msg("not in a second run, which is\n");
		loud = true;
		play(calls, SEQUENCE, BATCH);
		loud = false;
		return;
	}
	count = shorten(calls, bad + 1);
	make_plain(calls, count);
	ksft_print_msg("%d calls of %d are enough:\n", count, SEQUENCE);
	loud = true;
	play(calls, count, 1);
	loud = false;
}

/* How the calls of a sequence are chosen. */
struct mood {
	/* The cells in use. */
	unsigned int base, span;
	/* Take only one of so many calls that drop locks. */
	unsigned int keep;
};

static void choose_range(uint64_t *seed, const struct mood *m, struct call *c)
{
	unsigned int first = rnd(seed, m->span);
	unsigned int len = 1 + rnd(seed, one_in(seed, 4) ? m->span : 4);

	c->first = m->base + first;
	c->last = m->base + (first + len > m->span ? m->span : first + len) - 1;
	if (one_in(seed, 16))
		c->last = CELLS - 1;
	if (one_in(seed, 64))
		c->first = 0;
	c->whence = one_in(seed, 2) ? SEEK_SET : rnd(seed, 3);
	c->odd = one_in(seed, 4);
}

static void choose_lock_call(uint64_t *seed, const struct mood *m, bool query,
			     struct call *c)
{
	c->kind = query ? GETLK : SETLK;
	if (!query)
		c->type = rnd(seed, 3);
	else if (c->ofd && own_query && one_in(seed, 4))
		c->type = FREE;
	else
		c->type = READ + rnd(seed, 2);
	choose_range(seed, m, c);
}

static int choose_proc(uint64_t *seed, const struct world *w, bool alive)
{
	int p = rnd(seed, PROCS), i;

	for (i = 0; i < PROCS; i++, p = (p + 1) % PROCS)
		if (w->alive[p] == alive)
			return p;
	return -1;
}

static int choose_fd(uint64_t *seed, const struct world *w, int proc, bool open)
{
	int fd = rnd(seed, FDS), i;

	for (i = 0; i < FDS; i++, fd = (fd + 1) % FDS) {
		bool is_open = w->fd[proc][fd] >= 0;

		if (is_open == open)
			return fd;
	}
	return -1;
}

static enum kind choose_kind(uint64_t *seed, const struct mood *m)
{
	static const struct {
		enum kind kind;
		unsigned int percent;
	} kinds[] = {
		{ SETLK, 58 }, { GETLK, 24 }, { OPEN, 4 }, { DUP, 4 },
		{ CLOSE, 5 }, { FORK, 3 }, { EXIT, 2 },
	};
	unsigned int n = rnd(seed, 100), i;

	for (i = 0; n >= kinds[i].percent; i++)
		n -= kinds[i].percent;
	if (kinds[i].kind >= DUP && kinds[i].kind != FORK && !one_in(seed, m->keep))
		return SETLK;
	return kinds[i].kind;
}

/* A call that w allows, by proc or, if proc is below 0, by anyone. */
static void choose_call(uint64_t *seed, const struct mood *m,
			const struct world *w, int proc, struct call *c)
{
	int fd, to = -1;

	memset(c, 0, sizeof(*c));
	if (proc < 0 || !w->alive[proc] || one_in(seed, 4))
		proc = choose_proc(seed, w, true);
	c->proc = proc;
	c->kind = choose_kind(seed, m);
	c->ofd = rnd(seed, 2);
	if (c->kind == FORK)
		to = choose_proc(seed, w, false);
	else if (c->kind == DUP)
		to = rnd(seed, FDS);
	else if (c->kind == OPEN)
		to = one_in(seed, 8) ? rnd(seed, 3) : 0;
	if ((c->kind == FORK && to < 0) ||
	    (c->kind == OPEN && choose_fd(seed, w, proc, false) < 0))
		c->kind = SETLK;
	if (c->kind == EXIT && w->alive[0] + w->alive[1] + w->alive[2] + w->alive[3] == 1)
		c->kind = SETLK;

	fd = choose_fd(seed, w, proc, c->kind != OPEN);
	if (fd < 0) {
		c->kind = OPEN;
		fd = choose_fd(seed, w, proc, false);
		to = 0;
	} else if (c->kind != OPEN && one_in(seed, 128)) {
		fd = rnd(seed, FDS);
	}
	c->fd = fd;
	c->to = to < 0 ? 0 : to;
	if (c->kind == SETLK || c->kind == GETLK)
		choose_lock_call(seed, m, c->kind == GETLK, c);
}

static void generate(uint64_t seed, struct call *calls)
{
	struct mood m = {
		.span = 8 << rnd(&seed, 4),
		.keep = 1 << 2 * rnd(&seed, 3),
	};
	struct world w;
	struct view v;
	int i;

	m.base = one_in(&seed, 2) ? 0 : CELLS - m.span;
	start_world(&w, 0);
	for (i = 0; i < SEQUENCE; i++) {
		choose_call(&seed, &m, &w, i ? calls[i - 1].proc : -1, &calls[i]);
		view_world(&v, &w);
		if (!want_errno(&w, &v, &calls[i]))
			apply(&w, &calls[i], 0);
	}
}

/* On one CPU the turn passes to another process much faster. */
static void pin(void)
{
	int cpu = sched_getcpu();
	cpu_set_t cpus;

	if (cpu < 0 || cpu >= CPU_SETSIZE)
		return;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static bool run_sequence(const char *name, uint64_t seed)
{
	static struct call calls[SEQUENCE];

	generate(seed, calls);
	if (play(calls, SEQUENCE, BATCH) < 0)
		return true;
	print_failure(calls, name, seed);
	return false;
}

/*
 * Races
 */

/* What the workers made of their calls, as far as the events were read. */
struct history {
	/* Calls that ended, and whether another one has begun. */
	int done[WORKERS];
	bool pending[WORKERS];
	/* Locks of an owner before and after its pending call. */
	unsigned char held[WORKERS][2][CELLS];
	/*
	 * Bit n is set if the pending calls of the workers in n can be those
	 * that have taken effect, which explains every result so far.
	 */
	uint64_t possible;
};

static void stamp(int me)
{
	unsigned int n = __atomic_fetch_add(&shared->stamp, 1, __ATOMIC_SEQ_CST);

	shared->event[n] = me;
}

/* The close of a copy drops POSIX locks, that of the only one OFD locks. */
static void race_call(int me, int *fd, const struct call *c, struct result *r)
{
	bool copy = c->kind == CLOSE && !c->ofd;
	int used = copy ? dup(*fd) : *fd;

	if (used < 0)
		_exit(KSFT_FAIL);
	request(c, &r->fl);
	stamp(me);
	if (c->to)
		sched_yield();
	if (c->kind == CLOSE)
		r->err = close(used) ? errno : 0;
	else
		r->err = lock_call(used, c, &r->fl) ? errno : 0;
	stamp(me);
	if (c->kind == CLOSE && !copy)
		*fd = open_again(O_RDWR);
}

static void *work(void *arg)
{
	struct shared *s = shared;
	int me = (intptr_t)arg, fd = open_again(O_RDWR), i;
	char c;

	if (fd < 0)
		_exit(KSFT_FAIL);
	pass_turn(CONTROLLER);
	if (read(gate[0], &c, 1) != 1)
		_exit(KSFT_FAIL);
	for (i = 0; i < ROUND; i++)
		race_call(me, &fd, &s->race_call[me][i], &s->race_result[me][i]);
	s->worker_fd[me] = fd;
	pass_turn(CONTROLLER);
	/* Until it is killed, so that the locks can be looked at. */
	for (;;)
		pause();
}

static void start_workers(int proc)
{
	pthread_t thread;
	int i;

	end_with_controller();
	for (i = 0; i < WORKERS; i++)
		if (workers[i].proc == proc &&
		    pthread_create(&thread, NULL, work, (void *)(intptr_t)i))
			_exit(KSFT_FAIL);
	for (;;)
		pause();
}

/* All of the six use the last twelve cells, or each has ten. */
static void generate_race(uint64_t seed, bool own)
{
	int w, i;

	for (w = 0; w < WORKERS; w++) {
		struct mood m = { .base = CELLS - 12, .span = 12 };

		if (own)
			m = (struct mood) { .base = 10 * w, .span = 10 };
		for (i = 0; i < ROUND; i++) {
			struct call *c = &shared->race_call[w][i];

			memset(c, 0, sizeof(*c));
			c->proc = w;
			c->ofd = workers[w].ofd;
			choose_lock_call(&seed, &m, one_in(&seed, 4), c);
			if (own && c->first < m.base)
				c->first = m.base;
			if (own && c->last >= m.base + m.span)
				c->last = m.base + m.span - 1;
			if (workers[w].closes && one_in(&seed, 32))
				c->kind = CLOSE;
			c->to = one_in(&seed, 128);
		}
	}
}

static void race(void)
{
	struct shared *s = shared;
	pid_t pid;
	int p, w;

	s->stamp = 0;
	if (pipe(gate))
		ksft_exit_fail_perror("pipe");
	for (p = 0; p < RACE_PROCS; p++) {
		pid = fork();
		if (pid < 0)
			ksft_exit_fail_perror("fork");
		if (!pid)
			start_workers(p);
		s->pid[p] = pid;
	}
	for (w = 0; w < WORKERS; w++)
		wait_turn();
	if (write(gate[1], "TTTTTT", WORKERS) != WORKERS)
		ksft_exit_fail_perror("write");
	for (w = 0; w < WORKERS; w++)
		wait_turn();
	close(gate[0]);
	close(gate[1]);
}

static const struct call *call_of(const struct history *h, int w)
{
	return &shared->race_call[w][h->done[w]];
}

static const struct result *result_of(const struct history *h, int w)
{
	return &shared->race_result[w][h->done[w]];
}

static void view_history(struct view *v, const struct history *h,
			 unsigned int effective)
{
	int w;

	v->owners = WORKERS;
	for (w = 0; w < WORKERS; w++) {
		v->held[w] = h->held[w][effective >> w & 1];
		v->pid[w] = workers[w].ofd ? -1 : shared->pid[workers[w].proc];
	}
}

/* Can the pending call of a worker take effect now? */
static bool can_follow(const struct history *h, int w, unsigned int effective)
{
	const struct call *c = call_of(h, w);
	struct view v;
	bool refused;

	view_history(&v, h, effective);
	refused = c->kind == SETLK && in_conflict(&v, w, c);
	return is_right(&v, w, c, result_of(h, w), refused ? EAGAIN : 0);
}

static void call_begins(struct history *h, int w)
{
	const struct call *c = call_of(h, w);

	h->pending[w] = true;
	memcpy(h->held[w][1], h->held[w][0], CELLS);
	if (result_of(h, w)->err)
		return;
	if (c->kind == CLOSE)
		memset(h->held[w][1], FREE, CELLS);
	else if (c->kind == SETLK)
		memset(h->held[w][1] + c->first, c->type, c->last - c->first + 1);
}

/* False if the call cannot have taken effect, in whatever order the others did. */
static bool call_ends(struct history *h, int w)
{
	uint64_t possible = h->possible, next = 0;
	unsigned int n;
	int i;

	/* Calls are only added to a set: those it leads to are still to come. */
	for (n = 0; n < 1 << WORKERS; n++) {
		for (i = 0; possible >> n & 1 && i < WORKERS; i++)
			if (h->pending[i] && !(n >> i & 1) && can_follow(h, i, n))
				possible |= 1ULL << (n | 1 << i);
		if (possible >> n & 1 && n >> w & 1)
			next |= 1ULL << (n & ~(1U << w));
	}
	if (!next)
		return false;
	h->possible = next;
	h->pending[w] = false;
	memcpy(h->held[w][0], h->held[w][1], CELLS);
	h->done[w]++;
	return true;
}

static void print_history(const struct history *h, int bad)
{
	struct line lines[CELLS];
	char head[32];
	int w, n;

	loud = true;
	ksft_print_msg("no order of these calls explains the result of W%d:\n", bad);
	for (w = 0; w < WORKERS; w++)
		if (h->pending[w])
			print_call("W", call_of(h, w), result_of(h, w));
	ksft_print_msg("before them:\n");
	for (w = 0; w < WORKERS; w++) {
		snprintf(head, sizeof(head), "W%d, %s, held", w,
			 workers[w].ofd ? "OFD" : "POSIX");
		n = model_lines(h->held[w][0], workers[w].ofd,
				workers[w].ofd ? -1 : shared->pid[workers[w].proc],
				lines);
		print_lines(head, lines, n);
	}
	loud = false;
}

static bool check_history(struct history *h)
{
	unsigned int i;

	memset(h, 0, sizeof(*h));
	h->possible = 1;
	for (i = 0; i < 2 * WORKERS * ROUND; i++) {
		int w = shared->event[i];

		if (!h->pending[w]) {
			call_begins(h, w);
		} else if (!call_ends(h, w)) {
			print_history(h, w);
			return false;
		}
	}
	return true;
}

static bool check_race_fdinfo(const struct history *h)
{
	struct line lines[2 * CELLS];
	bool good = true;
	int w, n;

	loud = true;
	for (w = 0; w < WORKERS && good; w++) {
		pid_t pid = shared->pid[workers[w].proc];
		bool ofd = workers[w].ofd;

		n = read_lines(pid, shared->worker_fd[w], lines);
		n = n < 0 ? -1 : select_lines(lines, n, ofd);
		good = compare_lines("W", w, lines, n, h->held[w][0], ofd,
				     ofd ? -1 : pid);
	}
	loud = false;
	return good;
}

static bool run_round(const char *name, uint64_t seed)
{
	static struct history h;
	bool good;

	generate_race(seed, !strcmp(name, "threads.own"));
	race();
	good = check_history(&h) && check_race_fdinfo(&h);
	if (!stop_members()) {
		ksft_print_msg("a lock is left when all processes are gone\n");
		good = false;
	}
	if (!good)
		print_again(name, seed);
	return good;
}

/*
 * The program
 */

static const struct test {
	const char *name;
	void (*offsets)(void);
	bool (*run)(const char *name, uint64_t seed);
	int calls;
	const char *help;
} tests[] = {
	{ "sequence.small", small_offsets, run_sequence, SEQUENCE,
	  "offsets from 0 to 63, the last one with all that follow" },
	{ "sequence.large", large_offsets, run_sequence, SEQUENCE,
	  "the largest 63 offsets, and all before them" },
	{ "sequence.wide", wide_cells, run_sequence, SEQUENCE,
	  "multiples of 2^27, with 2^31 and 2^32 among them" },
	{ "threads.own", small_offsets, run_round, WORKERS * ROUND,
	  "owners at the same time, each with its own range" },
	{ "threads.shared", small_offsets, run_round, WORKERS * ROUND,
	  "owners at the same time on one range" },
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Sequence n of a test has the seed n above that of the first. */
static void run_test(const struct test *t, unsigned long calls)
{
	unsigned long n, count = (calls + t->calls - 1) / t->calls;
	double start = now(), took;
	cpu_set_t cpus;
	bool known = !sched_getaffinity(0, sizeof(cpus), &cpus);
	bool good = true;

	if (known && t->run == run_sequence)
		pin();
	t->offsets();
	for (n = 0; n < count && good; n++)
		good = t->run(t->name, first_seed + n);
	took = now() - start;
	ksft_print_msg("%s: %lu calls, %.0f a second\n", t->name, n * t->calls,
		       n * t->calls / (took > 0 ? took : 1));
	ksft_test_result(good, "%s\n", t->name);
	if (known)
		sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void print_help(void)
{
	size_t i;

	puts("Usage: model [OPTION]...\n"
	     "Compares random lock calls with a model of POSIX and OFD locks.\n\n"
	     "  --ops N      lock calls in all, default 100000; the tests share them and\n"
	     "               round up to whole sequences\n"
	     "  --seed N     of the first sequence of each test, default 1; the next one has\n"
	     "               N + 1; 0 takes another seed each time\n"
	     "  --only TEST  only this test\n"
	     "  --help       print this text\n\n"
	     "The file is made in $TMPDIR or /tmp.\n\n"
	     "Tests:");
	for (i = 0; i < ARRAY_SIZE(tests); i++)
		printf("  %-15s  %s\n", tests[i].name, tests[i].help);
	puts("\nExit status: 0 no difference, 1 a difference or a failure, 2 wrong usage,\n"
	     "4 the kernel lacks something.");
}

static __noreturn void usage(const char *what, const char *value)
{
	fprintf(stderr, "model: %s '%s'; --help explains\n", what, value);
	exit(EXIT_USAGE);
}

static unsigned long long number(const char *what)
{
	unsigned long long n;

	errno = 0;
	n = strtoull(optarg, NULL, 10);
	if (!*optarg || optarg[strspn(optarg, "0123456789")] || errno)
		usage(what, optarg);
	return n;
}

static bool is_chosen(const struct test *t)
{
	return !only || !strcmp(only, t->name);
}

static int count_chosen(void)
{
	size_t i;
	int n = 0;

	for (i = 0; i < ARRAY_SIZE(tests); i++)
		n += is_chosen(&tests[i]);
	return n;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "ops", required_argument, NULL, 'o' },
		{ "seed", required_argument, NULL, 's' },
		{ "only", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'o') {
			ops = number("--ops: no number");
		} else if (c == 's') {
			first_seed = number("--seed: no number");
		} else if (c == 't') {
			only = optarg;
		} else if (c == 'h') {
			print_help();
			exit(EXIT_SUCCESS);
		} else {
			exit(EXIT_USAGE);
		}
	}
	if (optind < argc)
		usage("unexpected argument", argv[optind]);
	if (!count_chosen())
		usage("--only: no such test", only);
	if (!first_seed)
		first_seed = time(NULL) * 1000ULL + getpid() % 1000;
}

/* A new file whose name is gone when this returns. */
static void make_file(void)
{
	const char *dir = getenv("TMPDIR");
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/model.XXXXXX",
		 dir && *dir ? dir : "/tmp");
	file = mkstemp(name);
	if (file < 0)
		ksft_exit_fail_perror(name);
	unlink(name);
	if (ftruncate(file, FILE_SIZE))
		ksft_exit_fail_perror("ftruncate");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
}

/* What the tests need and old or small kernels lack. */
static void probe(void)
{
	struct flock fl = { .l_type = F_WRLCK, .l_len = 1 };
	struct line lines[2 * CELLS];
	int fd = open_again(O_RDWR), n;

	if (fd < 0)
		ksft_exit_skip("%s: %s\n", path, strerror(errno));
	if (fcntl(fd, F_OFD_SETLK, &fl))
		ksft_exit_skip("F_OFD_SETLK: %s\n", strerror(errno));
	n = read_lines(getpid(), fd, lines);
	if (n != 1)
		ksft_exit_skip("/proc/PID/fdinfo does not list locks\n");
	fl.l_type = F_UNLCK;
	own_query = !fcntl(fd, F_OFD_GETLK, &fl);
	close(fd);
}

static void prepare(void)
{
	struct sigaction act = { .sa_handler = child_ended, .sa_flags = SA_RESTART };
	int i;

	controller = getpid();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	for (i = 0; i <= CONTROLLER; i++)
		if (pipe(turn[i]))
			ksft_exit_fail_perror("pipe");
	if (sigaction(SIGCHLD, &act, NULL))
		ksft_exit_fail_perror("sigaction");
}

int main(int argc, char **argv)
{
	size_t i;
	int n;

	parse(argc, argv);
	ksft_print_header();
	make_file();
	probe();
	prepare();
	n = count_chosen();
	ksft_set_plan(n);
	ksft_print_msg("seed %llu\n", (unsigned long long)first_seed);
	if (!own_query)
		ksft_print_msg("F_OFD_GETLK does not take F_UNLCK here and is not asked to\n");
	for (i = 0; i < ARRAY_SIZE(tests); i++)
		if (is_chosen(&tests[i]))
			run_test(&tests[i], (ops + n - 1) / n);
	ksft_finished();
}
