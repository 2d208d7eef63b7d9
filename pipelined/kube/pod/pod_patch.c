/* pod_patch.c: recursive merging for the two merge patches, and JSON pointers with six operations for RFC
 * 6902. */
#include "pipelined/kube/pod/pod_patch.h"

#include <ctype.h>
#include <stdio.h>

/* ---- merging ---- */

/* Returns the member that identifies the elements of a list, from Kubernetes' table for PodSpec; NULL: the
 * list is replaced as a whole. */
static const char *merge_key(const char *list)
{
    static const char *const keys[][2] = {{"containers", "name"},        {"initContainers", "name"},
                                          {"volumes", "name"},           {"env", "name"},
                                          {"imagePullSecrets", "name"},  {"resourceClaims", "name"},
                                          {"volumeMounts", "mountPath"}, {"volumeDevices", "devicePath"},
                                          {"ports", "containerPort"},    {"hostAliases", "ip"},
                                          {"schedulingGates", "name"},   {"topologySpreadConstraints", "topologyKey"}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
        if (pl_streq(keys[i][0], list))
            return keys[i][1];
    return NULL;
}

static int merge_into(json_t *target, const json_t *patch, bool by_name, unsigned depth, struct pl_err *err);

/* Reads the patch's "$patch" directive; NULL = none. PL_EINVAL: another directive or value. */
static int directive(const json_t *patch, const char **ret, struct pl_err *err)
{
    const json_t *word = json_object_get(patch, "$patch");
    const char *key, *text = json_string_value(word);
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)patch, key, member)
    {
        if (key[0] == '$' && !pl_streq(key, "$patch"))
            return pl_err_set(err, PL_EINVAL, "directive \"%.40s\" is not supported: only \"$patch\" is", key);
    }
    if (word != NULL && (text == NULL || (!pl_streq(text, "delete") && !pl_streq(text, "replace"))))
        return pl_err_set(err, PL_EINVAL, "\"$patch\" must be \"delete\" or \"replace\"");
    *ret = text;
    return 0;
}

/* Makes a new value from a patch, without its nulls and directives. */
static int fresh(const json_t *patch, bool by_name, unsigned depth, json_t **ret, struct pl_err *err)
{
    json_t *value = json_is_object(patch) ? json_object() : json_deep_copy(patch);
    int r;

    if (value == NULL)
        return pl_err_nomem(err);
    if (json_is_object(patch)) {
        r = merge_into(value, patch, by_name, depth, err);
        if (r < 0) {
            json_decref(value);
            return r;
        }
    }
    *ret = value;
    return 0;
}

static json_t *find_named(const json_t *list, const char *by, const json_t *element, size_t *ret_at)
{
    const json_t *name = json_object_get(element, by);
    json_t *other;
    size_t i;

    json_array_foreach(list, i, other)
    {
        if (name != NULL && json_equal(json_object_get(other, by), name)) {
            *ret_at = i;
            return other;
        }
    }
    return NULL;
}

/* Merges a list element by element; `by` is the member that identifies the elements. */
static int merge_list(json_t *target, const json_t *patch, const char *by, unsigned depth, struct pl_err *err)
{
    json_t *element, *old, *value;
    size_t i, at = 0;
    int r = 0;

    json_array_foreach(patch, i, element)
    {
        const char *what = NULL;

        if (json_object_get(element, by) == NULL)
            return pl_err_set(err, PL_EINVAL, "a list element needs \"%s\", which identifies it", by);
        r = directive(element, &what, err);
        if (r < 0)
            return r;
        old = find_named(target, by, element, &at);
        if (what != NULL && pl_streq(what, "delete")) {
            if (old != NULL)
                (void)json_array_remove(target, at);
            continue;
        }
        if (old != NULL && what == NULL) {
            r = merge_into(old, element, true, depth, err);
        } else {
            r = fresh(element, true, depth, &value, err);
            if (r == 0 && (old != NULL ? json_array_set_new(target, at, value) : json_array_append_new(target, value)) < 0)
                r = pl_err_nomem(err);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* Merges one member of a patch into its target. */
static int merge_member(json_t *target, const char *key, const json_t *member, bool by_name, unsigned depth, struct pl_err *err)
{
    json_t *old = json_object_get(target, key), *value;
    const char *by = by_name && json_is_array(member) ? merge_key(key) : NULL, *what = NULL;
    int r = by_name && json_is_object(member) ? directive(member, &what, err) : 0;

    if (r < 0)
        return r;
    if (json_is_null(member) || (what != NULL && pl_streq(what, "delete"))) {
        (void)json_object_del(target, key);
        return 0;
    }
    if (json_is_object(member) && json_is_object(old) && what == NULL)
        return merge_into(old, member, by_name, depth, err);
    if (by != NULL && !json_is_array(old)) {
        old = json_array();
        if (json_object_set_new(target, key, old) < 0)
            return pl_err_nomem(err);
    }
    if (by != NULL)
        return merge_list(old, member, by, depth, err);
    r = fresh(member, by_name, depth, &value, err);
    if (r == 0 && json_object_set_new(target, key, value) < 0)
        r = pl_err_nomem(err);
    return r;
}

static int merge_into(json_t *target, const json_t *patch, bool by_name, unsigned depth, struct pl_err *err)
{
    const char *key;
    json_t *member;
    int r;

    if (depth >= PL_PATCH_DEPTH_MAX)
        return pl_err_set(err, PL_EINVAL, "the patch is nested deeper than %u levels", PL_PATCH_DEPTH_MAX);
    if (!json_is_object(target) || !json_is_object(patch))
        return pl_err_set(err, PL_EINVAL, "an object can be merged only into an object");
    json_object_foreach((json_t *)(uintptr_t)patch, key, member)
    {
        if (by_name && pl_streq(key, "$patch"))
            continue;
        r = merge_member(target, key, member, by_name, depth + 1, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Checks that a patched document is not too large or too deep. */
static int patched(const json_t *doc, struct pl_err *err)
{
    size_t n = json_dumpb(doc, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);

    if (n == 0)
        return pl_err_set(err, PL_ETOOBIG, "the patched document is nested too deeply");
    return n > PL_PATCHED_MAX ? pl_err_set(err, PL_ETOOBIG, "the patched document has %zu bytes; at most %u", n, PL_PATCHED_MAX)
                              : 0;
}

int pl_json_merge(json_t **doc, const json_t *patch, struct pl_err *err)
{
    int r = merge_into(*doc, patch, false, 0, err);

    return r < 0 ? r : patched(*doc, err);
}

int pl_pod_merge(json_t **doc, const json_t *patch, struct pl_err *err)
{
    int r = merge_into(*doc, patch, true, 0, err);

    return r < 0 ? r : patched(*doc, err);
}

/* ---- RFC 6902 ---- */

/* The location that a JSON pointer names: a member or an element of `parent`. There may be no value at it. */
struct place {
    json_t *parent; /* object or array that contains the location; NULL = the location is the document itself */
    char key[256];
    size_t index; /* index in an array; the array's size = after the last element, also written "-" */
};

/* Reads one segment of a pointer, with ~0 and ~1 decoded. Returns the rest; NULL if the pointer is
 * malformed. */
static const char *segment(const char *pointer, char out[256])
{
    size_t n = 0;

    if (*pointer != '/')
        return NULL;
    for (pointer++; *pointer != '\0' && *pointer != '/'; pointer++) {
        char c = *pointer;

        if (c == '~') {
            pointer++;
            if (*pointer != '0' && *pointer != '1')
                return NULL;
            c = *pointer == '0' ? '~' : '/';
        }
        if (n + 1 >= 256)
            return NULL;
        out[n++] = c;
    }
    out[n] = '\0';
    return pointer;
}

/* Reads an array index: "-", or a number without leading zeros. */
static bool index_of(const char *text, size_t size, size_t *ret)
{
    char *end = NULL;
    unsigned long n;

    if (pl_streq(text, "-")) {
        *ret = size;
        return true;
    }
    if (!isdigit((unsigned char)text[0]) || (text[0] == '0' && text[1] != '\0') || strlen(text) > 9)
        return false;
    n = strtoul(text, &end, 10);
    *ret = n;
    return *end == '\0' && n <= size;
}

static json_t *value_at(json_t *doc, const struct place *p)
{
    if (p->parent == NULL)
        return doc;
    return json_is_array(p->parent) ? json_array_get(p->parent, p->index) : json_object_get(p->parent, p->key);
}

/* Finds the location that a JSON pointer names. There may be no value at the location, but its parent must
 * exist. */
static int find_place(json_t *doc, const char *pointer, struct place *ret, struct pl_err *err)
{
    const char *rest = pointer;

    *ret = (struct place){0};
    while (*rest != '\0') {
        json_t *here = value_at(doc, ret);

        rest = segment(rest, ret->key);
        if (rest == NULL)
            return pl_err_set(err, PL_EINVAL, "path \"%.80s\" is not a JSON pointer", pointer);
        if (!json_is_object(here) && !json_is_array(here))
            return pl_err_set(err, PL_EINVAL, "path \"%.80s\": \"%.40s\" has no parent object or list", pointer, ret->key);
        if (json_is_array(here) && !index_of(ret->key, json_array_size(here), &ret->index))
            return pl_err_set(err, PL_EINVAL, "path \"%.80s\": \"%.40s\" is not an index of a list of %zu", pointer, ret->key,
                              json_array_size(here));
        ret->parent = here;
    }
    return 0;
}

/* Stores `value` at location `p` and takes the reference to `value`. In an array, `insert` inserts the
 * value before the element at the location; otherwise the value replaces that element. */
static int put_at(json_t **doc, const struct place *p, json_t *value, bool insert, struct pl_err *err)
{
    int r;

    if (value == NULL)
        return pl_err_nomem(err);
    if (p->parent == NULL) {
        json_decref(*doc);
        *doc = value;
        return 0;
    }
    if (json_is_object(p->parent))
        r = json_object_set_new(p->parent, p->key, value);
    else if (insert)
        r = json_array_insert_new(p->parent, p->index, value);
    else
        r = json_array_set_new(p->parent, p->index, value);
    return r < 0 ? pl_err_nomem(err) : 0;
}

static int find_value(json_t *doc, const char *pointer, struct place *ret, json_t **ret_value, struct pl_err *err)
{
    int r = find_place(doc, pointer, ret, err);

    if (r < 0)
        return r;
    *ret_value = value_at(doc, ret);
    return *ret_value != NULL ? 0 : pl_err_set(err, PL_EINVAL, "path \"%.80s\": there is no value", pointer);
}

static int remove_at(const struct place *p, const char *pointer, struct pl_err *err)
{
    if (p->parent == NULL)
        return pl_err_set(err, PL_EINVAL, "path \"%s\": the document itself cannot be removed", pointer);
    if (json_is_array(p->parent))
        (void)json_array_remove(p->parent, p->index);
    else
        (void)json_object_del(p->parent, p->key);
    return 0;
}

/* Carries out the patch operations `move` and `copy`. */
static int bring(json_t **doc, const json_t *operation, const char *path, bool moves, struct pl_err *err)
{
    const char *from = json_string_value(json_object_get(operation, "from"));
    struct place at;
    json_t *value = NULL;
    int r;

    if (from == NULL)
        return pl_err_set(err, PL_EINVAL, "\"from\" is missing");
    r = find_value(*doc, from, &at, &value, err);
    if (r < 0)
        return r;
    if (moves && strncmp(path, from, strlen(from)) == 0 && path[strlen(from)] == '/')
        return pl_err_set(err, PL_EINVAL, "\"%.80s\" cannot be moved into itself", from);
    value = json_deep_copy(value);
    if (value == NULL)
        return pl_err_nomem(err);
    r = moves ? remove_at(&at, from, err) : 0;
    r = r < 0 ? r : find_place(*doc, path, &at, err);
    if (r < 0) {
        json_decref(value);
        return r;
    }
    return put_at(doc, &at, value, true, err);
}

/* Carries out one operation of a JSON Patch. */
static int operate(json_t **doc, const json_t *operation, struct pl_err *err)
{
    const char *op = json_string_value(json_object_get(operation, "op")),
               *path = json_string_value(json_object_get(operation, "path"));
    json_t *value = json_object_get(operation, "value"), *old = NULL;
    bool needs_value = op != NULL && (pl_streq(op, "add") || pl_streq(op, "replace") || pl_streq(op, "test"));
    struct place at;
    int r;

    if (op == NULL || path == NULL)
        return pl_err_set(err, PL_EINVAL, "an operation needs \"op\" and \"path\"");
    if (needs_value && value == NULL)
        return pl_err_set(err, PL_EINVAL, "\"value\" is missing");
    if (pl_streq(op, "move") || pl_streq(op, "copy"))
        return bring(doc, operation, path, pl_streq(op, "move"), err);
    if (pl_streq(op, "add")) {
        r = find_place(*doc, path, &at, err);
        return r < 0 ? r : put_at(doc, &at, json_deep_copy(value), true, err);
    }
    if (!needs_value && !pl_streq(op, "remove"))
        return pl_err_set(err, PL_EINVAL, "operation \"%.20s\" is not supported: use add, remove, replace, move, copy or test",
                          op);
    r = find_value(*doc, path, &at, &old, err);
    if (r < 0)
        return r;
    if (pl_streq(op, "remove"))
        return remove_at(&at, path, err);
    if (pl_streq(op, "replace"))
        return put_at(doc, &at, json_deep_copy(value), false, err);
    return json_equal(old, value) ? 0 : pl_err_set(err, PL_EINVAL, "test of \"%.80s\" failed: the value differs", path);
}

int pl_json_patch(json_t **doc, const json_t *operations, struct pl_err *err)
{
    struct pl_err why = {0};
    json_t *operation;
    size_t i;

    if (!json_is_array(operations))
        return pl_err_set(err, PL_EINVAL, "a list of operations is expected");
    json_array_foreach(operations, i, operation)
    {
        int r = operate(doc, operation, &why);

        /* checked after each operation, because repeated copies double the size */
        r = r < 0 ? r : patched(*doc, &why);
        if (r < 0)
            return r == PL_ENOMEM ? pl_err_nomem(err) : pl_err_set(err, r, "[%zu]: %s", i, why.msg);
    }
    return 0;
}
