/* alloc_jansson: jansson's parser does not survive a failing allocation (2.14: an assertion in lex_unget_unsave when a character found no
 * room). For alloc_faults.h a text is parsed with one allocation: all of it fails or none. */
#pragma once

#include "tests/support/faults/alloc_faults.h"

#include <jansson.h>

ALLOC_PUBLIC json_t *json_loadb(const char *text, size_t n, size_t flags, json_error_t *error)
{
    json_t *(*real)(const char *, size_t, size_t, json_error_t *);
    bool was = alloc_spared, fails = alloc_hit();
    json_t *value;

    if (fails) { /* told as jansson's own would be */
        json_malloc_t its_malloc;

        json_get_alloc_funcs(&its_malloc, NULL);
        alloc_doomed = true;
        return its_malloc(1);
    }
    alloc_spared = true;
    *(void **)&real = dlsym(RTLD_NEXT, "json_loadb");
    value = real(text, n, flags, error);
    alloc_spared = was;
    return value;
}

ALLOC_PUBLIC json_t *json_loads(const char *text, size_t flags, json_error_t *error)
{
    return json_loadb(text, strlen(text), flags, error);
}
