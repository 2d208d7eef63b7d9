/* source_schedule: the interval, backed off. */
#include "pipelined/source/source_schedule.h"

#include "pipelined/policy/back_off.h"
#include "storage/base/base.h"

int64_t pl_source_wait_ms(int64_t interval_ms, unsigned failures, uint32_t random)
{
    return pl_back_off_ms(interval_ms, PL_MAX(interval_ms, (int64_t)PL_SOURCE_BACK_OFF_MAX_MS), failures, random);
}
