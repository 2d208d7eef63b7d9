/* The merge holds one stream's lines that were read and not used yet in a queue, in order of key. A tree has an empty
 * folder under "name", but S3 sorts its key "name/" behind "name-…" and "name.…". A line is therefore final only if
 * its key is before the place up to which its stream was read. A page that begins between "name" and "name/" looks
 * such folders up, one by one. A stream without a final line has its place in the heap by how far it was read, and
 * is read on only when no other stream has anything before that: a stream of many changes that make no line, such as
 * the attributes of deleted files, costs a page only what is within the page. */
#include "pipelined/s3gateway/formats/s3_version_merge.h"

#include "pipelined/s3gateway/formats/s3_error.h"
#include "storage/base/path.h"
#include "storage/tree/tree.h"

#include <assert.h>

struct queued {
    char *key; /* owned */
    size_t len;
    bool marker;
};

struct stream {
    struct queued *lines;
    size_t n, cap, at;  /* lines[at..n] were not used yet */
    struct pl_buf from; /* all paths before this one were read */
    size_t batch;       /* number of changes of the last reading */
    bool end;
};

struct merge {
    const struct pl_s3_change_source *source;
    const struct pl_s3_version_question *question;
    struct pl_s3_version_page *page;
    struct stream *streams;
    size_t n_streams;
    size_t *heap; /* streams that have not ended, by the place of what comes next, the least first */
    size_t n_heap;
    uint64_t begun; /* steps before the first batch */
};

/* ---- one stream ---- */

static void stream_finish(struct stream *s)
{
    for (size_t i = s->at; i < s->n; i++)
        free(s->lines[i].key);
    free(s->lines);
    pl_buf_finish(&s->from);
}

static int set_from(struct stream *s, const char *path, size_t len, bool behind, struct pl_err *err)
{
    int r;

    pl_buf_clear(&s->from);
    r = pl_buf_add(&s->from, path, len, err);
    return r < 0 || !behind ? r : pl_buf_add_u8(&s->from, 0, err);
}

static bool is_before_from(const struct stream *s, const char *key, size_t len)
{
    return s->end || pl_key_cmp(key, len, s->from.data, s->from.len) < 0;
}

/* Returns the stream's least line, if no change that is still unread can come before it. */
static const struct queued *head_of(const struct stream *s)
{
    const struct queued *q = s->at < s->n ? &s->lines[s->at] : NULL;

    return q && is_before_from(s, q->key, q->len) ? q : NULL;
}

/* Adds a line at its place: only folders can be behind it. */
static int queue_line(struct stream *s, const struct pl_s3_change *c, struct pl_err *err)
{
    size_t len = c->path_len + c->folder, place = s->n;
    char *key;

    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 4;
        struct queued *lines = reallocarray(s->lines, cap, sizeof *lines);

        if (!lines)
            return pl_err_nomem(err);
        s->lines = lines;
        s->cap = cap;
    }
    key = malloc(len + 1);
    if (!key)
        return pl_err_nomem(err);
    memcpy(key, c->path, c->path_len);
    key[c->path_len] = '/';
    key[len] = '\0';
    while (place > s->at && pl_key_cmp(s->lines[place - 1].key, s->lines[place - 1].len, key, len) > 0)
        place--;
    memmove(s->lines + place + 1, s->lines + place, (s->n - place) * sizeof *s->lines);
    s->lines[place] = (struct queued){key, len, c->marker};
    s->n++;
    return 0;
}

static void drop_line(struct stream *s)
{
    free(s->lines[s->at++].key);
    if (s->at == s->n)
        s->at = s->n = 0;
}

/* ---- reading ---- */

struct reading {
    struct merge *m;
    struct stream *s;
    size_t left; /* changes to read still */
};

/* A look-up of one folder, whose path is a beginning of the page's first key. */
struct look_up {
    struct stream *s;
    const char *first;
    size_t first_len;
    size_t folder_len; /* the folder is the beginning of this length */
    size_t next_len;   /* no beginning is a path of the stream that is longer than the folder and shorter than this */
};

static bool has_prefix(const struct merge *m, const char *key, size_t len)
{
    return pl_key_cmp_prefix(key, len, m->question->prefix, strlen(m->question->prefix)) == 0;
}

/* Takes the first path at or behind the folder: it tells which beginnings of the first key are no paths. */
static int take_folder(void *arg, const struct pl_s3_change *c, struct pl_err *err)
{
    struct look_up *l = arg;
    size_t same = 0;

    while (same < PL_MIN(l->first_len, c->path_len) && l->first[same] == c->path[same])
        same++;
    if (same == c->path_len)
        l->next_len = same;
    else if (same < l->first_len && (uint8_t)c->path[same] < (uint8_t)l->first[same])
        l->next_len = same + 1;
    else
        l->next_len = SIZE_MAX; /* the path is behind all of them */
    return c->is_line && c->folder && c->path_len == l->folder_len && same == l->folder_len ? queue_line(l->s, c, err) : 0;
}

static int take_change(void *arg, const struct pl_s3_change *c, struct pl_err *err)
{
    struct reading *rd = arg;
    const char *prefix = rd->m->question->prefix;
    int r;

    rd->m->page->steps++;
    if (pl_key_cmp_prefix(c->path, c->path_len, prefix, strlen(prefix)) > 0) {
        rd->s->end = true;
        return 0;
    }
    r = set_from(rd->s, c->path, c->path_len, true, err);
    if (r == 0 && c->is_line && has_prefix(rd->m, c->path, c->path_len))
        r = queue_line(rd->s, c, err);
    return r < 0 ? r : --rd->left > 0;
}

/* Reads the next batch of a stream that has no final line. Returns 1. */
static int read_on(struct merge *m, size_t stream, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf from = {0};
    struct stream *s = &m->streams[stream];
    struct reading rd = {.m = m, .s = s};
    int r = pl_buf_add(&from, s->from.data, s->from.len, err);

    s->batch = s->batch ? PL_MIN(2 * s->batch, (size_t)PL_S3_MERGE_BATCH_MAX) : 1;
    rd.left = s->batch;
    r = r < 0 ? r : m->source->read(m->source->self, stream, (const char *)from.data, from.len, take_change, &rd, err);
    if (r < 0)
        return r;
    s->end |= r > 0;
    return 1;
}

/* Looks up the empty folders whose paths are before the page's first key, but whose keys are not. Each look-up tells
 * the stream's next path, so that those before it need none. */
static int find_folders(struct merge *m, size_t stream, const char *first, size_t len, struct pl_err *err)
{
    struct look_up l = {.s = &m->streams[stream], .first = first, .first_len = len};

    for (size_t i = 1; i < len && i <= PL_PATH_MAX_BYTES; i++) {
        char key[PL_PATH_MAX_BYTES + 1];
        int r;

        if (i < l.next_len || !((uint8_t)first[i] < '/' || (first[i] == '/' && i + 1 == len)))
            continue;
        memcpy(key, first, i);
        key[i] = '/';
        if (!has_prefix(m, key, i + 1))
            continue;
        if (m->page->steps++ > PL_S3_MERGE_STEPS_MAX)
            return pl_err_set(
                err, PL_S3_SLOW_DOWN,
                "The history of the bucket has too many changes before key-marker \"%.100s\" to list what follows it.",
                m->question->key_marker);
        l.folder_len = i;
        l.next_len = SIZE_MAX; /* unless a change follows */
        r = m->source->read(m->source->self, stream, first, i, take_folder, &l, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- common prefixes ---- */

/* Returns the length of the key's common prefix with its delimiter; 0 if it has none. */
static size_t common(const struct merge *m, const char *key, size_t len)
{
    const char *delimiter = m->question->delimiter, *at = NULL;
    size_t prefix_len = strlen(m->question->prefix);

    if (*delimiter && len >= prefix_len)
        at = memmem(key + prefix_len, len - prefix_len, delimiter, strlen(delimiter));
    return at ? (size_t)(at - key) + strlen(delimiter) : 0;
}

/* Makes the least key behind all keys with this prefix. Returns false if there is none. */
static bool past(const char *prefix, size_t len, char *ret, size_t *ret_len)
{
    memcpy(ret, prefix, len);
    while (len && (uint8_t)ret[len - 1] == 0xFF)
        len--;
    if (len)
        ret[len - 1]++;
    *ret_len = len;
    return len;
}

/* Skips all lines of the stream that have this common prefix. */
static int skip(struct merge *m, size_t stream, const char *prefix, size_t len, struct pl_err *err)
{
    struct stream *s = &m->streams[stream];
    char next[PL_PATH_MAX_BYTES + 2];
    size_t next_len;

    if (!past(prefix, len, next, &next_len))
        s->end = true;
    while (s->at < s->n && (!next_len || pl_key_cmp(s->lines[s->at].key, s->lines[s->at].len, next, next_len) < 0))
        drop_line(s);
    if (s->end || pl_key_cmp(s->from.data, s->from.len, next, next_len) >= 0)
        return 0;
    return set_from(s, next, next_len, false, err);
}

/* ---- heap ---- */

/* Compares what comes next of two streams. One that must be read on comes before a line with the same key, because
 * it may have a newer one. */
static int compare(const struct merge *m, size_t a, size_t b)
{
    const struct stream *s = &m->streams[a], *t = &m->streams[b];
    const struct queued *x = head_of(s), *y = head_of(t);
    int order = pl_key_cmp(x ? (const void *)x->key : s->from.data, x ? x->len : s->from.len,
                           y ? (const void *)y->key : t->from.data, y ? y->len : t->from.len);

    if (order || !x != !y)
        return order ? order : (x != NULL) - (y != NULL);
    return (a > b) - (a < b); /* the newer state has the lower number */
}

static void swap(struct merge *m, size_t i, size_t k)
{
    size_t held = m->heap[i];

    m->heap[i] = m->heap[k];
    m->heap[k] = held;
}

static void push(struct merge *m, size_t stream)
{
    size_t i = m->n_heap++;

    m->heap[i] = stream;
    while (i && compare(m, m->heap[i], m->heap[(i - 1) / 2]) < 0) {
        swap(m, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void sink(struct merge *m)
{
    for (size_t i = 0, least = 0;; i = least) {
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < m->n_heap; k++)
            if (compare(m, m->heap[k], m->heap[least]) < 0)
                least = k;
        if (least == i)
            return;
        swap(m, i, least);
    }
}

/* Restores the heap after the first stream went on. */
static void replace_first(struct merge *m)
{
    const struct stream *s = &m->streams[m->heap[0]];

    if (s->end && !head_of(s))
        m->heap[0] = m->heap[--m->n_heap];
    if (m->n_heap)
        sink(m);
}

/* ---- the page ---- */

static int add_line(struct merge *m, const struct queued *q, size_t len, size_t state, bool shared, struct pl_err *err)
{
    struct pl_s3_version_page *p = m->page;
    char *key;

    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        struct pl_s3_version_line *lines = reallocarray(p->lines, cap, sizeof *lines);

        if (!lines)
            return pl_err_nomem(err);
        p->lines = lines;
        p->cap = cap;
    }
    key = strndup(q->key, len);
    if (!key)
        return pl_err_nomem(err);
    p->lines[p->n++] =
        (struct pl_s3_version_line){.key = key, .len = len, .state = state, .marker = q->marker && !shared, .shared = shared};
    return 0;
}

/* Returns true if the page does not list the line: an earlier page has it, or the line before it is the same. */
static bool is_listed(const struct merge *m, const struct queued *q, size_t state)
{
    const struct pl_s3_version_question *a = m->question;
    const struct pl_s3_version_line *last = m->page->n ? &m->page->lines[m->page->n - 1] : NULL;

    if (*a->key_marker && pl_key_cmp(q->key, q->len, a->key_marker, strlen(a->key_marker)) == 0) {
        m->page->marker_newest = PL_MIN(m->page->marker_newest, state);
        if (!a->within_key || state <= a->marker_state)
            return true;
    }
    return last && last->state == state && pl_key_cmp(last->key, last->len, q->key, q->len) == 0;
}

/* Returns true if an earlier line, or an earlier page, has the common prefix. */
static bool is_shared_listed(const struct merge *m, const char *key, size_t shared)
{
    const char *marker = m->question->key_marker;
    const struct pl_s3_version_line *last = m->page->n ? &m->page->lines[m->page->n - 1] : NULL;
    size_t marker_len = m->question->within_key ? 0 : strlen(marker);

    return (marker_len && pl_key_cmp(key, shared, marker, PL_MIN(shared, marker_len)) <= 0) ||
           (last && last->shared && pl_key_cmp(last->key, last->len, key, shared) == 0);
}

/* Takes the first line of the first stream. Returns 0 if the page has no place for it. */
static int take_line(struct merge *m, struct pl_err *err)
{
    struct pl_s3_version_page *p = m->page;
    size_t stream = m->heap[0], state = stream / 2, shared;
    struct stream *s = &m->streams[stream];
    const struct queued *q = head_of(s);
    bool listed;
    int r = 0;

    assert(q);
    shared = common(m, q->key, q->len);
    listed = shared ? is_shared_listed(m, q->key, shared) : is_listed(m, q, state);
    if (!listed && p->n == m->question->max)
        return 0;
    if (!listed)
        r = add_line(m, q, shared ? shared : q->len, shared ? 0 : state, shared, err);
    if (r == 0 && shared) {
        char prefix[PL_PATH_MAX_BYTES + 2];

        assert(shared < sizeof prefix);
        memcpy(prefix, q->key, shared); /* skip() frees the line */
        r = skip(m, stream, prefix, shared, err);
    } else if (r == 0) {
        drop_line(s);
    }
    return r < 0 ? r : 1;
}

/* Ends the page although it is not full. The next page begins behind the key up to which all streams were read, or
 * behind the last line if that is a common prefix of this key. Returns 1 if neither leads on: the page must read on. */
static int end_early(struct merge *m, struct pl_err *err)
{
    const struct pl_buf *from = &m->streams[m->heap[0]].from;
    const char *key = (const char *)from->data, *marker = m->question->key_marker;
    const struct pl_s3_version_line *last = m->page->n ? &m->page->lines[m->page->n - 1] : NULL;
    /* length of the key; 0 = none: the stream was placed, but not read (set_from) */
    size_t len = from->len && !from->data[from->len - 1] ? from->len - 1 : 0;

    if (!len || pl_key_cmp(key, len, marker, strlen(marker)) <= 0 ||
        (last && last->shared && pl_key_cmp_prefix(key, len, last->key, last->len) == 0))
        return !last;
    m->page->read_to = strndup(key, len);
    return m->page->read_to ? 0 : pl_err_nomem(err);
}

/* Takes what comes next: a line, or a batch of the stream that may have the next line. Returns 0 if the page ends. */
static int step(struct merge *m, struct pl_err *err)
{
    struct pl_s3_version_page *p = m->page;
    int r = 1;

    if (head_of(&m->streams[m->heap[0]])) {
        r = take_line(m, err);
    } else {
        if (p->steps - m->begun > m->question->steps_max)
            r = end_early(m, err);
        r = r <= 0 ? r : read_on(m, m->heap[0], err);
    }
    if (r > 0)
        replace_first(m);
    p->truncated = r == 0;
    return r;
}

/* Places all streams at the first key that the page can have. */
static int begin(struct merge *m, struct pl_err *err)
{
    const struct pl_s3_version_question *a = m->question;
    size_t len = strlen(a->key_marker), prefix_len = strlen(a->prefix), shared;
    char first[PL_PATH_MAX_BYTES + 2];
    bool none = prefix_len >= sizeof first || pl_key_cmp_prefix(a->key_marker, len, a->prefix, prefix_len) > 0;
    int r = 0;

    if (none)
        return 0;
    if (pl_key_cmp(a->key_marker, len, a->prefix, prefix_len) < 0) {
        memcpy(first, a->prefix, len = prefix_len);
    } else {
        len = PL_MIN(len, sizeof first - 1); /* no key is longer */
        memcpy(first, a->key_marker, len);
        shared = a->within_key ? 0 : common(m, first, len);
        if (shared && !past(a->key_marker, shared, first, &len))
            return 0;
    }
    for (size_t i = 0; i < m->n_streams && r == 0; i++) {
        r = set_from(&m->streams[i], first, len, false, err);
        if (i % 2 == 0) /* attributes have no folders */
            r = r < 0 ? r : find_folders(m, i, first, len, err);
        if (r == 0)
            push(m, i);
    }
    return r;
}

int pl_s3_version_merge(const struct pl_s3_change_source *source, const struct pl_s3_version_question *question,
                        struct pl_s3_version_page *ret, struct pl_err *err)
{
    struct merge m = {.source = source, .question = question, .page = ret, .n_streams = 2 * source->states};
    int r;

    assert(question->max);
    ret->marker_newest = SIZE_MAX;
    m.streams = calloc(m.n_streams + 1, sizeof *m.streams);
    m.heap = calloc(m.n_streams + 1, sizeof *m.heap);
    r = m.streams && m.heap ? begin(&m, err) : pl_err_nomem(err);
    m.begun = ret->steps;
    while (r >= 0 && m.n_heap && (r = step(&m, err)) > 0)
        ;
    for (size_t i = 0; m.streams && i < m.n_streams; i++)
        stream_finish(&m.streams[i]);
    free(m.streams);
    free(m.heap);
    return PL_MIN(r, 0);
}

void pl_s3_version_page_finish(struct pl_s3_version_page *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->lines[i].key);
    free(p->lines);
    free(p->read_to);
    *p = (struct pl_s3_version_page){0};
}
