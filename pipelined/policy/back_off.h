/* back_off: how long to wait before another attempt. Pure. */
#pragma once

#include <stdint.h>

/* Returns the wait in ms after failures: `first_ms`, doubled `doublings` times, but at most `most_ms`, which is not less than
 * `first_ms`. `random`: any 32 random bits, which change the wait by up to a tenth, so that those who failed together do not
 * come back together. */
int64_t pl_back_off_ms(int64_t first_ms, int64_t most_ms, unsigned doublings, uint32_t random);
