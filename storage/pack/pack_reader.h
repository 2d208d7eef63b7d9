/* pack_reader: reads and verifies the footer, single records, or all of a pack, from memory, a file or
 * another input. All bytes are treated as untrusted. Any thread may call these functions, but only one thread
 * at a time may use the same input. */
#pragma once

#include "storage/base/buf.h"
#include "storage/pack/pack_format.h"

/* A source of one pack's bytes. `read` reads exactly `n` bytes from `offset`, or fails. */
struct pl_pack_input {
    void *self;
    int (*read)(void *self, uint64_t offset, void *out, size_t n, struct pl_err *err);
    uint64_t size;
};
struct pl_pack_memory {
    const void *bytes;
    size_t size;
};
/* Returns an input for a pack in memory. `m` must outlive the input. */
struct pl_pack_input pl_pack_input_memory(const struct pl_pack_memory *m);
/* Returns an input for a pack in an open file. `fd` must outlive the input. */
struct pl_pack_input pl_pack_input_fd(const int *fd, uint64_t size);

struct pl_pack_footer {
    struct pl_hash pack_id;
    struct pl_pack_header header;
    uint32_t count;
    struct pl_pack_entry *entries; /* ascending by id; owned */
    uint32_t *order;               /* numbers of the entries in order of offset; owned */
    uint64_t footer_offset;
    uint64_t records_xxh64;
};
void pl_pack_footer_finish(struct pl_pack_footer *f);

/* Reads and checks trailer and footer: the hash, the order of the entries, and that the records fill the
 * space before the footer without gaps. Free the result with pl_pack_footer_finish. PL_ECORRUPT, PL_EFORMAT,
 * PL_ETOOBIG, and errors of the input. */
PL_MUST_CHECK
int pl_pack_footer_read(const struct pl_pack_input *in, struct pl_pack_footer *ret, struct pl_err *err);
/* Returns PL_ETOOBIG if the uncompressed sizes of all records together exceed `max` bytes. */
PL_MUST_CHECK
int pl_pack_footer_check_raw(const struct pl_pack_footer *f, uint64_t max, struct pl_err *err);
/* Returns the entry of `id`; NULL if the pack does not contain it. */
const struct pl_pack_entry *pl_pack_footer_find(const struct pl_pack_footer *f, const struct pl_hash *id);

/* Reads one record's raw bytes into `ret`, replacing its content, and verifies them against the id.
 * PL_ECORRUPT, and errors of the input. */
PL_MUST_CHECK
int pl_pack_record_read(const struct pl_pack_input *in, const struct pl_pack_entry *e, struct pl_buf *ret, struct pl_err *err);
/* Verifies a record in memory (its head and stored bytes, PL_PACK_RECORD_BYTES + e->stored in all). `*ret` receives
 * where its e->raw raw bytes are: in `record`, or, if they are compressed there, in `scratch`, whose content is
 * replaced. PL_ECORRUPT. */
PL_MUST_CHECK
int pl_pack_record_view(const uint8_t *record, const struct pl_pack_entry *e, struct pl_buf *scratch, const uint8_t **ret,
                        struct pl_err *err);
/* Decodes and verifies a record in memory, as pl_pack_record_view does, into `ret`, replacing its content.
 * PL_ECORRUPT. */
PL_MUST_CHECK
int pl_pack_record_decode(const uint8_t *record, const struct pl_pack_entry *e, struct pl_buf *ret, struct pl_err *err);

/* Options of pl_pack_verify. `project` and `claimed`: the project and the pack id that the pack must have;
 * NULL = not checked. `bad`, if not NULL, is called for each record that fails verification; checking
 * continues, and the result is still the first error. */
struct pl_pack_verify {
    const char *project;
    const struct pl_hash *claimed;
    void (*bad)(void *arg, const struct pl_pack_entry *e, const struct pl_err *why);
    void *arg;
    /* limit for the uncompressed bytes of all records, checked before decompression (PL_ETOOBIG); 0 = no
     * limit */
    uint64_t raw_max;
    /* verify half of a large pack on a second thread; the input's `read` is then called by two threads at the
     * same time. Ignored if `bad` is set */
    bool two_threads;
    /* check only the header, the footer and the checksum of the records' bytes; decode no record. That finds damage
     * after the pack was closed, not a record that was wrong before */
    bool sum_only;
};
PL_MUST_CHECK
int pl_pack_verify(const struct pl_pack_input *in, const struct pl_pack_verify *how, struct pl_pack_footer *ret,
                   struct pl_err *err);
