/* clock_trust: what time it is for whatever takes data away. A wall clock that jumps ahead would make everything old at once.
 *
 * Time that is trusted is a line: it starts at what the daemon last knew (the newest log record before its start), and rises as the clock
 * that counts since boot does. The wall clock may be behind it, or ahead by a little; when it is further ahead it is doubted, until it
 * comes back or somebody who may says that it is right.
 *
 *   wall − line:   … ≤ 0 ──▶ the wall's    ≤ slack ──▶ the wall's, and the line is moved there    > slack ──▶ doubted: the line's
 *
 * The slack is PL_CLOCK_DOWN_US for the time that the daemon was not running, PL_CLOCK_JUMP_US from then on. Any thread. */
#pragma once

#include "storage/base/err.h"

#define PL_CLOCK_DOWN_US (7LL * 24 * 3600 * 1000000)
#define PL_CLOCK_JUMP_US (3600LL * 1000000)

struct pl_clock_trust;

struct pl_clock_view {
    int64_t now_us;  /* trusted */
    int64_t wall_us; /* what the clock of the machine says */
    bool doubted;
};

/* `known_us`: the newest time that is known of; 0 = none, the wall clock is believed. */
PL_MUST_CHECK
int pl_clock_trust_create(int64_t known_us, struct pl_clock_trust **ret, struct pl_err *err);
struct pl_clock_view pl_clock_trust_look(struct pl_clock_trust *t);
/* The time that has passed for sure: since `known_us` what the clock since boot counted; never the time that the daemon was not running.
 * For what is dropped when it was left idle. */
int64_t pl_clock_trust_passed_us(struct pl_clock_trust *t);
/* The wall clock is right. */
void pl_clock_trust_believe(struct pl_clock_trust *t);
/* NULL is fine. */
struct pl_clock_trust *pl_clock_trust_destroy(struct pl_clock_trust *t);
/* PL_ECONFIRM with both times and the way out, when it is doubted; else 0. */
PL_MUST_CHECK
int pl_clock_trust_check(const struct pl_clock_view *now, struct pl_err *err);
