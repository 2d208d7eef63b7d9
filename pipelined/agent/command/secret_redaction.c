/* Searches linearly: tries all secret texts at a position, the longest first. A table of the texts' first
 * bytes skips most positions. */
#include "pipelined/agent/command/secret_redaction.h"

/* value of the field `round` for a secret text that belongs to all rounds */
#define FOR_GOOD UINT64_MAX

static struct pl_secret_redaction_text *find(const struct pl_secret_redaction *m, const char *text, size_t len)
{
    for (size_t i = 0; m->first[(unsigned char)*text] && i < m->n; i++)
        if (m->texts[i].len == len && memcmp(m->texts[i].text, text, len) == 0)
            return &m->texts[i];
    return NULL;
}

static void forget(struct pl_secret_redaction_text *t)
{
    explicit_bzero(t->text, t->len);
    free(t->text);
}

static bool is_of_round(const struct pl_secret_redaction *m, const struct pl_secret_redaction_text *t)
{
    return t->round == m->round || t->round == FOR_GOOD;
}

/* Returns the array entry for a new text. If PL_SECRET_REDACTION_TEXTS texts are stored, this is the entry
 * of the oldest text that is not of the current round; the caller ensures that such a text exists. If the
 * replaced text is added again later in this round, it gets a new entry. Returns NULL if memory runs out. */
static struct pl_secret_redaction_text *make_room(struct pl_secret_redaction *m)
{
    struct pl_secret_redaction_text *oldest = NULL;

    if (m->n < PL_SECRET_REDACTION_TEXTS && m->n == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 16;
        struct pl_secret_redaction_text *texts = realloc(m->texts, cap * sizeof(*texts));

        if (!texts)
            return NULL;
        m->texts = texts;
        m->cap = cap;
    }
    if (m->n < PL_SECRET_REDACTION_TEXTS)
        return &m->texts[m->n];
    for (size_t i = 0; i < m->n; i++)
        if (!is_of_round(m, &m->texts[i]) && (!oldest || m->texts[i].age < oldest->age))
            oldest = &m->texts[i];
    return oldest;
}

static int put_text(struct pl_secret_redaction *m, const char *text, size_t len, uint64_t round, struct pl_err *err)
{
    char *copy = malloc(len);
    struct pl_secret_redaction_text *t = copy ? make_room(m) : NULL;

    if (!t) {
        free(copy);
        return pl_err_nomem(err);
    }
    if (t == &m->texts[m->n])
        m->n++;
    else
        forget(t);
    memcpy(copy, text, len);
    *t = (struct pl_secret_redaction_text){copy, len, m->age++, round};
    m->first[(unsigned char)*text] = true;
    m->n_round++;
    return 0;
}

/* Adds one line of a secret text to the current round. */
static int add_text(struct pl_secret_redaction *m, const char *text, size_t len, uint64_t round, struct pl_err *err)
{
    struct pl_secret_redaction_text *t;

    len = PL_MIN(len, PL_SECRET_REDACTION_MAX);
    if (len < PL_SECRET_REDACTION_MIN || (m->full && m->n_round == PL_SECRET_REDACTION_TEXTS))
        return 0;
    t = find(m, text, len);
    if (!t && m->n_round == PL_SECRET_REDACTION_TEXTS)
        m->full = true;
    else if (!t)
        return put_text(m, text, len, round, err);
    else if (t->round != FOR_GOOD) {
        m->n_round += t->round != m->round;
        t->round = round;
    }
    return 0;
}

void pl_secret_redaction_begin(struct pl_secret_redaction *m)
{
    m->round++;
    m->n_round = 0;
    for (size_t i = 0; i < m->n; i++)
        m->n_round += m->texts[i].round == FOR_GOOD;
}

int pl_secret_redaction_add(struct pl_secret_redaction *m, const char *text, size_t len, bool for_good, struct pl_err *err)
{
    int r = 0;

    for (size_t at = 0, n; r == 0 && at < len; at += n + 1) {
        const char *end = memchr(text + at, '\n', len - at);

        n = end ? (size_t)(end - (text + at)) : len - at;
        r = add_text(m, text + at, n && text[at + n - 1] == '\r' ? n - 1 : n, for_good ? FOR_GOOD : m->round, err);
    }
    return r;
}

static int longest_first(const void *a, const void *b)
{
    const struct pl_secret_redaction_text *x = a, *y = b;

    return (x->len < y->len) - (x->len > y->len);
}

void pl_secret_redaction_ready(struct pl_secret_redaction *m)
{
    if (m->n)
        qsort(m->texts, m->n, sizeof(*m->texts), longest_first);
    memset(m->first, 0, sizeof(m->first));
    for (size_t i = 0; i < m->n; i++)
        m->first[(unsigned char)m->texts[i].text[0]] = true;
}

void pl_secret_redaction_finish(struct pl_secret_redaction *m)
{
    for (size_t i = 0; i < m->n; i++)
        forget(&m->texts[i]);
    free(m->texts);
    *m = (struct pl_secret_redaction){0};
}

/* Returns the length of the longest secret text that begins at `at`; 0 if none does; SIZE_MAX if one may
 * begin here but more bytes are needed to decide. */
static size_t begins(const struct pl_secret_redaction *m, const uint8_t *at, size_t left, bool end)
{
    size_t found = 0;

    if (!m->first[*at])
        return 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct pl_secret_redaction_text *t = &m->texts[i];

        if (memcmp(t->text, at, PL_MIN(t->len, left)) != 0)
            continue;
        if (t->len > left && !end)
            return SIZE_MAX;
        if (t->len <= left)
            found = PL_MAX(found, t->len);
    }
    return found;
}

void pl_secret_redaction_pass(const struct pl_secret_redaction *m, struct pl_buf *held, const void *data, size_t n, bool end,
                              struct pl_buf *out)
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
        if (pl_buf_add(out, held->data + plain, at - plain, NULL) < 0 || pl_buf_add_str(out, PL_SECRET_REDACTION_STARS, NULL) < 0)
            break;
        plain = at + len;
    }
    at = PL_MIN(at, held->len);
    (void)!pl_buf_add(out, held->data + plain, at - plain, NULL);
    if (at > 0 && at < held->len)
        memmove(held->data, held->data + at, held->len - at);
    held->len -= at;
}
