/* stage_change: compares the fields of two effective specs of a stage. */
#include "pipelined/plan/stage_change.h"

#include "pipelined/text/json_position.h"
#include "pipelined/text/json_text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 80u /* most bytes of a value in the text; longer values are left out */

/* Formats a number, a string or a boolean; "" if the value is of another type or too long. */
static void value_text(const json_t *v, char out[VALUE_MAX + 1])
{
    _cleanup_free_ char *text = json_is_string(v) || json_is_object(v) || json_is_array(v) ? NULL
                                : v                                                        ? json_dumps(v, JSON_ENCODE_ANY)
                                                                                           : NULL;
    const char *s = json_is_string(v) ? json_string_value(v) : text;

    snprintf(out, VALUE_MAX + 1, "%s", s && strlen(s) <= VALUE_MAX && !strchr(s, '\n') ? s : "");
}

static void add_what(char out[PL_STAGE_CHANGE_MAX], const char *key, const json_t *before, const json_t *after)
{
    char from[VALUE_MAX + 1], to[VALUE_MAX + 1];
    size_t n = strlen(out);

    value_text(before, from);
    value_text(after, to);
    if (n + strlen(key) + strlen(from) + strlen(to) + 16 > PL_STAGE_CHANGE_MAX)
        return;
    n += (size_t)snprintf(out + n, PL_STAGE_CHANGE_MAX - n, "%s%s", n ? ", " : "", key);
    if (*from && *to)
        snprintf(out + n, PL_STAGE_CHANGE_MAX - n, " %s → %s", from, to);
}

/* True for a `reference` input with one match. Datum keys contain the path of such an input but not its content, so
 * that the fields that only select its content (selects_content) do not change the keys. */
static bool content_is_unkeyed(const json_t *input)
{
    const char *glob = pl_json_str(input, "glob");

    return json_is_true(json_object_get(input, "reference")) && (!*glob || pl_streq(glob, "/"));
}

static bool selects_content(const char *key)
{
    return pl_streq(key, "files") || pl_streq(key, "repo");
}

static void drop_unkeyed(json_t *tree)
{
    const char *key;
    json_t *one;
    size_t i;

    if (content_is_unkeyed(tree)) {
        (void)!json_object_del(tree, "files");
        (void)!json_object_del(tree, "repo");
    }
    json_array_foreach(tree, i, one) drop_unkeyed(one);
    json_object_foreach(tree, key, one) drop_unkeyed(one);
}

/* True if the values of `input` differ in a field that datum keys contain (datum_identity.h), or in one that may change
 * the set of datums. */
static bool inputs_differ(const json_t *before, const json_t *after)
{
    _cleanup_(json_decrefp) json_t *old = json_deep_copy(before), *now = json_deep_copy(after);

    drop_unkeyed(old);
    drop_unkeyed(now);
    return !json_equal(old, now);
}

void pl_stage_change_text(const json_t *before, const json_t *after, bool code_differs, char ret[PL_STAGE_CHANGE_MAX])
{
    const json_t *v;
    const char *key;

    *ret = '\0';
    json_object_foreach((json_t *)(uintptr_t)after, key, v)
    {
        const json_t *old = json_object_get(before, key);

        if (!json_equal(v, old))
            add_what(ret, pl_streq(key, "input") && !inputs_differ(old, v) ? "reference (in no datum key)" : key, old, v);
    }
    json_object_foreach((json_t *)(uintptr_t)before, key, v)
    {
        if (!json_object_get(after, key))
            add_what(ret, key, v, NULL);
    }
    if (code_differs && json_equal(json_object_get(before, "code"), json_object_get(after, "code")))
        add_what(ret, "code", NULL, NULL);
}

/* ---- what a change does to the datums ---- */

const char *pl_again_name(enum pl_again again)
{
    static const char *const names[] = {[PL_AGAIN_NONE] = "none", [PL_AGAIN_SOME] = "some", [PL_AGAIN_ALL] = "all"};

    return names[again];
}

/* True if the code identity is part of the datum key. */
static bool keys_hold_code(const json_t *stage)
{
    return !json_is_false(json_object_get(json_object_get(stage, "cache"), "code"));
}

bool pl_stage_selects_anew(const json_t *before, const json_t *after)
{
    return inputs_differ(json_object_get(before, "input"), json_object_get(after, "input"));
}

enum pl_again pl_stage_again(const json_t *before, const json_t *after, bool identity_differs)
{
    const json_t *cache = json_object_get(after, "cache");

    if (json_is_false(cache) || !json_equal(json_object_get(before, "cache"), cache) ||
        (identity_differs && keys_hold_code(after)))
        return PL_AGAIN_ALL;
    return pl_stage_selects_anew(before, after) ? PL_AGAIN_SOME : PL_AGAIN_NONE;
}

enum pl_output_change pl_stage_output_change(const json_t *before, const json_t *after, bool identity_differs)
{
    const bool inputs = pl_stage_selects_anew(before, after);

    if ((identity_differs && keys_hold_code(after)) ||
        !json_equal(json_object_get(before, "cache"), json_object_get(after, "cache")))
        return inputs ? PL_OUTPUT_BY_BOTH : PL_OUTPUT_BY_CODE;
    if (inputs)
        return PL_OUTPUT_BY_INPUT;
    return pl_streq(pl_json_str(json_object_get(before, "output"), "prefix"),
                    pl_json_str(json_object_get(after, "output"), "prefix"))
               ? PL_OUTPUT_SAME
               : PL_OUTPUT_BY_FORM;
}

/* A comparison of all fields. */
struct fields {
    json_t *list;
    struct pl_buf path;
    enum pl_again again; /* what a difference of the field at hand does */
    struct pl_err *err;
};

static int compare_values(struct fields *f, const json_t *before, const json_t *after);

/* Says what a difference of a field of a stage does to datums. The content of the code folder is not a field. */
static enum pl_again again_of_field(const char *key, const json_t *after)
{
    static const char *const identity[] = {"image", "run", "script", "env", "user", "stdin", "python"};

    if (pl_streq(key, "cache"))
        return PL_AGAIN_ALL;
    if (pl_streq(key, "input"))
        return PL_AGAIN_SOME;
    for (size_t i = 0; i < PL_ARRAY_SIZE(identity); i++)
        if (pl_streq(key, identity[i]))
            return keys_hold_code(after) ? PL_AGAIN_ALL : PL_AGAIN_NONE;
    return PL_AGAIN_NONE;
}

static int add_field(struct fields *f, const json_t *before, const json_t *after)
{
    const char *path = pl_buf_str(&f->path);

    if (!path)
        return pl_err_nomem(f->err);
    return pl_json_add(f->list,
                       json_pack("{s:s, s:O*, s:O*, s:s}", "field", path, "before", before, "after", after, "again",
                                 pl_again_name(f->again)),
                       f->err);
}

/* Compares two members, of which one may be NULL. */
static int compare_member(struct fields *f, const char *key, const json_t *before, const json_t *after)
{
    const size_t len = f->path.len;
    int r = pl_json_path_key(&f->path, key, f->err);

    r = r < 0 ? r : compare_values(f, before, after);
    f->path.len = len;
    return r;
}

static int compare_objects(struct fields *f, const json_t *before, const json_t *after)
{
    const enum pl_again around = f->again;
    const bool unkeyed = around == PL_AGAIN_SOME && content_is_unkeyed(before) && content_is_unkeyed(after);
    const json_t *v;
    const char *key;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)after, key, v)
    {
        f->again = unkeyed && selects_content(key) ? PL_AGAIN_NONE : around;
        r = r < 0 ? r : compare_member(f, key, json_object_get(before, key), v);
    }
    json_object_foreach((json_t *)(uintptr_t)before, key, v)
    {
        f->again = unkeyed && selects_content(key) ? PL_AGAIN_NONE : around;
        if (r == 0 && !json_object_get(after, key))
            r = compare_member(f, key, v, NULL);
    }
    f->again = around;
    return r;
}

/* True if both are lists of as many objects: their elements can be compared one by one. */
static bool alike_lists(const json_t *before, const json_t *after)
{
    const json_t *v;
    size_t i;

    if (!json_is_array(before) || json_array_size(before) != json_array_size(after))
        return false;
    json_array_foreach((json_t *)(uintptr_t)after, i, v)
    {
        if (!json_is_object(v) || !json_is_object(json_array_get(before, i)))
            return false;
    }
    return true;
}

static int compare_values(struct fields *f, const json_t *before, const json_t *after)
{
    const size_t len = f->path.len;
    int r = 0;

    if (json_equal(before, after))
        return 0;
    if (json_is_object(before) && json_is_object(after))
        return compare_objects(f, before, after);
    if (!alike_lists(before, after))
        return add_field(f, before, after);
    for (size_t i = 0; r == 0 && i < json_array_size(after); i++) {
        r = pl_json_path_index(&f->path, i, f->err);
        r = r < 0 ? r : compare_values(f, json_array_get(before, i), json_array_get(after, i));
        f->path.len = len;
    }
    return r;
}

/* Adds that the content of the code folder differs to the entry of "code", which is made if there is none. */
static int add_code(struct fields *f, const json_t *after)
{
    const enum pl_again again = keys_hold_code(after) ? PL_AGAIN_ALL : PL_AGAIN_NONE;
    json_t *one, *entry = NULL;
    size_t i;

    json_array_foreach(f->list, i, one)
    {
        if (pl_streq(pl_json_str(one, "field"), "code"))
            entry = one;
    }
    if (!entry)
        return pl_json_add(f->list, json_pack("{s:s, s:b, s:s}", "field", "code", "content", 1, "again", pl_again_name(again)),
                           f->err);
    if (json_object_set_new(entry, "content", json_true()) < 0 ||
        json_object_set_new(entry, "again", json_string(pl_again_name(again))) < 0)
        return pl_err_nomem(f->err);
    return 0;
}

int pl_stage_change_fields(const json_t *before, const json_t *after, bool code_differs, json_t *ret, struct pl_err *err)
{
    struct fields f = {.list = ret, .err = err};
    const json_t *v;
    const char *key;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)after, key, v)
    {
        f.again = again_of_field(key, after);
        r = r < 0 ? r : compare_member(&f, key, json_object_get(before, key), v);
    }
    json_object_foreach((json_t *)(uintptr_t)before, key, v)
    {
        f.again = again_of_field(key, after);
        if (r == 0 && !json_object_get(after, key))
            r = compare_member(&f, key, v, NULL);
    }
    if (r == 0 && code_differs)
        r = add_code(&f, after);
    pl_buf_finish(&f.path);
    return r;
}
