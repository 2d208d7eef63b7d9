/* clock: the monotonic clock, for leases and timeouts, and the wall clock, for display and retention. Times
 * of different hosts are never compared. Also parses and formats durations. Any thread. */
#pragma once

#include "storage/base/base.h"

int64_t pl_clock_mono_ms(void);
int64_t pl_clock_mono_us(void);
int64_t pl_clock_wall_us(void);
/* Formats a wall time in microseconds as UTC, "2026-11-21T10:04:05Z"; "?" if it is out of range. Returns
 * `out`. */
char *pl_clock_text(int64_t wall_us, char out[32]);
/* Parses a duration such as "90s", "10m", "1h30m", "500ms" or "0" into milliseconds. PL_EINVAL, with a
 * message that lists the accepted forms. */
struct pl_err;
PL_MUST_CHECK
int pl_duration_parse(const char *text, int64_t *ret_ms, struct pl_err *err);
/* Formats milliseconds for people: 1234 becomes "1.2s", 90000 becomes "1m30s". Returns `out`. */
char *pl_duration_text(int64_t ms, char out[32]);
