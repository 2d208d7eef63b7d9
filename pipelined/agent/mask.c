#include "pipelined/agent/mask.h"

static bool has_text(const struct pl_mask *m, const char *text, size_t len)
{
    for (size_t i = 0; m->first[(unsigned char)*text] && i < m->n; i++)
        if (m->texts[i].len == len && memcmp(m->texts[i].text, text, len) == 0)
            return true;
    return false;
}

static int add_text(struct pl_mask *m, const char *text, size_t len, struct pl_err *err)
{
    len = PL_MIN(len, PL_MASK_MAX);
    if (len < PL_MASK_MIN || m->n == PL_MASK_TEXTS || has_text(m, text, len))
        return 0;
    if (m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 16;
        struct pl_mask_text *texts = realloc(m->texts, cap * sizeof(*texts));

        if (!texts)
            return pl_err_nomem(err);
        m->texts = texts;
        m->cap = cap;
    }
    m->texts[m->n] = (struct pl_mask_text){malloc(len), len};
    if (!m->texts[m->n].text)
        return pl_err_nomem(err);
    memcpy(m->texts[m->n++].text, text, len);
    m->first[(unsigned char)*text] = true;
    return 0;
}

int pl_mask_add(struct pl_mask *m, const char *text, size_t len, struct pl_err *err)
{
    int r = 0;

    for (size_t at = 0, n; r == 0 && at < len; at += n + 1) {
        const char *end = memchr(text + at, '\n', len - at);

        n = end ? (size_t)(end - (text + at)) : len - at;
        r = add_text(m, text + at, n && text[at + n - 1] == '\r' ? n - 1 : n, err);
    }
    return r;
}

static int longest_first(const void *a, const void *b)
{
    const struct pl_mask_text *x = a, *y = b;

    return (x->len < y->len) - (x->len > y->len);
}

void pl_mask_ready(struct pl_mask *m)
{
    if (m->n)
        qsort(m->texts, m->n, sizeof(*m->texts), longest_first);
}

void pl_mask_finish(struct pl_mask *m)
{
    for (size_t i = 0; i < m->n; i++) {
        explicit_bzero(m->texts[i].text, m->texts[i].len);
        free(m->texts[i].text);
    }
    free(m->texts);
    *m = (struct pl_mask){0};
}

/* Bytes of the text that begins here; 0: none does; SIZE_MAX: one may, when more comes. */
static size_t begins(const struct pl_mask *m, const uint8_t *at, size_t left, bool end)
{
    size_t found = 0;

    if (!m->first[*at])
        return 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct pl_mask_text *t = &m->texts[i];

        if (memcmp(t->text, at, PL_MIN(t->len, left)) != 0)
            continue;
        if (t->len > left && !end)
            return SIZE_MAX;
        if (t->len <= left)
            found = PL_MAX(found, t->len);
    }
    return found;
}

void pl_mask_pass(const struct pl_mask *m, struct pl_buf *held, const void *data, size_t n, bool end, struct pl_buf *out)
{
    size_t at = 0, plain = 0, len = 0;

    if (pl_buf_add(held, data, n, NULL) < 0)
        return;
    for (; at < held->len; at += len ? len : 1) {
        len = begins(m, held->data + at, held->len - at, end);
        if (len == SIZE_MAX)
            break;
        if (len == 0)
            continue;
        if (pl_buf_add(out, held->data + plain, at - plain, NULL) < 0 || pl_buf_add_str(out, PL_MASK_STARS, NULL) < 0)
            break;
        plain = at + len;
    }
    at = PL_MIN(at, held->len);
    (void)!pl_buf_add(out, held->data + plain, at - plain, NULL);
    if (at > 0 && at < held->len)
        memmove(held->data, held->data + at, held->len - at);
    held->len -= at;
}
