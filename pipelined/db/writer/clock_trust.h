/* clock_trust: the time that every deletion by age relies on. A wall clock that jumps ahead would make everything
 * old at once.
 *
 * Trusted time is a line: it starts at the newest time that the daemon knew before its start (from the newest log
 * record), and rises with CLOCK_BOOTTIME. The wall clock may be behind the line, or ahead of it by at most the
 * slack. When it is further ahead, the wall clock is doubted until it returns within the slack or an administrator
 * confirms it (pl_clock_trust_believe).
 *
 *   wall − line   < 0      use the wall clock
 *                 ≤ slack  use the wall clock and move the line there
 *                 > slack  the wall clock is doubted: use the line
 *
 * The slack is PL_CLOCK_DOWN_US at the start, for the time that the daemon was not running, and PL_CLOCK_JUMP_US
 * after the line first moved. Any thread. */
#pragma once

#include "storage/base/err.h"

#define PL_CLOCK_DOWN_US (7LL * 24 * 3600 * 1000000)
#define PL_CLOCK_JUMP_US (3600LL * 1000000)

struct pl_clock_trust;

struct pl_clock_view {
    int64_t now_us;  /* trusted time */
    int64_t wall_us; /* the machine's wall clock */
    bool doubted;
};

/* Creates a clock whose line starts at `known_us`, the newest known time; 0 = no time is known, believe the wall
 * clock. */
PL_MUST_CHECK
int pl_clock_trust_create(int64_t known_us, struct pl_clock_trust **ret, struct pl_err *err);
struct pl_clock_view pl_clock_trust_look(struct pl_clock_trust *t);
/* Returns a time that is never ahead of the real time: `known_us` plus the CLOCK_BOOTTIME elapsed since
 * create. The time during which the daemon was not running does not count. Use it to delete what has been
 * idle for long. */
int64_t pl_clock_trust_passed_us(struct pl_clock_trust *t);
/* Accepts the wall clock as right and moves the line to it. */
void pl_clock_trust_believe(struct pl_clock_trust *t);
/* Frees the clock. NULL is allowed. */
struct pl_clock_trust *pl_clock_trust_destroy(struct pl_clock_trust *t);
/* Returns 0, or PL_ECONFIRM when the clock is doubted; the message gives both times and how to confirm the clock. */
PL_MUST_CHECK
int pl_clock_trust_check(const struct pl_clock_view *now, struct pl_err *err);
