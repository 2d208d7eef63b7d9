/* source_schedule: interval × 2^failures, bounded, ± 10 %. */
#include "pipelined/source/source_schedule.h"

#include "storage/base/base.h"

int64_t pl_source_wait_ms(int64_t interval_ms, unsigned failures, uint32_t random)
{
    const int64_t most = PL_MAX(interval_ms, (int64_t)PL_SOURCE_BACK_OFF_MAX_MS);
    int64_t wait = interval_ms;

    for (unsigned i = 0; i < failures && wait < most; i++)
        wait = PL_MIN(2 * wait, most);
    return wait + wait * ((int64_t)(random % 201) - 100) / 1000;
}
