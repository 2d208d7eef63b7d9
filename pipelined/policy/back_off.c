/* back_off: first × 2^doublings, bounded, ± 10 %. */
#include "pipelined/policy/back_off.h"

#include "storage/base/base.h"

int64_t pl_back_off_ms(int64_t first_ms, int64_t most_ms, unsigned doublings, uint32_t random)
{
    int64_t wait = first_ms;

    for (unsigned i = 0; i < doublings && wait < most_ms; i++)
        wait = PL_MIN(2 * wait, most_ms);
    return wait + wait * ((int64_t)(random % 201) - 100) / 1000;
}
