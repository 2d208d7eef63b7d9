/* marker: the object `format` at the root of every store: which format, which store. docs/format.md "Store marker". */
#pragma once

#include "storage/base/hash.h"
#include "storage/object/object.h"

#define PL_STORE_MARKER_FORMAT    "1"
#define PL_STORE_MARKER_KEY       "format"
#define PL_STORE_MARKER_HASH_NAME "sha256"
#define PL_STORE_MARKER_CHUNKER   "gear64-1"

struct pl_store_marker {
    char format[16];
    char store_id[PL_ID_HEX + 1]; /* 32 lower-case hex digits, drawn once */
    char hash[16];
    char chunker[16];
};

/* Reads the marker. PL_ENOTFOUND when there is none, PL_EFORMAT when it is of a format, hash or chunker that this program does
 * not know, PL_ECORRUPT when it is no marker. */
PL_MUST_CHECK
int pl_store_marker_read(struct pl_object_store *s, struct pl_store_marker *ret, struct pl_err *err);
/* Reads the marker, or makes one (durable when this returns) in a store that holds nothing. PL_EFORMAT when there are objects but
 * no marker; else as read. Two programs that do it at once get the same marker. */
PL_MUST_CHECK
int pl_store_marker_init(struct pl_object_store *s, struct pl_store_marker *ret, struct pl_err *err);
/* The store's id as 16 bytes. Errors as read. */
PL_MUST_CHECK
int pl_store_marker_id(struct pl_object_store *s, uint8_t ret[PL_ID_HEX / 2], struct pl_err *err);
