/* disk_room: how full the disk of a store may become. All numbers about it are here.
 *
 *   ok ──below 10 %──▶ low ──below max(1 GiB, 2 %)──▶ full          full: no pushes, running jobs finish
 *    ◀──from 12 % on──      ◀──from an eighth more on──             below 4 MiB: nothing is logged (pl_db)
 *
 * A disk of less than 2 GiB would have no room for a push below the first mark: there an eighth of it stays free, not 1 GiB. Pure. */
#pragma once

#include "storage/base/base.h"

#define PL_DISK_SPACE_LOW_PERCENT       10 /* less free than that: it is said */
#define PL_DISK_SPACE_LOW_ENDS_PERCENT  12
#define PL_DISK_SPACE_FULL_PERCENT      2                   /* less free than that, */
#define PL_DISK_SPACE_FULL_BYTES        ((uint64_t)1 << 30) /* or than that: pushes are refused, */
#define PL_DISK_SPACE_FULL_ENDS_EIGHTHS 9                   /* until there are so many eighths of it */
#define PL_DISK_SPACE_SMALL_DISK_BYTES  ((uint64_t)2 << 30) /* a disk smaller than that keeps */
#define PL_DISK_SPACE_SMALL_DISK_SHARE  8                   /* this part of it free */
/* Left on the disk of the database, else nothing at all is logged: a COMMIT writes what the page cache holds, 2 MiB. */
#define PL_DISK_SPACE_LOG_BYTES ((uint64_t)4 << 20)

enum pl_disk_space { PL_ROOM_OK, PL_ROOM_LOW, PL_ROOM_FULL };

/* Below so many free bytes a disk of `total_bytes` is full. */
uint64_t pl_disk_space_full_bytes(uint64_t total_bytes);
/* Below so many it is low; never less than what is full. */
uint64_t pl_disk_space_low_bytes(uint64_t total_bytes);
/* How it stands, when it stood at `before` and now has so much free. */
enum pl_disk_space pl_disk_space_next(enum pl_disk_space before, uint64_t free_bytes, uint64_t total_bytes);
/* "ok", "low", "full". */
const char *pl_disk_space_name(enum pl_disk_space room);
