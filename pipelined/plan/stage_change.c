/* stage_change: compares the fields of two effective specs of a stage. */
#include "pipelined/plan/stage_change.h"

#include "pipelined/text/json_text.h"
#include "storage/base/base.h"

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

/* Removes the fields that only select the content of a `reference` input with one match. Datum keys contain
 * the path of such an input but not its content, so these fields do not change the keys. */
static void drop_unkeyed(json_t *tree)
{
    const char *glob = pl_json_str(tree, "glob"), *key;
    json_t *one;
    size_t i;

    if (json_is_true(json_object_get(tree, "reference")) && (!*glob || pl_streq(glob, "/"))) {
        (void)!json_object_del(tree, "files");
        (void)!json_object_del(tree, "repo");
    }
    json_array_foreach(tree, i, one) drop_unkeyed(one);
    json_object_foreach(tree, key, one) drop_unkeyed(one);
}

bool pl_stage_inputs_differ(const json_t *before, const json_t *after)
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
            add_what(ret, pl_streq(key, "input") && !pl_stage_inputs_differ(old, v) ? "reference (in no datum key)" : key, old,
                     v);
    }
    json_object_foreach((json_t *)(uintptr_t)before, key, v)
    {
        if (!json_object_get(after, key))
            add_what(ret, key, v, NULL);
    }
    if (code_differs && json_equal(json_object_get(before, "code"), json_object_get(after, "code")))
        add_what(ret, "code", NULL, NULL);
}
