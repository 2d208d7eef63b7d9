/* spec_field (private to spec): the field table. An object of the language is a list of fields. Each field
 * has a type, and the type reads and writes the field's value and describes it in messages. Reader, effective
 * JSON, JSON Schema, docs/spec.md and error texts all use these tables, so a new field is added in one place
 * only. */
#pragma once

#include "pipelined/spec/spec.h"

#include <jansson.h>

struct spec_reader;
struct spec_field;

struct spec_type {
    const char *accepts; /* description of accepted values, for messages and docs: "a whole number" */
    const char *schema;  /* JSON Schema of a value; "" = derived from the field (child, words, min, max) */
    /* Parses `value` into the field's place in `object`; adds mistakes to the reader's problems. */
    void (*read)(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object);
    /* Returns the value as canonical JSON; JSON null if it should be left out, NULL if out of memory. */
    json_t *(*write)(const struct spec_field *field, const void *object);
};

struct spec_field {
    const char *name;
    const struct spec_type *type;
    size_t offset;        /* offset of the value in the object's struct */
    size_t offset_n;      /* offset of the number of elements, for lists */
    const char *fallback; /* default value as JSON; NULL = none */
    const char *doc;      /* description in Markdown, one or two sentences */
    int64_t min, max;     /* bounds of numbers; bounds of durations in ms */
    /* table of the value's own fields, if the value is an object */
    const struct spec_object *child;
    const char *const *words; /* allowed words, NULL-terminated; the parsed value is the index of the word */
    const char *const *later; /* words that are reserved and not available yet */
    const char *noun;         /* kind of thing that the value names, for messages, such as "stage" */
    bool required;
};

struct spec_object {
    /* name of the object, such as "stage": heading in docs/spec.md, name of the definition in the schema */
    const char *name;
    const char *doc;
    const struct spec_field *fields;
    size_t n;
    const char *const *later; /* names of fields that are reserved and not available yet, NULL-terminated */
};

/* Macros for the tables. `doc` is Markdown; it is used in docs/spec.md and in the descriptions of the JSON
 * Schema. */
#define FIELD(type_, struct_, member) .type = &pl_spec_type_##type_, .offset = offsetof(struct struct_, member)
#define LIST(struct_, member, count)  .offset = offsetof(struct struct_, member), .offset_n = offsetof(struct struct_, count)
#define OBJECT(object_, name_, doc_, later_)                                                                                     \
    const struct spec_object pl_spec_object_##object_ = {                                                                        \
        .name = name_, .doc = doc_, .fields = fields_of_##object_, .n = PL_ARRAY_SIZE(fields_of_##object_), .later = later_}

extern const struct spec_object pl_spec_object_file, pl_spec_object_repo, pl_spec_object_stage, pl_spec_object_input,
    pl_spec_object_gpu, pl_spec_object_resources, pl_spec_object_datum, pl_spec_object_output, pl_spec_object_cache,
    pl_spec_object_on_error, pl_spec_object_checkpoint, pl_spec_object_code, pl_spec_object_repo_keep, pl_spec_object_keep,
    pl_spec_object_git, pl_spec_object_share, pl_spec_object_secret, pl_spec_object_scratch, pl_spec_object_placement,
    pl_spec_object_toleration, pl_spec_object_setup, pl_spec_object_setup_secret;
/* All objects, in the order of docs/spec.md; NULL-terminated. */
extern const struct spec_object *const pl_spec_objects[];

extern const struct spec_type pl_spec_type_name, pl_spec_type_text, pl_spec_type_count, pl_spec_type_bool, pl_spec_type_duration,
    pl_spec_type_cpu, pl_spec_type_bytes, pl_spec_type_word, pl_spec_type_texts, pl_spec_type_glob, pl_spec_type_globs,
    pl_spec_type_object, pl_spec_type_env, pl_spec_type_gpu, pl_spec_type_cache, pl_spec_type_input, pl_spec_type_cross,
    pl_spec_type_union, pl_spec_type_params, pl_spec_type_pfs, pl_spec_type_on_error, pl_spec_type_codes, pl_spec_type_checkpoint,
    pl_spec_type_max_failed, pl_spec_type_repo, pl_spec_type_folder, pl_spec_type_code, pl_spec_type_repos, pl_spec_type_stages,
    pl_spec_type_defaults, pl_spec_type_keep, pl_spec_type_box_bytes, pl_spec_type_compute, pl_spec_type_resource,
    pl_spec_type_share, pl_spec_type_profile, pl_spec_type_pairs, pl_spec_type_qualified, pl_spec_type_secrets,
    pl_spec_type_unless_false, pl_spec_type_user, pl_spec_type_priority, pl_spec_type_warm, pl_spec_type_placement,
    pl_spec_type_tolerations, pl_spec_type_arch, pl_spec_type_effect, pl_spec_type_seconds, pl_spec_type_pod_spec,
    pl_spec_type_pod_patch, pl_spec_type_machine_path, pl_spec_type_kube_name, pl_spec_type_git, pl_spec_type_git_url,
    pl_spec_type_git_branch, pl_spec_type_requirements, pl_spec_type_setup, pl_spec_type_index;

#define SPEC_LIST_MAX 10000u /* maximum number of elements of a list or members of an object */

/* Return the address of the field's value in an object's struct. */
void *pl_spec_at(void *object, const struct spec_field *field);
const void *pl_spec_from(const void *object, const struct spec_field *field);
/* Append a value to an array, or set a member of an object, and take the reference to `value`. If memory runs
 * out, the container is freed and becomes NULL; calls with a NULL container do nothing but free `value`. So a
 * series of calls needs only one check at the end. */
void pl_spec_append(json_t **array, json_t *value);
void pl_spec_set(json_t **object, const char *key, json_t *value);
/* Implements spec_type.write for a string: JSON null if the string is NULL. */
json_t *pl_spec_write_text(const struct spec_field *field, const void *object);
/* Implements spec_type.write for a nested object: JSON null if none of its fields is given. */
json_t *pl_spec_write_object(const struct spec_field *field, const void *object);

/* Returns the field of that name; NULL if the object has none. */
const struct spec_field *pl_spec_field_find(const struct spec_object *object, const char *name);
/* True if the name is one of the object's reserved fields. */
bool pl_spec_field_later(const struct spec_object *object, const char *name);
/* Returns the object's struct as JSON, with values in canonical form and nulls left out. NULL if out
 * of memory. */
json_t *pl_spec_object_write(const struct spec_object *object, const void *from);
