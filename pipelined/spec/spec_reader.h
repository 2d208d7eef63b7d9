/* spec_reader (private to spec): one reading of a spec: where it is (path), what it found wrong, what it makes. */
#pragma once

#include "pipelined/spec/spec_field.h"

#define SPEC_PROBLEMS_STOP 64u /* found (repeats in each stage included): reading further stages tells nothing new */

struct spec_reader {
    const char *text;
    size_t len;
    const char *filename;
    const struct pl_spec_context *ctx;
    struct pl_spec *spec;
    struct pl_arena *arena; /* = spec->arena */
    json_t *defaults;       /* of the file, nulls taken out; NULL when there are none or they are no object */
    struct pl_buf path;     /* JSON path of the value being read */
    const json_t
        *pachyderm;    /* the text, of Pachyderm's form: paths are of the native spec made of it; NULL: it is no such text */
    bool network_off;  /* in the spec's project */
    bool partial;      /* reading `defaults`: nothing is required, nothing filled in */
    size_t n_problems; /* found, kept or not */
    struct pl_spec_errors *errs;
    int failed; /* PL_ENOMEM: what was read is void */
};

/* Adds a problem at the value (or, _key, at the key) of the current path. */
void pl_spec_problem(struct spec_reader *r, const char *fmt, ...) PL_PRINTF(2, 3);
void pl_spec_problem_key(struct spec_reader *r, const char *fmt, ...) PL_PRINTF(2, 3);
void pl_spec_warning(struct spec_reader *r, const char *fmt, ...) PL_PRINTF(2, 3);
/* `value` is not what `accepts` says. */
void pl_spec_problem_value(struct spec_reader *r, json_t *value, const char *accepts);

/* Goes into a member or element, and back to a length of r->path.len taken before. */
void pl_spec_enter_key(struct spec_reader *r, const char *key);
void pl_spec_enter_index(struct spec_reader *r, size_t index);
void pl_spec_leave(struct spec_reader *r, size_t path_len);

/* Reads all fields of an object into `to`: unknown, not available, missing ones are problems; absent ones get their default. */
void pl_spec_read_object(struct spec_reader *r, const struct spec_object *object, json_t *value, void *to);

/* From the arena; without memory r->failed is set and NULL given. */
void *pl_spec_alloc(struct spec_reader *r, size_t n);
char *pl_spec_strdup(struct spec_reader *r, const char *s);

/* A string, number or boolean as text (a number's shortest that reads as the same); NULL (and a problem) for anything else. */
const char *pl_spec_scalar(struct spec_reader *r, json_t *value);

/* RFC 7396: the target with the patch applied, a new reference; members `pod_spec` and `pod_patch` are taken whole. NULL without memory. */
json_t *pl_spec_merge_patch(json_t *target, json_t *patch);

/* Everything that needs more than one value: names, resolution, cycles, templates, what the store says. */
void pl_spec_check(struct spec_reader *r);
/* The same of what pods bring, for stage i; and what deserves a warning of it. */
void pl_spec_check_pod(struct spec_reader *r, size_t i);
void pl_spec_warn_pod(struct spec_reader *r, size_t i);
/* Goes to stage i; to field `key` of leaf j of stage i (absent fields have the place of their leaf). */
void pl_spec_enter_stage(struct spec_reader *r, size_t i);
void pl_spec_enter_leaf(struct spec_reader *r, size_t i, size_t j, const char *key);
/* Makes spec->order; a circle is a problem. Inputs are resolved. */
void pl_spec_order(struct spec_reader *r);
