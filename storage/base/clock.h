/* clock: the two clocks of a machine. Monotonic for leases and timeouts, wall for display and retention; never compared across hosts. */
#pragma once

#include "storage/base/base.h"

int64_t pl_clock_mono_ms(void);
int64_t pl_clock_mono_us(void);
int64_t pl_clock_wall_us(void);
/* "2026-11-21T10:04:05Z" into out[32]; returns `out`. */
char *pl_clock_text(int64_t wall_us, char out[32]);
/* "90s", "10m", "1h30m", "500ms" → ms. PL_EINVAL names what is accepted. */
struct pl_err;
PL_MUST_CHECK
int pl_duration_parse(const char *text, int64_t *ret_ms, struct pl_err *err);
/* 1234 → "1.2s", 90000 → "1m30s"; returns `out`. */
char *pl_duration_text(int64_t ms, char out[32]);
