# SPDX-License-Identifier: GPL-2.0
kernel_arch := x86_64
lane        := perf
prefix      :=
gcc_package := gcc
libc        := libc6-dev
image       := arch/x86/boot/bzImage
qemu        := qemu-system-x86_64
qemu_package := qemu-system-x86
machine     := q35
cpu         := Skylake-Server
console     := ttyS0
