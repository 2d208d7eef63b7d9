/* Computes the thresholds of free disk space and moves between the states of enum pl_disk_space. */
#include "pipelined/policy/disk_space.h"

/* Returns n percent of total_bytes. Divides first so that no disk size overflows. */
static uint64_t percent(uint64_t total_bytes, unsigned n)
{
    return total_bytes / 100 * n + total_bytes % 100 * n / 100;
}

uint64_t pl_disk_space_full_bytes(uint64_t total_bytes)
{
    if (total_bytes < PL_DISK_SPACE_SMALL_DISK_BYTES)
        return total_bytes / PL_DISK_SPACE_SMALL_DISK_SHARE;
    return PL_MAX(PL_DISK_SPACE_FULL_BYTES, percent(total_bytes, PL_DISK_SPACE_FULL_PERCENT));
}

uint64_t pl_disk_space_low_bytes(uint64_t total_bytes)
{
    return PL_MAX(percent(total_bytes, PL_DISK_SPACE_LOW_PERCENT), pl_disk_space_full_bytes(total_bytes));
}

enum pl_disk_space pl_disk_space_next(enum pl_disk_space before, uint64_t free_bytes, uint64_t total_bytes)
{
    const uint64_t full = pl_disk_space_full_bytes(total_bytes), low = pl_disk_space_low_bytes(total_bytes);
    const uint64_t full_ends = full / 8 * PL_DISK_SPACE_FULL_ENDS_EIGHTHS;
    const uint64_t low_ends = PL_MAX(percent(total_bytes, PL_DISK_SPACE_LOW_ENDS_PERCENT), full_ends);

    if (free_bytes < full || (before == PL_ROOM_FULL && free_bytes < full_ends))
        return PL_ROOM_FULL;
    if (free_bytes < low || (before != PL_ROOM_OK && free_bytes < low_ends))
        return PL_ROOM_LOW;
    return PL_ROOM_OK;
}

const char *pl_disk_space_name(enum pl_disk_space room)
{
    static const char *const names[] = {[PL_ROOM_OK] = "ok", [PL_ROOM_LOW] = "low", [PL_ROOM_FULL] = "full"};

    return names[room];
}
