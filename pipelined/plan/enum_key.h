/* enum_key: reads an enumeration key (plan.h), which says what a datum reads. */
#pragma once

#include "storage/base/buf.h"

#include <stdbool.h>

/* One part of a key: the path that the datum reads from one input. */
struct pl_enum_match {
    size_t leaf;      /* number of the input */
    const char *path; /* the path, without a final slash; points into the key */
    size_t path_len;
    bool dir; /* the match is a directory; "" = the whole tree */
};

/* Reads the next part of a key; a key has one part for each input of the datum. Returns false at the end of the key, and for
 * a key that was too long: the plan stores its hash instead. */
bool pl_enum_key_next(struct pl_cursor *c, struct pl_enum_match *ret);
