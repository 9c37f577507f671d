# SPDX-License-Identifier: GPL-2.0
# The kernels of the harness. A newer version of a package is taken as long as
# the files that the patches change are these blobs; LINUX= replaces a package.
package_7.3  := linux-source-7.3
seen_7.3     := 7.3.4-1~bpo13+1
suites_7.3   := trixie-backports sid
patches_7.3  := 7.3
blobs_7.3    := fs/locks.c=6e4ff7fcec053e8823129d2dea77ec13f4488bc3

package_7.2  := linux-source-7.2
seen_7.2     := 7.2.13-1
suites_7.2   := sid trixie-backports
patches_7.2  := 7.3
blobs_7.2    := fs/locks.c=6e4ff7fcec053e8823129d2dea77ec13f4488bc3

# Debian's own configuration of that kernel, which the perf lane follows
package_config := linux-config-7.3
suites_config  := trixie-backports sid

# stress-ng: suite, and what the loop of its lockofd calls there
stress         := bookworm trixie
kind_bookworm  := F_OFD_GETLK
kind_trixie    := F_OFD_SETLK
