/* pack_reader: footers, records and whole packs from wherever their bytes are, nothing believed. Any thread, one at a time per
 * input. */
#pragma once

#include "storage/base/buf.h"
#include "storage/pack/pack_format.h"

/* Bytes of one pack: `read` gives exactly `n` from `offset` or fails. */
struct pl_pack_input {
    void *self;
    int (*read)(void *self, uint64_t offset, void *out, size_t n, struct pl_err *err);
    uint64_t size;
};
struct pl_pack_memory {
    const void *bytes;
    size_t size;
};
/* A pack in memory. `m` outlives the input. */
struct pl_pack_input pl_pack_input_memory(const struct pl_pack_memory *m);
/* A pack in an open file; `fd` outlives the input. */
struct pl_pack_input pl_pack_input_fd(const int *fd, uint64_t size);

struct pl_pack_footer {
    struct pl_hash pack_id;
    struct pl_pack_header header;
    uint32_t count;
    struct pl_pack_entry *entries; /* ascending by id */
    uint32_t *order;               /* entries by offset */
    uint64_t footer_offset;
    uint64_t records_xxh64;
};
void pl_pack_footer_finish(struct pl_pack_footer *f);

/* Reads and checks trailer and footer: hash, order, that the records lie one behind the other and fill the space before the
 * footer. PL_ECORRUPT, PL_EFORMAT, PL_ETOOBIG, the input's errors. */
PL_MUST_CHECK
int pl_pack_footer_read(const struct pl_pack_input *in, struct pl_pack_footer *ret, struct pl_err *err);
/* PL_ETOOBIG when its records have more than `max` bytes inflated. */
PL_MUST_CHECK
int pl_pack_footer_check_raw(const struct pl_pack_footer *f, uint64_t max, struct pl_err *err);
/* The entry of an id, NULL when it is not in the pack. */
const struct pl_pack_entry *pl_pack_footer_find(const struct pl_pack_footer *f, const struct pl_hash *id);

/* One record's raw bytes, verified against its id, into `ret` (replacing what it held). PL_ECORRUPT. */
PL_MUST_CHECK
int pl_pack_record_read(const struct pl_pack_input *in, const struct pl_pack_entry *e, struct pl_buf *ret, struct pl_err *err);
/* The same from the record's bytes in memory: head and stored bytes, of PL_PACK_RECORD_BYTES + e->stored. */
PL_MUST_CHECK
int pl_pack_record_decode(const uint8_t *record, const struct pl_pack_entry *e, struct pl_buf *ret, struct pl_err *err);

/* Verifies every byte. `project` (may be NULL) and `claimed` (may be NULL) are what the pack must say of itself. `bad` (may be
 * NULL) is called for each record that does not verify, and checking goes on; the result is the first error all the same. `ret`
 * (may be NULL) gets the footer on success. */
struct pl_pack_verify {
    const char *project;
    const struct pl_hash *claimed;
    void (*bad)(void *arg, const struct pl_pack_entry *e, const struct pl_err *why);
    void *arg;
    uint64_t raw_max; /* of all records inflated, PL_ETOOBIG before any is; 0 = no bound */
    bool two_threads; /* the input may be read by two: half of a large pack is verified by another thread; not with `bad` */
};
PL_MUST_CHECK
int pl_pack_verify(const struct pl_pack_input *in, const struct pl_pack_verify *how, struct pl_pack_footer *ret,
                   struct pl_err *err);
