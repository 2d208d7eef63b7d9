/* disk_space: how full the disk of a store may become. This header defines all thresholds of free space.
 *
 *   ok ──below 10 %──▶ low ──below max(1 GiB, 2 %)──▶ full          full: pushes are refused, running jobs finish
 *    ◀──from 12 % on──      ◀──from 9/8 of that on──                below 4 MiB: the database logs nothing
 *
 * On a disk smaller than 2 GiB the limit of 1 GiB would refuse nearly every push, so the state is full only when less
 * than an eighth of that disk is free. The functions are pure. */
#pragma once

#include "storage/base/base.h"

#define PL_DISK_SPACE_LOW_PERCENT      10 /* low when less than this percentage is free */
#define PL_DISK_SPACE_LOW_ENDS_PERCENT 12 /* low ends when this percentage is free */
#define PL_DISK_SPACE_FULL_PERCENT     2  /* full when less than this percentage is free */
/* full also when fewer bytes than this are free: pushes are refused */
#define PL_DISK_SPACE_FULL_BYTES        ((uint64_t)1 << 30)
#define PL_DISK_SPACE_FULL_ENDS_EIGHTHS 9                   /* full ends at this many eighths of the full threshold */
#define PL_DISK_SPACE_SMALL_DISK_BYTES  ((uint64_t)2 << 30) /* disks below this size use PL_DISK_SPACE_SMALL_DISK_SHARE */
#define PL_DISK_SPACE_SMALL_DISK_SHARE  8                   /* a small disk is full when less than 1/8 of it is free */
/* Free bytes below which the database logs nothing: a COMMIT may have to write the whole page cache, which holds 2 MiB,
 * to the same disk. */
#define PL_DISK_SPACE_LOG_BYTES ((uint64_t)4 << 20)

enum pl_disk_space { PL_ROOM_OK, PL_ROOM_LOW, PL_ROOM_FULL };

/* Returns the number of free bytes below which a disk of `total_bytes` is full. */
uint64_t pl_disk_space_full_bytes(uint64_t total_bytes);
/* Returns the number of free bytes below which a disk of `total_bytes` is low; at least pl_disk_space_full_bytes(). */
uint64_t pl_disk_space_low_bytes(uint64_t total_bytes);
/* Returns the new state of a disk that was in state `before` and now has `free_bytes` free. */
enum pl_disk_space pl_disk_space_next(enum pl_disk_space before, uint64_t free_bytes, uint64_t total_bytes);
/* Returns "ok", "low" or "full"; a static string. */
const char *pl_disk_space_name(enum pl_disk_space room);
