/* s3_seeds: runs of a test by seeds, several at a time, each in a process of its own: most of their time is waiting.
 *
 * PL_S3_SEEDS: so many where 40 are usual, and in that proportion elsewhere. PL_S3_SEED: the first; then it alone, in this process, unless PL_S3_SEEDS
 * says more. */
#pragma once

#include "tests/support/fixtures/store_fixture.h"

#include <sys/wait.h>

#define SEEDS_AT_ONCE 4

/* Children of the test: who fails says so in its own output and ends with a status that is not 0. */
static UNUSED void run_seeds(uint64_t usual, void (*one)(uint64_t seed))
{
    const char *many = getenv("PL_S3_SEEDS"), *first = getenv("PL_S3_SEED");
    const uint64_t from = first != NULL ? strtoull(first, NULL, 10) : 1, n = many != NULL
                                                                                 ? strtoull(many, NULL, 10) * usual / 40 + 1
                                                                             : first != NULL ? 1
                                                                                             : usual;
    pid_t children[SEEDS_AT_ONCE];

    if (n == 1) {
        one(from);
        return;
    }
    fflush(NULL);
    for (unsigned k = 0; k < SEEDS_AT_ONCE; k++) {
        children[k] = fork();
        assert_true(children[k] >= 0);
        if (children[k] > 0)
            continue;
        for (uint64_t seed = from + k; seed < from + n; seed += SEEDS_AT_ONCE)
            one(seed);
        exit(0);
    }
    for (unsigned k = 0; k < SEEDS_AT_ONCE; k++) {
        int status = -1;

        assert_int_equal(waitpid(children[k], &status, 0), children[k]);
        if (status != 0)
            fail_msg("a seed failed: status %d; see above", status);
    }
}
