/* store_marker: reads the marker with a small parser of its own, and creates it with an exclusive put. */
#include "storage/object/store_marker.h"

#include <stdio.h>

#define MARKER_MAX_BYTES 4096

/* The marker is a JSON object of strings without escapes; this parser supports nothing else. */
static void marker_skip_space(struct pl_cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
}

static bool marker_char(struct pl_cursor *c, char want)
{
    marker_skip_space(c);
    if (c->p == c->end || *c->p != (uint8_t)want)
        return false;
    c->p++;
    return true;
}

static bool marker_string(struct pl_cursor *c, char *out, size_t size)
{
    size_t n = 0;

    if (!marker_char(c, '"'))
        return false;
    while (c->p < c->end && *c->p != '"') {
        if (*c->p < 0x20 || *c->p == '\\' || n + 1 >= size)
            return false;
        out[n++] = (char)*c->p++;
    }
    out[n] = '\0';
    return marker_char(c, '"');
}

/* Parses the marker. Unknown fields are ignored: the field `format` tells whether this is safe. */
static bool marker_parse(const struct pl_buf *text, struct pl_store_marker *m)
{
    struct pl_cursor c = pl_cursor_of(text->data, text->len);
    char name[64], value[128];

    *m = (struct pl_store_marker){0};
    if (!marker_char(&c, '{'))
        return false;
    do {
        if (!marker_string(&c, name, sizeof(name)) || !marker_char(&c, ':') || !marker_string(&c, value, sizeof(value)))
            return false;
        if (pl_streq(name, "format"))
            (void)snprintf(m->format, sizeof(m->format), "%.15s", value);
        else if (pl_streq(name, "store"))
            (void)snprintf(m->store_id, sizeof(m->store_id), "%.32s", value);
        else if (pl_streq(name, "hash"))
            (void)snprintf(m->hash, sizeof(m->hash), "%.15s", value);
        else if (pl_streq(name, "chunker"))
            (void)snprintf(m->chunker, sizeof(m->chunker), "%.15s", value);
    } while (marker_char(&c, ','));
    if (!marker_char(&c, '}'))
        return false;
    marker_skip_space(&c);
    return c.p == c.end && pl_id_ok(m->store_id);
}

static int marker_known(const struct pl_store_marker *m, struct pl_err *err)
{
    if (pl_streq(m->format, PL_STORE_MARKER_FORMAT) && pl_streq(m->hash, PL_STORE_MARKER_HASH_NAME) &&
        pl_streq(m->chunker, PL_STORE_MARKER_CHUNKER))
        return 0;
    pl_err_set(err, PL_EFORMAT, "the store has format %s with %s and %s; this program supports %s with %s and %s", m->format,
               m->hash, m->chunker, PL_STORE_MARKER_FORMAT, PL_STORE_MARKER_HASH_NAME, PL_STORE_MARKER_CHUNKER);
    return pl_err_hint(err, PL_EFORMAT, "%s",
                       pl_streq(m->format, "1-dev")
                           ? "It is a draft from before the first release: create a new store and push the data again."
                           : "Use a newer program, such as the one that wrote it.");
}

int pl_store_marker_read(struct pl_object_store *s, struct pl_store_marker *ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = MARKER_MAX_BYTES};
    struct pl_store_marker m;
    int r;

    r = pl_object_get_all(s, PL_STORE_MARKER_KEY, &text, err);
    if (r < 0)
        return pl_err_wrap(err, r, "read the store's marker");
    if (!marker_parse(&text, &m))
        return pl_err_set(err, PL_ECORRUPT, "the store's marker \"" PL_STORE_MARKER_KEY "\" is damaged");
    r = marker_known(&m, err);
    if (r == 0)
        *ret = m;
    return r;
}

static int marker_foreign(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)arg;
    (void)size;
    return pl_err_set(err, PL_EFORMAT,
                      "there are objects (\"%s\") but no marker \"" PL_STORE_MARKER_KEY "\": this is not a store", key);
}

/* Puts a marker with a new random id, unless another program puts one first. */
static int marker_make(struct pl_object_store *s, struct pl_err *err)
{
    uint8_t id[PL_ID_HEX / 2];
    char hex[PL_ID_HEX + 1], text[256];
    struct iovec iov = {.iov_base = text};
    int r;

    pl_random_bytes(id, sizeof(id));
    pl_hex_encode(id, sizeof(id), hex);
    iov.iov_len =
        (size_t)snprintf(text, sizeof(text),
                         "{\"format\":\"" PL_STORE_MARKER_FORMAT "\",\"store\":\"%s\",\"hash\":\"" PL_STORE_MARKER_HASH_NAME
                         "\",\"chunker\":\"" PL_STORE_MARKER_CHUNKER "\"}\n",
                         hex);
    r = pl_object_put(s, PL_STORE_MARKER_KEY, &iov, 1, true, err);
    if (r < 0 && r != PL_EEXISTS) /* another program was first: use its marker */
        return r;
    return pl_object_flush(s, err);
}

int pl_store_marker_init(struct pl_object_store *s, struct pl_store_marker *ret, struct pl_err *err)
{
    int r = pl_store_marker_read(s, ret, err);

    if (r != PL_ENOTFOUND)
        return r;
    r = pl_object_list(s, "", marker_foreign, NULL, err);
    if (r == PL_EFORMAT) { /* another program may have made the store since the first read */
        int again = pl_store_marker_read(s, ret, NULL);

        return again == 0 ? 0 : r;
    }
    if (r == 0)
        r = marker_make(s, err);
    return r < 0 ? pl_err_wrap(err, r, "make the store's marker") : pl_store_marker_read(s, ret, err);
}

int pl_store_marker_id(struct pl_object_store *s, uint8_t ret[PL_ID_HEX / 2], struct pl_err *err)
{
    struct pl_store_marker m;
    int r = pl_store_marker_read(s, &m, err);

    if (r < 0)
        return r;
    /* cannot fail: pl_store_marker_read has checked it */
    (void)pl_hex_decode(m.store_id, ret, PL_ID_HEX / 2);
    return 0;
}
