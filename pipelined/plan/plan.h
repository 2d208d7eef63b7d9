/* plan: Which datums a job has, in full or from a base commit, and their keys. Pure.
 *
 * In:      A stage and the trees of its inputs.
 * Out:     Datums in order; the datum table.
 * Uses:    spec, text, storage/{base, tree}
 * Threads: Storage pool; reads nodes through pl_node_source.
 *
 * Headers for other rooms:
 *   datum_identity  code identity, datum id and datum key
 *   datum_table     row formats of the datum table and the owner table
 *   datum_text      finds the inputs of a datum from its text
 *   enum_key        reads enumeration keys
 *   plan_json       a datum's inputs as JSON for the worker
 *   stage_change    which fields differ between two versions of a stage
 *   version_diff    which stages differ between two versions of a pipeline
 *
 * Inside:
 *   plan_change     datums affected by changed matches
 *   plan_diff       matches that changed since the base commit
 *   plan_leaf       matches of one input
 *   plan_no_match   why an input gives no datum, in words
 *   plan_retry      datums that failed in the base commit and run again */

/* plan: the datums of a stage over given commits.
 *
 * In full: walk the tree of each input, collect the matches (the files and directories that the input's glob
 * selects), and combine them. The full plan defines which datums there are. From a base (a partial plan): if
 * an equal stage was planned before over other tree roots (the base), only the datums that the difference
 * between the trees affects are enumerated; all other datums are unchanged (plan_change.h).
 *
 * "Spec order" is the order of datums. A cross gives the product of its inputs, in the order of the spec; the
 * first input varies slowest. A union gives the datums of its inputs one after the other. Within an input,
 * paths are ordered by bytes, and a directory takes the place of its first file ("a!b", then directory a as
 * "a/", then "a/x"). Within `params`, combinations are ordered by the bytes of their canonical JSON.
 *
 * The enumeration key identifies a datum within a plan. For each input that the datum has, in order, it
 * contains: the input's number (u16, big-endian), the path of the match, '/' if the match is a directory
 * below the root, and 0x00. For `params` the path is the canonical JSON. Keys ascend in spec order. A key
 * longer than PL_ENUM_KEY_MAX is replaced by 0xFF and its SHA-256. For datum id and datum key see
 * datum_identity.h.
 *
 * Memory: 32 bytes per datum and 4 per input of a datum; 64 bytes per match, its path, and 4 bytes per
 * capture. A plan does not change once made; any thread may read it. */
#pragma once

#include "pipelined/plan/datum_identity.h"
#include "pipelined/spec/spec.h"
#include "pipelined/text/glob.h"
#include "storage/tree/tree.h"

#define PL_DATUMS_MAX         (1u << 24)
#define PL_ENUM_KEY_MAX       1000u
#define PL_PLAN_NO_PICK       UINT32_MAX /* value in `picks` for an input that the datum does not have */
#define PL_PLAN_DEFAULT_BYTES ((size_t)4 << 30)
#define PL_PLAN_LOOKED_MAX    10000u /* files of the repo that are looked at for the nearest glob */

/* One input: the tree root of its commit (zero: there is no commit yet) and the source of its nodes. Not used
 * for `params`. */
struct pl_plan_input {
    struct pl_hash root;
    const struct pl_node_source *source;
    bool unknown; /* there is no tree, but there will be: the input has one match, the root. Only to list datums */
};

struct pl_plan_request {
    const struct pl_stage *stage;       /* must outlive the plan */
    const struct pl_plan_input *inputs; /* inputs of the stage, one for each of stage->leaves */
    struct pl_hash code_identity;       /* code identity from pl_stage_code_identity */
    size_t max_bytes;                   /* limit on the plan's memory; 0 = PL_PLAN_DEFAULT_BYTES */
    /* For a partial plan: one root per input, over which a stage with the same input and the same cache was
     * planned before. NULL: full plan. */
    const struct pl_hash *base;
    size_t base_datums;                       /* number of datums of the base's plan */
    const struct pl_node_source *base_source; /* source of the base's owner tree (datum_table.h) */
    /* root of the base's owner tree, which lists the datums that failed there: they are planned again */
    struct pl_hash base_owner;
};

/* State of a match in a partial plan: it exists in the base's tree, in the new tree, or both. */
enum { PL_MATCH_OLD = 1, PL_MATCH_NEW = 2, PL_MATCH_CHANGED = 4 /* new, or its content differs */ };

/* One match of one input. */
struct pl_plan_match {
    /* content id of the file, or of the directory's files that `files` selects (tree/content_id.h) */
    struct pl_hash content;
    /* without leading slash, NUL-terminated; for `params` the combination's JSON, match i being combination
     * i */
    const char *path;
    const struct pl_span *captures;
    uint16_t path_len;
    uint8_t kind; /* PL_KIND_FILE, PL_KIND_EXEC, PL_KIND_LINK or PL_KIND_DIR */
    uint8_t is;   /* set of PL_MATCH_…; 0 in a full plan */
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
    /* n_leaves numbers per datum, also for gone datums: index into leaves[i].matches, or PL_PLAN_NO_PICK */
    uint32_t *picks;
    /* the plan has only datums that are new, have another key than in the base, or failed in the base */
    bool partial;
    /* number of datums of the base that no longer exist; they are numbered from n_datums on and have no
     * key */
    size_t n_gone;
    size_t n_total; /* number of all datums of the job, including the unchanged ones */
    struct pl_arena *arena;
    struct pl_template *prefix;
};

/* Makes a plan. A stage without inputs, or a cross with an input that has no match, gives no datums; a
 * `previous` input without files gives one match, with content zero. PL_ELIMIT: more than PL_DATUMS_MAX
 * datums (the message shows the factors) or max_bytes; errors of the sources, with the input's name. If a
 * partial plan fails, the full plan may still succeed. */
PL_MUST_CHECK
int pl_plan_create(const struct pl_plan_request *request, struct pl_plan **ret, struct pl_err *err);
struct pl_plan *pl_plan_destroy(struct pl_plan *p);
static inline void pl_plan_destroyp(struct pl_plan **p)
{
    *p = pl_plan_destroy(*p);
}

/* True if a stage can be planned from a base that another version of the stage made: both versions would have
 * the same datums, keys and prefixes over the same trees. PL_ENOMEM. */
PL_MUST_CHECK
int pl_plan_may_follow(const struct pl_stage *stage, const struct pl_hash *code_identity, const struct pl_stage *base,
                       const struct pl_hash *base_code_identity, bool *ret, struct pl_err *err);

/* Returns the match of input `leaf` in the datum; NULL if the datum belongs to another branch of a union. */
const struct pl_plan_match *pl_plan_match_of(const struct pl_plan *p, size_t datum, size_t leaf);
/* Computes the datum id. */
void pl_plan_datum_id(const struct pl_plan *p, size_t datum, struct pl_hash *ret);
/* Writes the enumeration key to `out` and returns its length, at most PL_ENUM_KEY_MAX. */
size_t pl_plan_enum_key(const struct pl_plan *p, size_t datum, uint8_t out[PL_ENUM_KEY_MAX]);
/* Writes "test=/test/b1.csv" for a match of an input; returns what snprintf returns. */
int pl_plan_match_text(const struct pl_plan *p, size_t leaf, const struct pl_plan_match *m, char *out, size_t size);
/* Appends the rendered output prefix to `out`, without leading '/'. */
PL_MUST_CHECK
int pl_plan_prefix(const struct pl_plan *p, size_t datum, struct pl_buf *out, struct pl_err *err);
/* Writes "test=/test/b1.csv, model=/, params={"k":1}" for messages, cut at `size`. Returns `out`. */
char *pl_plan_datum_text(const struct pl_plan *p, size_t datum, char *out, size_t size);

/* Appends to `out` why an input of a repo has no match: its glob, how many files its repo has, and the nearest glob that would
 * match:
 *
 *   input "test": glob "/tests/ *.csv" matches none of the 12 files of repo "digits"; "/test/ *.csv" would match /test/a.csv
 *
 * (without the blanks). `project` is the stage's: a repo of another is named with its project. Blocks: reads the tree.
 * PL_ENOMEM, errors of the source. */
PL_MUST_CHECK
int pl_plan_no_match(const struct pl_input *input, const char *project, const struct pl_plan_input *from, struct pl_buf *out,
                     struct pl_err *err);
