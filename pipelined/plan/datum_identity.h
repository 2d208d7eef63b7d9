/* identity: the three hashes that decide what is run again. All are SHA-256 over fields; a field is its length (8 bytes LE) and
 * its bytes (pl_hasher_add_field), so that no two lists of fields give the same bytes. Part of format 1, pinned by golden
 * tests.
 *
 *   code identity   "pl-code-1", then for each part of {image, run, script, env, user, code, setup, stdin} in this order: its tag (a
 * field, e.g. "image"), the number of its values (a field of 8 bytes LE), each value as a field. image: as written in the
 * effective spec. run: each argument. script: its text. env: key, value, key, value … sorted by key. user: number of the user, number of the group (each 8 bytes LE, all ones when it is the image's). code: the 32 bytes of the
 * tree root of the code folder. Absent parts (setup always, for now) have 0 values; stdin is left out when absent. Not in it: resources, gpu, workers,
 * timeouts, prefix. datum id        "pl-datum-id-1", then per leaf input in order: name, project, repo, branch, path. A name for
 * people: never looked up. datum key       "pl-datum-key-1", then per leaf input in order: name, path, kind (1 byte: enum
 * pl_entry_kind), content id (32 bytes) (of a `reference` input one empty field instead of these two); then code identity (32 bytes; zeros with `cache: {"code": false}`) and salt. Repo and
 * branch are not in it: a fork reuses the work of its parent.
 *
 * Paths have no leading slash; the root is "". A `params` input has no project, repo and branch (""), its path is the canonical JSON of the
 * combination, its content id the SHA-256 of that, its kind a file. Inputs that a datum of a union lacks are left out. */
#pragma once

#include "pipelined/spec/spec.h"

/* `code_root` is the tree root of the code folder; NULL when the stage has no `code`. */
void pl_stage_code_identity(const struct pl_stage *stage, const struct pl_hash *code_root, struct pl_hash *ret);

/* One leaf of one datum, as the hashes see it. */
struct pl_datum_leaf {
    const struct pl_input *input;
    const char *path;
    size_t path_len;
    uint8_t kind;
    const struct pl_hash *content;
};

void pl_datum_id(const struct pl_datum_leaf *leaves, size_t n, struct pl_hash *ret);
/* `code_identity` as given by pl_stage_code_identity; `cache` says whether it counts. */
void pl_datum_key(const struct pl_datum_leaf *leaves, size_t n, const struct pl_hash *code_identity, const struct pl_cache *cache,
                  struct pl_hash *ret);
