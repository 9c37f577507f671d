// SPDX-License-Identifier: GPL-2.0
/*
 * Time fcntl_getlk() and fcntl_setlk() inside a user-mode Linux without SMP.
 *
 * Built into the kernel by harness/native, never part of the series. There is no system
 * call and no emulator in what is timed: this is the C code of fs/locks.c on the CPU of
 * the host, on a file in the initial root filesystem. Runs as the last of the initcalls,
 * prints what lock_bench prints, in the records of guest/init.c, to the host's standard
 * output, and powers off. An answer that is wrong ends it without the end marker.
 */
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/filelock.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/panic.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/sort.h>
#include <linux/utsname.h>
#include <os.h>

#define SAMPLES 25
#define SAMPLE_NS 10000000ULL	/* what a sample takes, at least */

static struct file *file, *other;
static int fd;
static bool wrong;

static void __printf(1, 2) say(const char *format, ...)
{
	char line[160];
	va_list args;
	int len;

	va_start(args, format);
	len = vscnprintf(line, sizeof(line), format, args);
	va_end(args);
	os_write_file(1, line, len);
}

/* Not on the stack, where clearing it would be part of what is timed. */
static struct flock fl;

static void fill(short type, loff_t start, loff_t len)
{
	fl.l_type = type;
	fl.l_whence = SEEK_SET;
	fl.l_start = start;
	fl.l_len = len;
	fl.l_pid = 0;
}

/* 0, or what is wrong with the answer */
static int getlk(unsigned int cmd, loff_t start, short answer)
{
	fill(F_WRLCK, start, 1);
	return fcntl_getlk(file, cmd, &fl) || fl.l_type != answer;
}

static int setlk_len(struct file *filp, unsigned int cmd, short type, loff_t start, loff_t len)
{
	fill(type, start, len);
	return fcntl_setlk(fd, filp, cmd, &fl);
}

static int setlk(unsigned int cmd, short type)
{
	return setlk_len(file, cmd, type, 0, 1);
}

static int pair(unsigned int cmd)
{
	return setlk(cmd, F_WRLCK) | setlk(cmd, F_UNLCK);
}

static int hole(void)
{
	return setlk_len(file, F_SETLK, F_UNLCK, 100, 1) | setlk_len(file, F_SETLK, F_WRLCK, 100, 1);
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* picoseconds as nanoseconds with three decimals */
#define NS(ps) (ps) / 1000, (ps) % 1000

static void print(const char *op, int calls, u64 loops, u64 *ps)
{
	sort(ps, SAMPLES, sizeof(*ps), compare, NULL);
	say("| %s\t0\t%d\t%d\t%llu\t%llu.%03llu\t%llu.%03llu\t%llu.%03llu\n", op, calls, SAMPLES,
	    loops, NS(ps[0]), NS(ps[SAMPLES / 2]), NS(ps[SAMPLES - 1]));
}

#define TIME(loops, call) ({						\
	u64 from = os_nsecs();						\
									\
	for (u64 n = 0; n < (loops); n++)				\
		wrong |= !!(call);					\
	os_nsecs() - from;						\
})

#define MEASURE(op, calls, call) do {					\
	u64 loops = 1000, ps[SAMPLES];					\
									\
	while (TIME(loops, call) < SAMPLE_NS)				\
		loops *= 2;						\
	for (int i = 0; i < SAMPLES; i++)				\
		ps[i] = TIME(loops, call) * 1000 / loops;		\
	print(op, calls, loops, ps);					\
} while (0)

static void measure(void)
{
	MEASURE("getlk_unlocked", 1, getlk(F_GETLK, 0, F_UNLCK));
	MEASURE("ofd_getlk_unlocked", 1, getlk(F_OFD_GETLK, 0, F_UNLCK));
	wrong |= !!setlk_len(other, F_OFD_SETLK, F_WRLCK, 1000, 1);
	MEASURE("getlk_unrelated", 1, getlk(F_GETLK, 0, F_UNLCK));
	MEASURE("getlk_conflict", 1, getlk(F_GETLK, 1000, F_WRLCK));
	MEASURE("setlk_conflict", 1, setlk_len(file, F_SETLK, F_WRLCK, 1000, 1) != -EAGAIN);
	wrong |= !!setlk_len(other, F_OFD_SETLK, F_UNLCK, 1000, 1);
	MEASURE("setlk_pair", 2, pair(F_SETLK));
	MEASURE("ofd_setlk_pair", 2, pair(F_OFD_SETLK));
	MEASURE("setlk_unlock", 1, setlk(F_SETLK, F_UNLCK));
	wrong |= !!setlk_len(file, F_SETLK, F_WRLCK, 0, 1000);
	MEASURE("setlk_split", 2, hole());
	wrong |= !!setlk_len(file, F_SETLK, F_UNLCK, 0, 0);
	/* what close() does about the locks of a file that has none */
	MEASURE("close_unlocked", 1, (locks_remove_posix(other, current->files), 0));
}

static int __init lock_loop(void)
{
	file = filp_open("/lock_loop", O_RDWR | O_CREAT, 0600);
	other = filp_open("/lock_loop", O_RDWR, 0);
	fd = get_unused_fd_flags(O_CLOEXEC);
	say("filelock-guest 1\nkernel %s %s\nplan 1 bench\nbegin bench bench 60\n",
	    utsname()->release, utsname()->machine);
	if (!IS_ERR(file) && !IS_ERR(other) && fd >= 0) {
		/* fcntl_setlk() looks up whether the descriptor is still that file */
		fd_install(fd, get_file(file));
		say("| lock_bench\t1\n| op\tlocks\tcalls\tsamples\tloops\tns_min\tns_median\tns_max\n");
		measure();
		say("| lock_bench\tend\nend bench exit %d 0\n", wrong);
		say("check taint %lu\ncheck splats 0\ncheck leaks skipped\nfilelock-end 1 1\n",
		    get_taint());
	}
	kernel_power_off();
	return 0;
}
late_initcall_sync(lock_loop);
