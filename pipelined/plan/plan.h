/* plan: Which datums a job has, in full or from a base commit, and their keys. Pure.
 *
 * In:      A stage and the trees of its inputs.
 * Out:     Datums in order; the datum table.
 * Uses:    spec, text, storage/tree
 * Threads: Storage pool; reads nodes through pl_node_source.
 *
 * Headers for other rooms:
 *   datum_identity  code identity, datum id and datum key
 *   datum_table     row formats of the datum table and the owner table
 *   plan_json       a datum's inputs as JSON for the worker
 *
 * Inside:
 *   plan_change     datums affected by changed matches
 *   plan_diff       matches that changed since the base commit
 *   plan_leaf       matches of one input
 *   plan_retry      datums that failed in the base commit and run again */

/* plan: the datums of a stage over given commits. In full: walk each input's tree, match, take the product: the oracle. From a base,
 * over whose roots the very same stage was planned before (partial): only the datums that the difference of the trees touches are
 * there, at the cost of those; all others are as they were (plan_change.h).
 *
 * Order ("spec order"): of a cross the product of its inputs as they stand in the spec, the first the slowest; of a union the datums of
 * its inputs one after the other; within an input, paths by bytes with a directory where its first file is ("a!b", then directory a
 * as "a/", then "a/x"); within `params`, the bytes of the combinations' canonical JSON.
 *
 *   enumeration key  per input that the datum has, in order: its number (u16 big-endian), the path of the match, '/' when it is a directory below the
 * root, 0x00 (of `params` the canonical JSON is the path). Ascending in spec order. Longer than PL_ENUM_KEY_MAX: 0xFF and the SHA-256 of that. datum id, key    identity.h
 *
 * Memory: 32 bytes and 4 an input for a datum, 64 bytes and the path (and 4 a capture) for a match. A plan does not change once
 * made: any thread may read it. */
#pragma once

#include "pipelined/plan/datum_identity.h"
#include "pipelined/spec/spec.h"
#include "pipelined/text/glob.h"
#include "storage/tree/tree.h"

#define PL_DATUMS_MAX         (1u << 24)
#define PL_ENUM_KEY_MAX       1000u
#define PL_PLAN_NO_PICK       UINT32_MAX /* the datum has no such input */
#define PL_PLAN_DEFAULT_BYTES ((size_t)4 << 30)

/* Where a leaf input is read: the tree root of its commit (zero: nothing there yet) and its nodes. Not looked at for `params`. */
struct pl_plan_input {
    struct pl_hash root;
    const struct pl_node_source *source;
};

struct pl_plan_request {
    const struct pl_stage *stage;       /* must outlive the plan */
    const struct pl_plan_input *inputs; /* one per stage->leaves */
    struct pl_hash code_identity;       /* pl_stage_code_identity */
    size_t max_bytes;                   /* 0 = PL_PLAN_DEFAULT_BYTES */
    /* Partial: one root per leaf, planned over before by a stage with the same input and the same cache; NULL: in full. */
    const struct pl_hash *base;
    size_t base_datums;                       /* how many there were then */
    const struct pl_node_source *base_source; /* of the base's owner tree (table.h) */
    struct pl_hash base_owner;                /* its failed datums are planned again */
};

/* Where a match of a partial plan stands. */
enum { PL_MATCH_OLD = 1, PL_MATCH_NEW = 2, PL_MATCH_CHANGED = 4 /* new, or with another content than before */ };

/* One match of one input. */
struct pl_plan_match {
    struct pl_hash content; /* of the file, or of the directory's files that `files` takes (tree/content_id.h) */
    const char *path; /* without leading slash; NUL-terminated; of `params` the combination's JSON, match i is combination i */
    const struct pl_span *captures;
    uint16_t path_len;
    uint8_t kind; /* PL_KIND_FILE, EXEC, LINK, or PL_KIND_DIR */
    uint8_t is;   /* PL_MATCH_…; 0 in a full plan */
};

struct pl_plan_leaf {
    struct pl_plan_match *matches;
    size_t n;
};

struct pl_plan {
    const struct pl_stage *stage;
    size_t n_leaves;
    struct pl_plan_leaf *leaves;
    size_t n_datums;
    struct pl_hash *keys; /* datum keys, one per datum */
    uint32_t *picks;      /* n_leaves per datum, gone ones too: index into leaves[i].matches, or PL_PLAN_NO_PICK */
    bool partial;         /* its datums are those that are new, have another key than in the base, or failed there */
    size_t n_gone;        /* datums of the base that are no more, numbered from n_datums on: everything but a key */
    size_t n_total;       /* of the job: with those that are as they were */
    struct pl_arena *arena;
    struct pl_template *prefix;
};

/* No input, or a cross of an input without a match: a plan of no datums; a `previous` input without a file has one, of content zero.
 * PL_ELIMIT past PL_DATUMS_MAX (with the factors) or max_bytes; errors of the sources, wrapped with the input's name. A partial plan that
 * fails says nothing about the full one. */
PL_MUST_CHECK
int pl_plan_create(const struct pl_plan_request *request, struct pl_plan **ret, struct pl_err *err);
struct pl_plan *pl_plan_destroy(struct pl_plan *p);
static inline void pl_plan_destroyp(struct pl_plan **p)
{
    *p = pl_plan_destroy(*p);
}

/* May a stage be planned from a base that another version of it made: would the same trees give the same datums with the same keys and
 * prefixes? PL_ENOMEM. */
PL_MUST_CHECK
int pl_plan_may_follow(const struct pl_stage *stage, const struct pl_hash *code_identity, const struct pl_stage *base,
                       const struct pl_hash *base_code_identity, bool *ret, struct pl_err *err);

/* Match of input `leaf` in datum i; NULL when the datum is of another branch of a union. */
const struct pl_plan_match *pl_plan_match_of(const struct pl_plan *p, size_t datum, size_t leaf);
void pl_plan_datum_id(const struct pl_plan *p, size_t datum, struct pl_hash *ret);
/* At most PL_ENUM_KEY_MAX bytes into `out`; the length. */
size_t pl_plan_enum_key(const struct pl_plan *p, size_t datum, uint8_t out[PL_ENUM_KEY_MAX]);
/* "test=/test/b1.csv" of one input that the datum has; what snprintf returns. */
int pl_plan_match_text(const struct pl_plan *p, size_t leaf, const struct pl_plan_match *m, char *out, size_t size);
/* The rendered output prefix, without leading '/'; appended. */
PL_MUST_CHECK
int pl_plan_prefix(const struct pl_plan *p, size_t datum, struct pl_buf *out, struct pl_err *err);
/* "test=/test/b1.csv, model=/, params={"k":1}", cut at `size`: for messages. Returns `out`. */
char *pl_plan_datum_text(const struct pl_plan *p, size_t datum, char *out, size_t size);
