/* ListObjectVersions: the history of a branch, key by key. Each commit that changed a key is a version of it; a
 * commit that deleted it is a delete marker. The gathering commits are the newest versions.
 *
 * A page has the least lines behind the marker, by key, then newest first. Each commit is compared with its
 * parent, in order of key, and the least lines found so far are kept in a sorted array. As soon as a commit's next
 * change lies behind the last line of a full array, the rest of that commit is not read. */
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "storage/s3/s3_xml.h"
#include "storage/tree/tree_diff.h"

#include <stdio.h>

#define COMMITS_MAX 10000u   /* newest commits of a branch whose changes are listed */
#define CHANGES_MAX 1000000u /* changes that are read for one page */
#define PAGE_MAX    (16u << 20)

/* One state of the branch in which keys changed: a gathering commit, or a commit. Newest first. */
struct state {
    char id[PL_ID_HEX + 1];
    struct pl_hash root, attributes;
    int64_t created_us;
    struct pl_open_commit *open; /* reference; NULL = a commit */
};

struct line {
    char *key; /* owned */
    size_t len;
    size_t state; /* index of the state */
    bool marker;  /* the key was deleted */
    bool shared;  /* a common prefix */
};

struct versions {
    struct pl_s3_request *q;
    const char *prefix, *delimiter, *key_marker, *id_marker;
    size_t prefix_len, delimiter_len, key_marker_len;
    uint64_t max_keys;
    bool url;

    struct state *states;
    size_t n_states, cap;
    struct pl_hash oldest_root, oldest_attributes; /* trees of the parent of the last state */
    size_t marker_state;                           /* the state that `id_marker` names */
    size_t marker_newest;                          /* the newest state that changed the key `key_marker` */
    struct line lines[PL_S3_LIST_MAX + 2];         /* sorted; one more than the page, to know whether it is the last */
    size_t n;
    uint64_t changes;
};

static void versions_free(void *self)
{
    struct versions *v = self;

    for (size_t i = 0; i < v->n_states; i++)
        if (v->states[i].open)
            pl_open_commit_unref(v->states[i].open);
    for (size_t i = 0; i < v->n; i++)
        free(v->lines[i].key);
    free(v->states);
    free(v);
}

/* ---- states ---- */

static int add_state(struct versions *v, const struct state *s, struct pl_err *err)
{
    if (v->n_states == v->cap) {
        size_t cap = v->cap ? 2 * v->cap : 64;
        struct state *states = reallocarray(v->states, cap, sizeof *states);

        if (!states)
            return pl_err_nomem(err);
        v->states = states;
        v->cap = cap;
    }
    v->states[v->n_states++] = *s;
    return 0;
}

static int add_commit(struct versions *v, const struct pl_commit_row *c, struct pl_err *err)
{
    struct state s = {.root = c->root, .attributes = c->attributes, .created_us = c->created_us};

    memcpy(s.id, c->run, sizeof s.id);
    return add_state(v, &s, err);
}

/* Adds the commits from the head back along the parents. A parent that was deleted counts as empty: what its
 * child has is then the oldest known version. */
static int add_commits(struct versions *v, struct pl_commit_row *c, struct pl_err *err)
{
    const struct pl_s3_target *t = &v->q->target;
    size_t first = v->n_states;
    int r = 0;

    while (r == 0 && *c->run) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};
        char parent[PL_ID_HEX + 1];

        if (v->n_states - first == COMMITS_MAX) {
            v->oldest_root = c->root;
            v->oldest_attributes = c->attributes;
            return 0;
        }
        r = add_commit(v, c, err);
        if (r < 0 || !*c->parent || *t->commit)
            return r;
        memcpy(parent, c->parent, sizeof parent);
        rd = pl_db_read(v->q->services->db);
        r = pl_db_commit_named(rd.conn, t->project, t->repo, parent, c, err);
        if (r == PL_ENOTFOUND)
            return 0;
    }
    return r;
}

static int find_states(struct versions *v, struct pl_branch_view *view, struct pl_err *err)
{
    int r = 0;

    for (size_t i = view->n_opens; i-- > 0 && r == 0;) {
        const struct pl_open_commit_file_head *head = pl_open_commit_head(view->opens[i]);
        struct state s = {.created_us = head->created_us, .open = pl_open_commit_ref(view->opens[i])};

        snprintf(s.id, sizeof s.id, "%s", head->commit);
        r = add_state(v, &s, err);
        if (r < 0)
            pl_open_commit_unref(s.open);
    }
    return r < 0 ? r : add_commits(v, &view->head, err);
}

/* Makes a view of one state, without the states below it. */
static void state_view(const struct versions *v, const struct state *s, struct pl_open_commit **open, struct pl_branch_view *ret)
{
    struct pl_commit_row row = {.root = s->root, .attributes = s->attributes, .created_us = s->created_us};

    memcpy(row.run, s->id, sizeof row.run);
    if (s->open)
        row = (struct pl_commit_row){0};
    pl_branch_view_of_commit(&row, v->q->target.store, ret);
    if (s->open) {
        *open = s->open;
        ret->opens = open; /* borrowed: the view is not finished */
        ret->n_opens = 1;
    }
}

/* ---- lines ---- */

static int compare(const struct line *a, const char *key, size_t len, size_t state)
{
    int order = pl_key_cmp(a->key, a->len, key, len);

    return order ? order : (a->state > state) - (a->state < state);
}

/* Returns true if the line comes behind the marker of the previous page. */
static bool is_behind(const struct versions *v, const char *key, size_t len, size_t state)
{
    int order = pl_key_cmp(key, len, v->key_marker, v->key_marker_len);

    if (order || !v->key_marker_len)
        return order >= 0;
    return *v->id_marker && state > v->marker_state;
}

static bool is_full(const struct versions *v)
{
    return v->n == v->max_keys + 1;
}

/* Adds a line at its place, unless it is there; a full array loses its last line. */
static int add_line(struct versions *v, const char *key, size_t len, size_t state, bool marker, bool shared, struct pl_err *err)
{
    size_t lo = 0, hi = v->n;
    struct line l = {.len = len, .state = shared ? 0 : state, .marker = marker, .shared = shared};

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (compare(&v->lines[mid], key, len, l.state) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if ((lo < v->n && compare(&v->lines[lo], key, len, l.state) == 0) || (is_full(v) && lo == v->n))
        return 0;
    l.key = strndup(key, len);
    if (!l.key)
        return pl_err_nomem(err);
    if (is_full(v))
        free(v->lines[--v->n].key);
    memmove(v->lines + lo + 1, v->lines + lo, (v->n - lo) * sizeof *v->lines);
    v->lines[lo] = l;
    v->n++;
    return 0;
}

/* Takes one change. Returns 1 to go on, 0 if the state has nothing more for this page. */
static int take(struct versions *v, const char *path, size_t path_len, size_t state, bool folder, bool marker, struct pl_err *err)
{
    char key[PL_PATH_MAX_BYTES + 2];
    size_t len = path_len + folder, shared;
    const char *at;
    int r;

    if (++v->changes > CHANGES_MAX)
        return pl_err_set(err, PL_S3_INVALID_REQUEST,
                          "The commits have more than %u changes before this page: list a longer prefix.", CHANGES_MAX);
    memcpy(key, path, path_len);
    key[path_len] = '/';
    key[len] = '\0';
    if (pl_key_cmp_prefix(key, len, v->prefix, v->prefix_len) != 0)
        return 1;
    if (pl_key_cmp(key, len, v->key_marker, v->key_marker_len) == 0)
        v->marker_newest = PL_MIN(v->marker_newest, state);
    at = v->delimiter_len ? memmem(key + v->prefix_len, len - v->prefix_len, v->delimiter, v->delimiter_len) : NULL;
    shared = at ? (size_t)(at - key) + v->delimiter_len : 0;
    if (shared && v->key_marker_len && pl_key_cmp(key, shared, v->key_marker, PL_MIN(shared, v->key_marker_len)) <= 0)
        return 1; /* its line was on an earlier page */
    if (!shared && !is_behind(v, key, len, state))
        return 1;
    /* a folder's key sorts behind keys that the tree has later, so only files end the state */
    if (is_full(v) && !folder && compare(&v->lines[v->n - 1], key, shared ? shared : len, shared ? 0 : state) < 0)
        return 0;
    r = add_line(v, key, shared ? shared : len, state, marker, shared, err);
    return r < 0 ? r : 1;
}

/* ---- changes ---- */

/* Takes the changes between two trees; of attributes only those of files that did not change otherwise are
 * new lines. */
static int take_diff(struct versions *v, size_t state, const struct pl_hash *old_root, const struct pl_hash *new_root, bool rows,
                     struct pl_err *err)
{
    _cleanup_(pl_tree_differ_destroyp) struct pl_tree_differ *d = NULL;
    struct pl_node_source source = {v->q->target.store, pl_store_node_get};
    /* the tree has a folder's name without its slash */
    size_t len = v->prefix_len - (v->prefix_len && v->prefix[v->prefix_len - 1] == '/');
    struct pl_tree_change c;
    int r = pl_tree_differ_create(&source, old_root, new_root, v->prefix, len, &d, err), on = 1;

    while (r == 0 && on > 0 && (r = pl_tree_differ_next(d, &c, err)) > 0) {
        bool folder = !rows && (c.new_entry ? c.new_entry : c.old_entry)->kind == PL_KIND_DIR;

        r = 0;
        if ((rows && !c.new_entry) || (folder && !c.new_entry))
            continue; /* the file itself is gone, or the folder has files now */
        on = take(v, c.path, c.path_len, state, folder, !c.new_entry, err);
    }
    return on < 0 ? on : PL_MIN(r, 0);
}

static int take_open(struct versions *v, size_t state, struct pl_err *err)
{
    _cleanup_(pl_branch_walk_destroyp) struct pl_branch_walk *walk = NULL;
    struct pl_open_commit *open;
    struct pl_branch_view view;
    struct pl_branch_item *item;
    int r, on = 1;

    state_view(v, &v->states[state], &open, &view);
    r = pl_branch_walk_create(&view, &walk, err);
    while (r == 0 && on > 0 && (r = pl_branch_walk_next(walk, &item, err)) > 0) {
        bool gone = r == PL_BRANCH_WALK_GONE, folder = !gone && item->file.entry.kind == PL_KIND_DIR;

        r = 0;
        on = take(v, item->path, item->path_len, state, folder, gone, err);
    }
    return on < 0 ? on : PL_MIN(r, 0);
}

static int take_all(struct versions *v, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < v->n_states && r == 0; i++) {
        bool last = i + 1 == v->n_states;

        if (v->states[i].open) {
            r = take_open(v, i, err);
            continue;
        }
        r = take_diff(v, i, last ? &v->oldest_root : &v->states[i + 1].root, &v->states[i].root, false, err);
        r = r < 0 ? r
                  : take_diff(v, i, last ? &v->oldest_attributes : &v->states[i + 1].attributes, &v->states[i].attributes, true,
                              err);
    }
    return r;
}

/* ---- reply ---- */

static int add_version(struct versions *v, size_t at, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(pl_branch_file_finish) struct pl_branch_file file = {0};
    const struct line *l = &v->lines[at];
    const struct state *s = &v->states[l->state];
    const char *element = l->marker ? "DeleteMarker" : "Version";
    char etag[PL_S3_ETAG_MAX + 1], quoted[PL_S3_ETAG_MAX + 3], time[32];
    bool first = at == 0 || v->lines[at - 1].shared || !pl_streq(v->lines[at - 1].key, l->key);
    struct pl_open_commit *open;
    struct pl_branch_view view;
    int r = pl_s3_xml_open(out, element, err);

    if (first && pl_streq(l->key, v->key_marker))
        first = l->state == v->marker_newest;
    state_view(v, s, &open, &view);
    if (r == 0 && !l->marker)
        r = PL_MIN(pl_s3_find(&view, l->key, l->len, &file, err), 0);
    pl_s3_iso_time(l->marker ? s->created_us : pl_s3_modified(&view, &file), time);
    r = r < 0 ? r : pl_s3_add_text(v->url, out, "Key", l->key, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "VersionId", s->id, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "IsLatest", first ? "true" : "false", err);
    r = r < 0 ? r : pl_s3_xml_add(out, "LastModified", time, err);
    if (r == 0 && !l->marker) {
        pl_s3_etag(&file.entry, &file.attributes, etag);
        pl_s3_quote(etag, quoted);
        r = pl_s3_xml_add(out, "ETag", quoted, err);
        r = r < 0 ? r : pl_s3_xml_add_u64(out, "Size", file.entry.kind == PL_KIND_DIR ? 0 : file.entry.size, err);
        r = r < 0 ? r : pl_s3_xml_add(out, "StorageClass", "STANDARD", err);
    }
    r = r < 0 ? r : pl_s3_add_owner(v->q, out, err);
    return r < 0 ? r : pl_s3_xml_close(out, element, err);
}

static int add_shared(struct versions *v, const struct line *l, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_s3_xml_open(out, "CommonPrefixes", err);

    r = r < 0 ? r : pl_s3_add_text(v->url, out, "Prefix", l->key, err);
    return r < 0 ? r : pl_s3_xml_close(out, "CommonPrefixes", err);
}

static int answer(struct versions *v, struct pl_buf *out, struct pl_err *err)
{
    size_t n = PL_MIN(v->n, (size_t)v->max_keys);
    bool truncated = n && v->n > n;
    int r = pl_s3_xml_begin(out, "ListVersionsResult", true, err);

    r = r < 0 ? r : pl_s3_xml_add(out, "Name", v->q->bucket, err);
    r = r < 0 ? r : pl_s3_add_text(v->url, out, "Prefix", v->prefix, err);
    r = r < 0 ? r : pl_s3_add_text(v->url, out, "KeyMarker", v->key_marker, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "VersionIdMarker", v->id_marker, err);
    if (r == 0 && truncated) {
        const struct line *l = &v->lines[n - 1];

        r = pl_s3_add_text(v->url, out, "NextKeyMarker", l->key, err);
        if (r == 0 && !l->shared)
            r = pl_s3_xml_add(out, "NextVersionIdMarker", v->states[l->state].id, err);
    }
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "MaxKeys", v->max_keys, err);
    if (r == 0 && v->delimiter_len)
        r = pl_s3_add_text(v->url, out, "Delimiter", v->delimiter, err);
    if (r == 0 && v->url)
        r = pl_s3_xml_add(out, "EncodingType", "url", err);
    r = r < 0 ? r : pl_s3_xml_add(out, "IsTruncated", truncated ? "true" : "false", err);
    for (size_t i = 0; i < n && r == 0; i++)
        r = v->lines[i].shared ? add_shared(v, &v->lines[i], out, err) : add_version(v, i, out, err);
    return r < 0 ? r : pl_s3_xml_close(out, "ListVersionsResult", err);
}

/* ---- request ---- */

static int read_question(struct versions *v, struct pl_err *err)
{
    const struct pl_s3_request *q = v->q;
    const char *encoding = pl_s3_query_or_empty(q, "encoding-type");

    v->prefix = pl_s3_query_or_empty(q, "prefix");
    v->prefix_len = strlen(v->prefix);
    v->delimiter = pl_s3_query_or_empty(q, "delimiter");
    v->delimiter_len = strlen(v->delimiter);
    v->key_marker = pl_s3_query_or_empty(q, "key-marker");
    v->key_marker_len = strlen(v->key_marker);
    v->id_marker = pl_s3_query_or_empty(q, "version-id-marker");
    v->url = pl_streq(encoding, "url");
    v->marker_newest = SIZE_MAX;
    if (*encoding && !v->url)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Invalid Encoding Method specified in Request");
    if (*v->id_marker && !*v->key_marker)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "A version-id marker cannot be specified without a key marker.");
    return pl_s3_query_number(q, "max-keys", PL_S3_LIST_MAX, PL_S3_LIST_MAX, &v->max_keys, err);
}

static int find_marker(struct versions *v, struct pl_err *err)
{
    for (size_t i = 0; i < v->n_states; i++) {
        if (!pl_streq(v->states[i].id, v->id_marker))
            continue;
        v->marker_state = i;
        return 0;
    }
    return *v->id_marker
               ? pl_err_set(err, PL_S3_INVALID_ARGUMENT, "version-id-marker: the bucket has no version \"%.40s\".", v->id_marker)
               : 0;
}

int pl_s3_list_versions(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_branch_view_finish) struct pl_branch_view view = {0};
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = PAGE_MAX};
    struct versions *v = calloc(1, sizeof *v);
    int r;

    if (!v)
        return pl_err_nomem(err);
    q->more = v;
    q->drop_more = versions_free;
    v->q = q;
    r = pl_s3_target(q, PL_VERB_READ, err);
    r = r < 0 ? r : read_question(v, err);
    r = r < 0 ? r : pl_s3_view(q, &q->target, NULL, &view, err);
    r = r < 0 ? r : find_states(v, &view, err);
    r = r < 0 ? r : find_marker(v, err);
    if (r == 0 && v->max_keys && v->prefix_len <= PL_S3_KEY_MAX)
        r = take_all(v, err);
    r = r < 0 ? r : answer(v, &out, err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}
