/* store_marker: the object `format` at the root of every store, with the store's format and id
 * (docs/format.md, "Store marker"). Any thread. */
#pragma once

#include "storage/base/hash.h"
#include "storage/object/object.h"

#define PL_STORE_MARKER_FORMAT    "1"
#define PL_STORE_MARKER_KEY       "format"
#define PL_STORE_MARKER_HASH_NAME "sha256"
#define PL_STORE_MARKER_CHUNKER   "gear64-1"

struct pl_store_marker {
    char format[16];
    char store_id[PL_ID_HEX + 1]; /* 32 lower-case hex digits, chosen at random when the store is made */
    char hash[16];
    char chunker[16];
};

/* Reads the marker. PL_ENOTFOUND if there is none; PL_EFORMAT if this program does not support its format,
 * hash or chunker; PL_ECORRUPT if it is damaged. */
PL_MUST_CHECK
int pl_store_marker_read(struct pl_object_store *s, struct pl_store_marker *ret, struct pl_err *err);
/* Reads the marker, or makes one, durably, in an empty store. PL_EFORMAT if the store has objects but no
 * marker; other errors as in pl_store_marker_read. Two programs that do this at the same time get the same
 * marker. */
PL_MUST_CHECK
int pl_store_marker_init(struct pl_object_store *s, struct pl_store_marker *ret, struct pl_err *err);
/* Returns the store's id as 16 bytes. Errors as in pl_store_marker_read. */
PL_MUST_CHECK
int pl_store_marker_id(struct pl_object_store *s, uint8_t ret[PL_ID_HEX / 2], struct pl_err *err);
