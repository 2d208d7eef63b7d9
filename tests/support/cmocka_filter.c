/* Part of every C test: PL_TEST names the one test function to run, as `sh tests/run.sh unit -k PROGRAM:FUNCTION` does. "*" and "?" match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static __attribute__((constructor)) void choose(void)
{
    const char *name = getenv("PL_TEST");

    if (name && *name)
        cmocka_set_test_filter(name);
}
