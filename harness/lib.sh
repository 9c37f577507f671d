# SPDX-License-Identifier: GPL-2.0
# Sourced by every step: words for messages, places in the cache, data files.
# shellcheck shell=sh disable=SC2034 # the steps use what is set here
set -eu
export LC_ALL=C.UTF-8 LANG=C.UTF-8
# The same builder, host and time for every kernel.
export KBUILD_BUILD_USER=filelock KBUILD_BUILD_HOST=guest KBUILD_BUILD_VERSION=1
export KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 2026'
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CFLAGS CPPFLAGS LDFLAGS CROSS_COMPILE

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
cache=${FILELOCK_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/filelock}
kernel=${KERNEL:-7.3}
arch=${ARCH:-x86_64}

say()
{
	printf 'filelock: %s\n' "$*" >&2
}

# Something that is needed could not be had: status 2.
die()
{
	printf 'filelock: error: %s\n' "$*" >&2
	exit 2
}

# data FILE KEY: the value of "KEY := value" in a data file
data()
{
	sed -n "s/^$2[[:space:]]*:=[[:space:]]*//p" "$here/$1"
}

lane=${LANE:-$(data "arch/$arch.mk" lane 2>/dev/null || true)}

known()
{
	[ -f "$here/arch/$arch.mk" ] ||
		die "unknown ARCH=$arch; known: $(cd "$here/arch" && echo *.mk | sed 's/\.mk//g')"
	case $lane in
	perf|arch|debug) ;;
	*) die "unknown LANE=$lane; known: perf arch debug" ;;
	esac
	case ${ACCEL:-auto} in
	auto|kvm|tcg) ;;
	*) die "unknown ACCEL=$ACCEL; known: kvm tcg (default: kvm if it can run our kernel)" ;;
	esac
	case ${BOOTS:-3} in
	*[!0-9]*|[0-2]) die "BOOTS=$BOOTS is not a number from 3: fewer boots prove nothing" ;;
	esac
}

# need_space MIB DIR WHAT: a full disk is found before the work, not after it
need_space()
{
	mkdir -p "$2"
	free=$(df -Pm "$2" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$1" ] ||
		die "$3 needs $1 MiB below $2, $free MiB are free (FILELOCK_CACHE= names another place)"
}

# Where the sources of the kernel under test live: 7.3, or one per LINUX= and BASE=.
kernel_dir()
{
	if [ -n "${LINUX:-}" ]; then
		printf '%s/own-%s\n' "$cache" "$(printf '%s %s' "$(realpath -m -- "$LINUX")" "${BASE:-HEAD}" | sha1sum | cut -c1-12)"
	else
		printf '%s/%s\n' "$cache" "$kernel"
	fi
}

# Only one verb at a time works in the cache; the descriptor is closed by what outlives a step.
lock_cache()
{
	[ -z "${FILELOCK_LOCKED:-}" ] || return 0
	mkdir -p "$cache" 2>/dev/null || die "cannot make the cache folder $cache"
	[ -w "$cache" ] || die "the cache folder $cache is not writable (FILELOCK_CACHE= names another place)"
	exec 9>"$cache/lock"
	if ! flock -n 9; then
		say "another run works in $cache; waiting for it to end"
		flock 9
	fi
	export FILELOCK_LOCKED=1
}

# Asked for, but not so after olddefconfig ("=n" may also be absent).
lost_symbols()
{
	awk 'FNR == NR { if (/^CONFIG_/) asked[$0]; next }
	     { have[$0]; if (/^CONFIG_/) { sub(/=.*/, ""); set[$0] } }
	     END { for (a in asked) {
			name = a; sub(/=.*/, "", name)
			if (a ~ /=n$/ ? name in set : !(a in have)) printf " %s", a } }' "$1" "$2"
}

# series SIDE: which patches it has, and an id of them
series()
{
	if [ "$1" = base ]; then
		echo none
		return
	fi
	set=$(data kernels.mk "patches_$kernel")
	[ "$1" != fix ] || { echo "$set (the first patch)"; return; }
	echo "$set ($(find "$top/patches/$set" -name '*.patch' | wc -l) patches, $(cat "$top/patches/$set"/*.patch | sha1sum | cut -c1-12))"
}

prefix()
{
	data "arch/$arch.mk" prefix
}

# The objects of one side: a folder inside its sources, so that kbuild's paths
# are relative and the objects of base serve patched too.
objects()
{
	echo "$(kernel_dir)/$1/o.$lane-$arch-gcc$("$(prefix)gcc" -dumpfullversion)"
}

# kbuild SIDE ARG...
kbuild()
{
	side=$1
	shift
	setpriv --pdeathsig TERM make -C "$(kernel_dir)/$side" O="$(objects "$side")" ARCH="$(data "arch/$arch.mk" kernel_arch)" \
		CROSS_COMPILE="$(prefix)" LOCALVERSION="-$side" -j"$(nproc)" "$@"
}

qemu()
{
	echo "${QEMU:-$(data "arch/$arch.mk" qemu)}"
}

# What both QEMU calls of the harness share: machine, memory, kernel; the rest is the caller's.
# guest ACCELERATOR IMAGE INITRD APPEND
guest()
{
	cpu=$(data "arch/$arch.mk" cpu)
	size='-smp 1 -m 768' checks=
	[ "$lane" != debug ] || size='-smp 2 -m 2048' checks='panic_on_warn=1 oops=panic hung_task_panic=1 '
	case $1 in
	kvm) set -- "-accel kvm -cpu host" "$2" "$3" "$4" ;;
	tcg-icount) set -- "-accel tcg -icount shift=0 -cpu $cpu" "$2" "$3" "$4" ;;
	tcg) set -- "-accel tcg -cpu $cpu" "$2" "$3" "$4" ;;
	esac
	cat <<-END
	$(qemu) -M $(data "arch/$arch.mk" machine) $1 $size \\
	  -nodefaults -no-user-config -display none -no-reboot \\
	  -kernel '$2' -initrd '$3' \\
	  -append 'console=$(data "arch/$arch.mk" console) panic=-1 loglevel=4 $checks$4'
	END
}
