/* datum_identity: the three hashes that decide what runs again. Each is a SHA-256 over a list of fields. A
 * field is hashed as its length (8 bytes, little-endian) and its bytes, so different lists never give the
 * same input. The hashes are part of format 1 and are fixed by golden tests.
 *
 *   code identity  "pl-code-1", then the parts image, run, script, env, user, code, setup, stdin, python, in this
 *                  order. A part is its tag (a field, e.g. "image"), its number of values (a field of 8
 *                  bytes, little-endian), and each value as a field:
 *                    image   as written in the effective spec
 *                    run     each argument
 *                    script  its text
 *                    env     key, value, key, value … sorted by key
 *                    user    number of the user, number of the group (8 bytes each; all ones = the image's)
 *                    code    32 bytes: tree root of the code folder
 *                    setup   always without values
 *                    stdin   its text; the whole part is left out if the stage has none
 *                    python  as written; the whole part is left out if the stage has none
 *                  A part that the stage does not have has 0 values. Resources, gpu, workers, timeouts and
 *                  prefix are not included.
 *   datum id       "pl-datum-id-1", then per input: name, project, repo, branch, path; without the environment.
 *                  It names a datum for people; results are never looked up by it.
 *   datum key      "pl-datum-key-1", then per input: name, path, kind (1 byte: enum pl_entry_kind), content
 *                  id (32 bytes); a `reference` input has one empty field instead of kind and content id.
 *                  Then the code identity (32 bytes; zeros with `cache: {"code": false}`) and the salt. Repo
 *                  and branch are not included, so that a fork reuses the results of its parent. The name of
 *                  an environment is "/pl/env".
 *
 * Paths have no leading slash; the root is "". A `params` input has "" as project, repo and branch; its path
 * is the canonical JSON of the combination, its content id the SHA-256 of that text, and its kind that of a
 * file. Inputs are in the order of the spec; inputs that a datum of a union does not have are left out. */
#pragma once

#include "pipelined/spec/spec.h"

/* Computes the code identity. `code_root`: tree root of the code folder; NULL if the stage has no `code`. */
void pl_stage_code_identity(const struct pl_stage *stage, const struct pl_hash *code_root, struct pl_hash *ret);

/* One input of one datum, as it is hashed. */
struct pl_datum_leaf {
    const struct pl_input *input;
    const char *path;
    size_t path_len;
    uint8_t kind;
    const struct pl_hash *content;
};

/* Computes the datum id. */
void pl_datum_id(const struct pl_datum_leaf *leaves, size_t n, struct pl_hash *ret);
/* Computes the datum key. `code_identity` is from pl_stage_code_identity; `cache` says whether it is
 * included. */
void pl_datum_key(const struct pl_datum_leaf *leaves, size_t n, const struct pl_hash *code_identity, const struct pl_cache *cache,
                  struct pl_hash *ret);
