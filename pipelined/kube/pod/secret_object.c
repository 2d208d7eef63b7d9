/* secret_object.c: makes and reads v1 Secrets, and overwrites values in an answer's text before it is
 * parsed. */
#include "pipelined/kube/pod/secret_object.h"

#include "pipelined/text/json_text.h"

#include <ctype.h>
#include <stdio.h>
#include <time.h>

void pl_secret_label(const char *project, char ret[PL_SECRET_LABEL_BYTES])
{
    const size_t n = strlen(project);

    (void)snprintf(ret, PL_SECRET_LABEL_BYTES, "%.51s%s", project, n > 0 && !isalnum((unsigned char)project[n - 1]) ? ".x" : "");
}

json_t *pl_secret_object(const struct pl_secret_op *op, const char *space, const char *store)
{
    char label[PL_SECRET_LABEL_BYTES];

    pl_secret_label(op->project, label);
    return json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:{s:s, s:s, s:s}}, s:O}", "apiVersion", "v1", "kind", "Secret", "type",
                     "Opaque", "metadata", "name", op->name, "namespace", space, "labels", "app.kubernetes.io/managed-by",
                     "pipelined", PL_SECRET_LABEL, label, PL_SECRET_STORE, store, "data", (json_t *)(uintptr_t)op->values);
}

json_t *pl_secret_object_patch(const struct pl_secret_op *op)
{
    return json_pack("{s:O}", "data", (json_t *)(uintptr_t)op->values);
}

static const char *label_of(const json_t *object, const char *label)
{
    return pl_json_str(json_object_get(json_object_get(object, "metadata"), "labels"), label);
}

const char *pl_secret_object_label(const json_t *object, const char *store)
{
    const char *of = label_of(object, PL_SECRET_STORE);

    return !*of || pl_streq(of, store) ? label_of(object, PL_SECRET_LABEL) : "";
}

enum pl_secret_whose pl_secret_object_whose(const json_t *object, const char *project, const char *store)
{
    char label[PL_SECRET_LABEL_BYTES];

    pl_secret_label(project, label);
    if (!*project || !pl_streq(pl_secret_object_label(object, store), label))
        return PL_SECRET_OTHERS;
    return *label_of(object, PL_SECRET_STORE) ? PL_SECRET_OWN : PL_SECRET_LENT;
}

#define BLANK_DEPTH 64

struct level {
    bool object, hides; /* hides: all strings in the object or array, except keys, are overwritten */
    bool value;         /* in an object: a value follows, not a key */
    bool next;          /* the next value is overwritten */
};

static size_t string_end(const char *text, size_t n, size_t at)
{
    while (at < n && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    return PL_MIN(at, n);
}

static bool hides_values(const char *key, size_t n)
{
    static const char *const keys[] = {"data", "stringData", "annotations"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
        if (n == strlen(keys[i]) && memcmp(key, keys[i], n) == 0)
            return true;
    /* a key with escapes may be an escaped spelling of one of these keys */
    return memchr(key, '\\', n) != NULL;
}

static void blank_string(struct level *l, char *text, size_t n)
{
    if (l->object && !l->value)
        l->next = l->hides || hides_values(text, n);
    else if (l->object ? l->next : l->hides)
        memset(text, '*', n);
}

/* Follows the structure of JSON with a stack of levels; the text need not be valid. */
void pl_secret_object_blank(char *text, size_t n)
{
    struct level levels[BLANK_DEPTH] = {{0}}, *l = levels;

    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') {
            const size_t end = string_end(text, n, i + 1);

            blank_string(l, text + i + 1, end - i - 1);
            i = end;
        } else if (text[i] == '{' || text[i] == '[') {
            const bool hides = l->object ? l->next : l->hides;

            if (++l == levels + BLANK_DEPTH) {
                memset(text + i, '*', n - i);
                return;
            }
            *l = (struct level){.object = text[i] == '{', .hides = hides};
        } else if ((text[i] == '}' || text[i] == ']') && l > levels) {
            l--;
        } else if (text[i] == ':' || text[i] == ',') {
            l->value = text[i] == ':';
        }
    }
}

/* Parses an RFC 3339 time in UTC, as the API server writes it; 0 if it is malformed. */
static json_int_t time_us(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);

    return end && !*end ? (json_int_t)timegm(&tm) * 1000000 : 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(pl_json_str(*(json_t *const *)a, "name"), pl_json_str(*(json_t *const *)b, "name"));
}

static json_t *one_json(const json_t *object)
{
    const json_t *metadata = json_object_get(object, "metadata");
    json_t *keys = json_array(), *value;
    const char *key;

    json_object_foreach(json_object_get(object, "data"), key, value) json_array_append_new(keys, json_string(key));
    return json_pack("{s:s, s:o, s:I}", "name", pl_json_str(metadata, "name"), "keys", keys, "updated_us",
                     time_us(pl_json_str(metadata, "creationTimestamp")));
}

json_t *pl_secret_object_list(const json_t *items, const char *project, const char *store)
{
    _cleanup_free_ json_t **all = calloc(json_array_size(items) + 1, sizeof(json_t *));
    json_t *list = all ? json_array() : NULL;
    const json_t *object;
    size_t n = 0, i;

    json_array_foreach(items, i, object)
    {
        if (list && pl_secret_object_whose(object, project, store) != PL_SECRET_OTHERS)
            all[n++] = one_json(object);
    }
    if (n)
        qsort(all, n, sizeof(json_t *), compare);
    for (i = 0; i < n; i++)
        (void)json_array_append_new(list, all[i]);
    return list;
}
