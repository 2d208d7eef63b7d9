/* source_schedule: when a source is looked at next. Pure. */
#pragma once

#include <stdint.h>

#define PL_SOURCE_INTERVAL_MIN_MS 1000
#define PL_SOURCE_INTERVAL_MAX_MS (24 * 3600 * 1000)
#define PL_SOURCE_BACK_OFF_MAX_MS (3600 * 1000) /* longest wait after failures, unless the interval is longer */

/* Returns the wait in ms before the next look. After `failures` looks in a row that did not reach the repository, the
 * interval doubles with each, up to PL_SOURCE_BACK_OFF_MAX_MS. `random`: any 32 random bits, which change the wait by up
 * to a tenth, so that sources with one interval do not stay together. */
int64_t pl_source_wait_ms(int64_t interval_ms, unsigned failures, uint32_t random);
