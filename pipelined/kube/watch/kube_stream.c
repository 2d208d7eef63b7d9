/* kube_stream.c: a pushdown automaton over bytes. Each open object or array is a level of the automaton's
 * stack. A level records whether the object is copied to the output, and which of its members are copied. A
 * completed frame or item is parsed with jansson and passed to a callback. */
#include "pipelined/kube/watch/kube_stream.h"

#include <ctype.h>

/* ---- the selection of members to keep ---- */

struct node {
    const char *name;
    struct node *children, *next;
};

struct pl_kube_keep {
    struct node root;
    /* copy of the selection's text; the nodes' names point into it and are NUL-terminated in place */
    char *text;
    size_t n;
    struct node nodes[PL_KUBE_KEEP_MAX];
};

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("-_./*", c) != NULL);
}

static int bad_keep(const char *text, size_t at, const char *why, struct pl_err *err)
{
    return pl_err_set(err, PL_EINVAL, "selection of members \"%.200s\", byte %zu: %s", text, at, why);
}

/* Parses the selection without recursion: `open` is a stack of the names whose braces are open. */
static int keep_parse(struct pl_kube_keep *k, const char *text, struct pl_err *err)
{
    struct node *open[PL_KUBE_DEPTH_MAX] = {&k->root}, *last = NULL;
    size_t depth = 0, at = 0;

    while (text[at] != '\0') {
        const char c = text[at];

        if (is_name_byte(c)) {
            const size_t len = strspn(text + at, "-_./*abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");

            if (k->n == PL_KUBE_KEEP_MAX)
                return bad_keep(text, at, "too many names", err);
            last = &k->nodes[k->n++];
            *last = (struct node){.name = k->text + at, .next = open[depth]->children};
            open[depth]->children = last;
            at += len;
            continue;
        }
        if (c == '{' && last != NULL && depth + 1 < PL_KUBE_DEPTH_MAX)
            open[++depth] = last;
        else if (c == '}' && depth > 0)
            depth--;
        else if (c != ' ')
            return bad_keep(text, at, "expected a name or a matching brace", err);
        k->text[at++] = '\0';
        last = c == ' ' ? last : NULL;
    }
    return depth == 0 ? 0 : bad_keep(text, at, "a brace is not closed", err);
}

int pl_kube_keep_create(const char *text, struct pl_kube_keep **ret, struct pl_err *err)
{
    struct pl_kube_keep *k = calloc(1, sizeof(*k));
    int r = 0;

    if (k == NULL)
        return pl_err_nomem(err);
    k->text = strdup(text);
    r = k->text != NULL ? keep_parse(k, text, err) : pl_err_nomem(err);
    if (r < 0) {
        pl_kube_keep_destroy(k);
        return r;
    }
    *ret = k;
    return 0;
}

struct pl_kube_keep *pl_kube_keep_destroy(struct pl_kube_keep *k)
{
    if (k != NULL)
        free(k->text);
    free(k);
    return NULL;
}

/* ---- the automaton ---- */

enum state {
    ST_BETWEEN,     /* between two documents */
    ST_VALUE,       /* a value must follow */
    ST_FIRST_VALUE, /* first element of an array, or its end */
    ST_FIRST_KEY,   /* first member of an object, or its end */
    ST_KEY,         /* a member's name must follow */
    ST_IN_KEY,
    ST_COLON,
    ST_IN_STRING,
    ST_IN_SCALAR,
    ST_AFTER, /* after a value: a comma or the end of the level */
};

enum role { ROLE_OTHER, ROLE_TOP, ROLE_ITEMS, ROLE_OBJECT, ROLE_METADATA };

/* An open object or array. `keep`: which members are copied to the output; NULL = all. `quiet`: nothing of it
 * is copied. */
struct level {
    const struct node *keep;
    bool array, quiet, any;
    enum role role;
};

struct pl_kube_scan {
    enum pl_kube_scan_kind kind;
    const struct pl_kube_keep *keep;
    struct pl_kube_scan_sink sink;
    enum state state;
    bool escaped;
    int failed; /* error code of the first failure; 0 = none */
    struct pl_err err;
    unsigned depth;
    struct level levels[PL_KUBE_DEPTH_MAX];
    struct level next; /* the level that the next value would open */
    struct pl_buf key; /* current member's name as written, without quotes */
    struct pl_buf doc, item, *out;
    unsigned item_depth; /* depth around the open list item; 0 = none is open */
    bool in_type;        /* the current string is the frame's "type" */
    size_t type_at;      /* position in `doc` at which the frame's "type" begins */
    bool whole_frame;    /* keep the frame whole: its type is ERROR, BOOKMARK, or not yet known */
    size_t docs;
};

static const struct node nothing = {.name = ""};

int pl_kube_scan_create(enum pl_kube_scan_kind kind, const struct pl_kube_keep *keep, const struct pl_kube_scan_sink *sink,
                        struct pl_kube_scan **ret, struct pl_err *err)
{
    struct pl_kube_scan *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return pl_err_nomem(err);
    s->kind = kind;
    s->keep = keep != NULL && keep->root.children != NULL ? keep : NULL;
    s->sink = *sink;
    s->doc.max = s->item.max = PL_KUBE_OBJECT_MAX;
    s->key.max = PL_KUBE_KEY_MAX;
    s->out = &s->doc;
    *ret = s;
    return 0;
}

struct pl_kube_scan *pl_kube_scan_destroy(struct pl_kube_scan *s)
{
    if (s == NULL)
        return NULL;
    pl_buf_finish(&s->doc);
    pl_buf_finish(&s->item);
    pl_buf_finish(&s->key);
    free(s);
    return NULL;
}

static int bad(struct pl_kube_scan *s, const char *why)
{
    return pl_err_set(&s->err, PL_EPROTO, "the API server's answer is malformed: %s", why);
}

static struct level *top(struct pl_kube_scan *s)
{
    return &s->levels[s->depth - 1];
}

static int put(struct pl_kube_scan *s, bool quiet, const void *data, size_t n)
{
    int r;

    if (quiet || n == 0)
        return 0;
    r = pl_buf_add(s->out, data, n, &s->err);
    if (r == PL_ETOOBIG)
        (void)pl_err_set(&s->err, r, "an object in the API server's answer is larger than %u bytes", PL_KUBE_OBJECT_MAX);
    return r;
}

/* ---- members ---- */

static bool key_is(const struct pl_kube_scan *s, const char *name)
{
    return s->key.len == strlen(name) && memcmp(s->key.data, name, s->key.len) == 0;
}

static bool key_among(const struct pl_kube_scan *s, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (key_is(s, names[i]))
            return true;
    return false;
}

/* True for members that are kept whatever the selection says. */
static bool is_always_kept(const struct pl_kube_scan *s, enum role role)
{
    static const char *const of_object[] = {"kind", "apiVersion"};
    static const char *const of_metadata[] = {"name", "namespace", "uid", "resourceVersion"};

    return (role == ROLE_OBJECT && key_among(s, of_object, PL_ARRAY_SIZE(of_object))) ||
           (role == ROLE_METADATA && key_among(s, of_metadata, PL_ARRAY_SIZE(of_metadata)));
}

/* Returns the selection's entry for the current member; NULL = not kept. */
static const struct node *find_kept(const struct pl_kube_scan *s, const struct level *l)
{
    for (const struct node *n = l->keep->children; n != NULL; n = n->next)
        if (pl_streq(n->name, "*") || key_is(s, n->name))
            return n;
    return NULL;
}

static const struct node *keep_of_object(const struct pl_kube_scan *s, bool whole)
{
    return whole || s->keep == NULL ? NULL : &s->keep->root;
}

/* Called after a member's name was read: decides whether the member's value is copied, and which parts of
 * it. */
static void choose_member(struct pl_kube_scan *s)
{
    const struct level *l = top(s);
    const struct node *kept;

    s->next = (struct level){.quiet = l->quiet};
    if (l->role == ROLE_TOP && s->kind == PL_KUBE_SCAN_WATCH && key_is(s, "object"))
        s->next = (struct level){.role = ROLE_OBJECT, .keep = keep_of_object(s, s->whole_frame)};
    else if (l->role == ROLE_TOP && s->kind == PL_KUBE_SCAN_LIST && key_is(s, "items"))
        s->next.role = ROLE_ITEMS;
    s->in_type = l->role == ROLE_TOP && s->kind == PL_KUBE_SCAN_WATCH && key_is(s, "type");
    if ((l->role == ROLE_OBJECT || (l->role == ROLE_TOP && s->kind == PL_KUBE_SCAN_LIST)) && key_is(s, "metadata"))
        s->next.role = ROLE_METADATA;
    if (l->role == ROLE_METADATA && key_is(s, "managedFields"))
        s->next.quiet = true;
    if (l->quiet || l->keep == NULL || is_always_kept(s, l->role))
        return;
    kept = find_kept(s, l);
    if (kept == NULL && s->next.role == ROLE_METADATA)
        kept = &nothing;
    s->next.quiet = kept == NULL;
    s->next.keep = kept != NULL && (kept->children != NULL || kept == &nothing) ? kept : NULL;
}

static int begin_member(struct pl_kube_scan *s)
{
    struct level *l = top(s);
    int r;

    choose_member(s);
    if (s->next.quiet)
        return 0;
    r = l->any ? put(s, false, ",", 1) : 0;
    l->any = true;
    if (r == 0)
        r = put(s, false, "\"", 1);
    if (r == 0)
        r = put(s, false, s->key.data, s->key.len);
    return r < 0 ? r : put(s, false, "\":", 2);
}

/* ---- values ---- */

/* Parses the completed JSON text in `from`, passes the value to the callback, and clears `from`. */
static int hand_on(struct pl_kube_scan *s, struct pl_buf *from, int (*to)(void *self, json_t *value, struct pl_err *err))
{
    json_error_t e;
    json_t *value = json_loadb((const char *)from->data, from->len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
    int r = 0;

    if (value == NULL)
        return bad(s, e.text);
    if (to != NULL)
        r = to(s->sink.self, value, &s->err);
    json_decref(value);
    pl_buf_clear(from);
    return r;
}

static int end_value(struct pl_kube_scan *s)
{
    s->state = s->depth == 0 ? ST_BETWEEN : ST_AFTER;
    if (s->item_depth != 0 && s->depth == s->item_depth) {
        s->item_depth = 0;
        s->out = &s->doc;
        return hand_on(s, &s->item, s->sink.item);
    }
    if (s->depth > 0)
        return 0;
    s->docs++;
    return hand_on(s, &s->doc, s->sink.doc);
}

/* Prepares for an array's next element: the first one, or one after a comma. */
static int begin_element(struct pl_kube_scan *s, char c)
{
    struct level *l = top(s);

    s->next = (struct level){.quiet = l->quiet, .keep = l->keep};
    if (l->role == ROLE_ITEMS) {
        if (c != '{')
            return bad(s, "an item of a list is not an object");
        s->next = (struct level){.role = ROLE_OBJECT, .keep = keep_of_object(s, false)};
        s->item_depth = s->depth;
        s->out = &s->item;
        return 0;
    }
    if (l->quiet)
        return 0;
    if (l->any)
        return put(s, false, ",", 1);
    l->any = true;
    return 0;
}

static int open_level(struct pl_kube_scan *s, char c)
{
    if (s->depth == PL_KUBE_DEPTH_MAX)
        return bad(s, "it is nested too deeply");
    s->levels[s->depth] = s->next;
    s->levels[s->depth].array = c == '[';
    s->levels[s->depth].any = false;
    if (c == '[' && s->next.role != ROLE_ITEMS)
        s->levels[s->depth].role = ROLE_OTHER;
    if (c == '{' && s->next.role == ROLE_ITEMS)
        return bad(s, "the items of a list are not an array");
    s->depth++;
    s->state = c == '[' ? ST_FIRST_VALUE : ST_FIRST_KEY;
    return put(s, s->next.quiet, &c, 1);
}

/* Begins the value whose first byte is `c`. */
static int begin_value(struct pl_kube_scan *s, char c)
{
    int r = s->depth > 0 && top(s)->array ? begin_element(s, c) : 0;

    if (r < 0)
        return r;
    if (c == '{' || c == '[') {
        s->in_type = false;
        return open_level(s, c);
    }
    if (c == '"') {
        s->state = ST_IN_STRING;
        s->escaped = false;
        s->type_at = s->out->len + 1;
        return put(s, s->next.quiet, "\"", 1);
    }
    if (strchr("-0123456789tfn", c) == NULL || c == '\0')
        return bad(s, "a value is missing");
    s->in_type = false;
    s->state = ST_IN_SCALAR;
    return put(s, s->next.quiet, &c, 1);
}

static int close_level(struct pl_kube_scan *s, char c)
{
    const struct level *l;

    if (s->depth == 0 || top(s)->array != (c == ']'))
        return bad(s, "a bracket does not match");
    l = top(s);
    s->depth--;
    if (put(s, l->quiet, &c, 1) < 0)
        return s->err.code;
    return end_value(s);
}

/* Called when the frame's type was read: decides whether the frame is kept whole. */
static void take_type(struct pl_kube_scan *s)
{
    const char *type = (const char *)s->doc.data + s->type_at;
    const size_t n = s->doc.len - s->type_at;

    s->whole_frame = (n == 5 && memcmp(type, "ERROR", 5) == 0) || (n == 8 && memcmp(type, "BOOKMARK", 8) == 0);
}

/* Reads bytes of a string or name up to its closing quote. Returns their number, or a negative error. */
static ssize_t in_string(struct pl_kube_scan *s, const char *data, size_t n)
{
    const bool key = s->state == ST_IN_KEY;
    size_t i = 0;
    bool ended = false;
    int r;

    for (; i < n && !ended; i++) {
        if (s->escaped)
            s->escaped = false;
        else if (data[i] == '\\')
            s->escaped = true;
        else
            ended = data[i] == '"';
    }
    r = key ? pl_buf_add(&s->key, data, i - ended, &s->err) : put(s, s->next.quiet, data, i - ended);
    if (key && r == PL_ETOOBIG)
        r = bad(s, "the name of a member is too long");
    if (r < 0)
        return r;
    if (!ended)
        return (ssize_t)i;
    if (key) {
        s->state = ST_COLON;
        return (ssize_t)i;
    }
    if (s->in_type)
        take_type(s);
    s->in_type = false;
    r = put(s, s->next.quiet, "\"", 1);
    if (r == 0)
        r = end_value(s);
    return r < 0 ? r : (ssize_t)i;
}

static ssize_t in_scalar(struct pl_kube_scan *s, const char *data, size_t n)
{
    size_t i = 0;
    int r;

    while (i < n && strchr(",}] \t\r\n", data[i]) == NULL)
        if (!isalnum((unsigned char)data[i]) && strchr("+-.", data[i]) == NULL)
            return bad(s, "a number or literal is malformed");
        else
            i++;
    if (i < n && data[i] == '\0')
        return bad(s, "it contains a NUL byte");
    r = put(s, s->next.quiet, data, i);
    if (r == 0 && i < n)
        r = end_value(s);
    return r < 0 ? r : (ssize_t)i;
}

/* ---- bytes ---- */

static int begin_document(struct pl_kube_scan *s, char c)
{
    if (c != '{')
        return bad(s, "an object is missing");
    if (s->kind == PL_KUBE_SCAN_LIST && s->docs > 0)
        return bad(s, "data after the end of the list");
    s->whole_frame = true;
    s->in_type = false;
    s->next = (struct level){.role = ROLE_TOP};
    return open_level(s, c);
}

static int begin_key(struct pl_kube_scan *s, char c)
{
    if (c == '}' && s->state == ST_FIRST_KEY)
        return close_level(s, c);
    if (c != '"')
        return bad(s, "the name of a member is missing");
    s->state = ST_IN_KEY;
    s->escaped = false;
    pl_buf_clear(&s->key);
    return 0;
}

static int after_value(struct pl_kube_scan *s, char c)
{
    if (c == '}' || c == ']')
        return close_level(s, c);
    if (c != ',')
        return bad(s, "a comma is missing");
    s->state = top(s)->array ? ST_VALUE : ST_KEY;
    return 0;
}

/* Handles one byte that is outside of strings and numbers and is not white space. */
static int step(struct pl_kube_scan *s, char c)
{
    switch (s->state) {
    case ST_BETWEEN:
        return begin_document(s, c);
    case ST_FIRST_KEY:
    case ST_KEY:
        return begin_key(s, c);
    case ST_COLON:
        if (c != ':')
            return bad(s, "a colon is missing");
        s->state = ST_VALUE;
        return begin_member(s);
    case ST_FIRST_VALUE:
        return c == ']' ? close_level(s, c) : begin_value(s, c);
    case ST_AFTER:
        return after_value(s, c);
    default:
        return begin_value(s, c);
    }
}

static ssize_t feed_some(struct pl_kube_scan *s, const char *data, size_t n)
{
    int r;

    if (s->state == ST_IN_STRING || s->state == ST_IN_KEY)
        return in_string(s, data, n);
    if (s->state == ST_IN_SCALAR)
        return in_scalar(s, data, n);
    if (*data == ' ' || *data == '\n' || *data == '\t' || *data == '\r')
        return 1;
    r = step(s, *data);
    return r < 0 ? r : 1;
}

int pl_kube_scan_feed(struct pl_kube_scan *s, const void *data, size_t n, struct pl_err *err)
{
    const char *at = data, *end = at + n;

    while (s->failed == 0 && at < end) {
        const ssize_t done = feed_some(s, at, (size_t)(end - at));

        if (done < 0)
            s->failed = (int)done;
        else
            at += done;
    }
    if (s->failed < 0 && err != NULL)
        *err = s->err;
    return s->failed;
}

bool pl_kube_scan_is_whole(const struct pl_kube_scan *s)
{
    return s->failed == 0 && s->state == ST_BETWEEN && (s->kind == PL_KUBE_SCAN_WATCH || s->docs == 1);
}
