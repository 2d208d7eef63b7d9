#include "pipelined/failure/failure_groups.h"

#include "pipelined/failure/error_line.h"
#include "storage/base/path.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define HEX_ID_DIGITS 6 /* so many hex digits, one of them 0–9, are an id and not a word */

const char *pl_failure_message(const struct pl_failure *f, struct pl_arena *arena)
{
    const struct pl_error_line line = f->exited ? pl_error_line(f->tail) : (struct pl_error_line){0};
    char *text = line.len > 0 ? pl_arena_strndup(arena, line.text, PL_MIN(line.len, PL_FAILURE_MESSAGE_MAX))
                              : pl_arena_strndup(arena, f->reason, strnlen(f->reason, PL_FAILURE_MESSAGE_MAX));

    return text ? pl_utf8_trim(text) : NULL;
}

/* ---- the key ---- */

/* Returns the length of a quoted name at `s`, with its quotes; 0: there is none. The apostrophe of "can't" opens
 * nothing, because it follows a letter. */
static size_t quoted(const char *message, const char *s)
{
    const char *end;

    if ((*s != '\'' && *s != '"' && *s != '`') || (s > message && isalnum((unsigned char)s[-1])))
        return 0;
    end = strchr(s + 1, *s == '`' && strchr(s + 1, '`') == NULL ? '\'' : *s);
    return end ? (size_t)(end - s) + 1 : 0;
}

/* Returns the length of a path at `s`, the start of a word; 0: the word is none. Punctuation at its end does not
 * belong to it. */
static size_t path(const char *s)
{
    size_t n = strcspn(s, " \t,;()[]{}<>\"'=");

    if (memchr(s, '/', n) == NULL)
        return 0;
    while (n > 1 && (s[n - 1] == '.' || s[n - 1] == ':'))
        n--;
    return n;
}

/* Returns the length of a number or a hexadecimal id at `s`; 0: there is none. Units stay: "4.5 s" and "12 s"
 * become equal, "4 ms" does not. */
static size_t number(const char *s, bool begins_word)
{
    size_t n = 0, digits = 0;

    if (begins_word) {
        const size_t skip = s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 2 : 0;

        for (n = skip; isxdigit((unsigned char)s[n]); n++)
            digits += isdigit((unsigned char)s[n]) != 0;
        if (!isalnum((unsigned char)s[n]) && ((skip > 0 && n > skip) || (n >= HEX_ID_DIGITS && digits > 0)))
            return n;
    }
    for (n = 0;
         isdigit((unsigned char)s[n]) || (n > 0 && strchr(".,:-", s[n]) && s[n] != '\0' && isdigit((unsigned char)s[n + 1]));)
        n++;
    return n;
}

const char *pl_failure_key(const char *message, struct pl_arena *arena)
{
    char *key = pl_arena_alloc(arena, strlen(message) + 1); /* no mark is longer than what it replaces */
    size_t n = 0;

    for (const char *s = message; key && *s != '\0';) {
        const bool word = s == message || (!isalnum((unsigned char)s[-1]) && s[-1] != '_');
        size_t skip = quoted(message, s);
        const char *mark = "\"\"";

        if (skip == 0 && (s == message || strchr(" \t,;()[]{}<>\"'=", s[-1])))
            skip = path(s), mark = "/";
        if (skip == 0)
            skip = number(s, word), mark = "#";
        if (skip == 0) {
            key[n++] = *s++;
            continue;
        }
        memcpy(key + n, mark, strlen(mark));
        n += strlen(mark);
        s += skip;
    }
    return key;
}

/* ---- groups ---- */

struct keyed {
    const char *message, *key;
    size_t index;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    const int order = strcmp(x->key, y->key);

    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static int by_size(const void *a, const void *b)
{
    const struct pl_failure_group *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x->members[0] > y->members[0]) - (x->members[0] < y->members[0]);
}

/* Cuts a text to its last folder below the root of an input, and returns where that input begins: of "a=/x/y, b=/1" it
 * leaves "a=/x/" and returns 0. Returns -1 if no input has such a folder. */
static ptrdiff_t last_folder(char *text)
{
    size_t n = strlen(text);

    for (;;) {
        const char *comma;
        size_t from;

        while (n > 0 && text[n - 1] != '/')
            n--;
        text[n] = '\0';
        if (n == 0)
            return -1;
        comma = strstr(text, ", ");
        for (const char *next = comma; next; next = strstr(next + 2, ", "))
            comma = next;
        from = comma ? (size_t)(comma + 2 - text) : 0;
        if (strchr(text + from, '/') != text + n - 1)
            return (ptrdiff_t)from;
        n = from; /* that is the root of the input */
    }
}

/* Returns the folder in which all members lie in one of the inputs, "photos=/lisbon/"; "" if there is none. */
static const char *common_folder(const struct pl_failure *f, const struct pl_failure_group *g, struct pl_arena *arena)
{
    const char *first = f[g->members[0]].paths;
    size_t n = strlen(first);
    ptrdiff_t from;
    char *same;

    for (size_t i = 1; i < g->count; i++) {
        const char *other = f[g->members[i]].paths;
        size_t at = 0;

        while (at < n && other[at] == first[at])
            at++;
        n = at;
    }
    same = pl_arena_strndup(arena, first, n);
    from = same ? last_folder(same) : -1;
    return !same ? NULL : from < 0 ? "" : same + from;
}

/* Fills in what the members have in common. */
static void compare(const struct pl_failure *f, struct pl_failure_group *g, struct pl_arena *arena)
{
    const struct pl_failure *first = &f[g->members[0]];
    bool sizes = true;

    g->reason = first->reason;
    g->node = first->node;
    g->bytes_min = g->bytes_max = first->bytes;
    for (size_t i = 0; i < g->count; i++) {
        const struct pl_failure *one = &f[g->members[i]];

        if (!pl_streq(one->reason, g->reason))
            g->reason = "";
        if (!pl_streq(one->node, g->node))
            g->node = "";
        sizes = sizes && one->bytes >= 0;
        g->bytes_min = PL_MIN(g->bytes_min, one->bytes);
        g->bytes_max = PL_MAX(g->bytes_max, one->bytes);
    }
    if (!sizes)
        g->bytes_min = g->bytes_max = -1;
    g->folder = common_folder(f, g, arena);
}

int pl_failure_groups(const struct pl_failure *f, size_t n, struct pl_arena *arena, struct pl_failure_group **ret, size_t *ret_n,
                      struct pl_err *err)
{
    struct keyed *keyed = pl_arena_alloc(arena, (n + 1) * sizeof(*keyed));
    struct pl_failure_group *groups = pl_arena_alloc(arena, (n + 1) * sizeof(*groups));
    size_t *members = pl_arena_alloc(arena, (n + 1) * sizeof(*members)), n_groups = 0;

    if (!keyed || !groups || !members)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        keyed[i] = (struct keyed){.message = pl_failure_message(&f[i], arena), .index = i};
        keyed[i].key = keyed[i].message ? pl_failure_key(keyed[i].message, arena) : NULL;
        if (!keyed[i].key)
            return pl_err_nomem(err);
    }
    qsort(keyed, n, sizeof(*keyed), by_key);
    for (size_t i = 0; i < n; i++) {
        members[i] = keyed[i].index;
        if (i == 0 || !pl_streq(keyed[i].key, keyed[i - 1].key))
            groups[n_groups++] =
                (struct pl_failure_group){.message = keyed[i].message, .key = keyed[i].key, .members = &members[i]};
        groups[n_groups - 1].count++;
    }
    for (size_t i = 0; i < n_groups; i++) {
        compare(f, &groups[i], arena);
        if (!groups[i].folder)
            return pl_err_nomem(err);
    }
    qsort(groups, n_groups, sizeof(*groups), by_size);
    *ret = groups;
    *ret_n = n_groups;
    return 0;
}
