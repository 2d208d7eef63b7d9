/* spec_reader (private to spec): the state of one parse: the current path, the problems found, the result. */
#pragma once

#include "pipelined/spec/spec_field.h"

/* Parsing stops after this number of problems, duplicates included, because checking more stages would show
 * nothing new. */
#define SPEC_PROBLEMS_STOP 64u

struct spec_reader {
    const char *text;
    size_t len;
    const char *filename;
    const struct pl_spec_context *ctx;
    struct pl_spec *spec;
    struct pl_arena *arena; /* the arena of `spec` */
    /* merged defaults, nulls removed; NULL if there are none or they are not an object */
    json_t *defaults;
    struct pl_buf path; /* JSON path of the current value */
    const json_t
        /* the original JSON if the text has Pachyderm's form, else NULL. `path` is then a path of the native
         * spec made from it. */
        *pachyderm;
    bool network_off;  /* the network is off in the spec's project */
    bool partial;      /* parsing `defaults`: no field is required, no default value is filled in */
    size_t n_problems; /* all problems found, also those that were not kept */
    /* problems that are kept */
    struct pl_spec_errors *errs;
    int failed; /* PL_ENOMEM = memory ran out and the result is invalid; 0 = no failure */
};

/* Add an error or a warning at the position of the current path. Functions with a name in _key use the
 * position of the member's key, the others that of its value. */
void pl_spec_problem(struct spec_reader *r, const char *fmt, ...) PL_PRINTF(2, 3);
void pl_spec_problem_key(struct spec_reader *r, const char *fmt, ...) PL_PRINTF(2, 3);
void pl_spec_warning(struct spec_reader *r, const char *fmt, ...) PL_PRINTF(2, 3);
/* Adds the error that `value` is not accepted; `accepts` describes the accepted values. */
void pl_spec_problem_value(struct spec_reader *r, json_t *value, const char *accepts);

/* Append a member or an element to the current path. pl_spec_leave cuts the path back to an earlier
 * r->path.len. */
void pl_spec_enter_key(struct spec_reader *r, const char *key);
void pl_spec_enter_index(struct spec_reader *r, size_t index);
void pl_spec_leave(struct spec_reader *r, size_t path_len);

/* Parses all fields of an object into `to`. Unknown, reserved and missing required fields are errors. Absent
 * fields get their default value. */
void pl_spec_read_object(struct spec_reader *r, const struct spec_object *object, json_t *value, void *to);

/* Allocate from the arena, zeroed. If out of memory, they set r->failed and return NULL. */
void *pl_spec_alloc(struct spec_reader *r, size_t n);
char *pl_spec_strdup(struct spec_reader *r, const char *s);

/* Returns a string, number or boolean as text; a number in its shortest spelling. NULL for any other value,
 * after adding an error. */
const char *pl_spec_scalar(struct spec_reader *r, json_t *value);

/* Applies an RFC 7396 merge patch and returns the result, a new reference. The members `pod_spec` and
 * `pod_patch` are replaced as a whole. NULL if out of memory. */
json_t *pl_spec_merge_patch(json_t *target, json_t *patch);

/* Adds a stage and an input for each `setup` of the stages that were read. */
void pl_spec_expand_setups(struct spec_reader *r);
/* Checks the fields "environment" of stage i: of its inputs and its output. */
void pl_spec_check_environment(struct spec_reader *r, size_t i);
/* Parses an input that has the field "git". */
struct pl_input;
void pl_spec_read_git(struct spec_reader *r, json_t *value, struct pl_input *input);
/* Checks everything that involves more than one value: names, inputs, cycles, templates, and facts from the
 * store. */
void pl_spec_check(struct spec_reader *r);
/* Checks "${…}" in the commands and variables of stage i. */
void pl_spec_check_variables(struct spec_reader *r, size_t i);
/* Check the pod fields of stage i, and add warnings about them. */
void pl_spec_check_pod(struct spec_reader *r, size_t i);
/* True if commands get this variable from pipelined, so that a spec may not set it (except PL_DEVICE and the like). */
bool pl_spec_reserves_variable(const char *name);
void pl_spec_warn_pod(struct spec_reader *r, size_t i);
/* Set the current path to stage i, or to field `key` of leaf j of stage i. A field that is absent from the
 * text is reported at the position of its leaf. */
void pl_spec_enter_stage(struct spec_reader *r, size_t i);
void pl_spec_enter_leaf(struct spec_reader *r, size_t i, size_t j, const char *key);
/* Checks leaf j of stage i, which follows git, with the other inputs of the spec. `stage`: the stage that writes a repo of that
 * name; NULL = none. */
void pl_spec_check_git(struct spec_reader *r, size_t i, size_t j, const struct pl_stage *stage);
/* True if an input of the spec follows git into that repo. */
bool pl_spec_git_fills(const struct pl_spec *spec, const char *project, const char *repo);
