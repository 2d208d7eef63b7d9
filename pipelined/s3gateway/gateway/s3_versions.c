/* ListObjectVersions: the history of a branch, key by key. Each commit that changed a key is a version of it; a
 * commit that deleted it is a delete marker. The gathering commits are the newest versions. A commit's changes are
 * its differences from its parent; s3_version_merge picks those of the page. */
#include "pipelined/s3gateway/formats/s3_version_merge.h"
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "storage/s3/s3_xml.h"
#include "storage/tree/tree_diff.h"

#include <stdio.h>

#define COMMITS_MAX 10000u /* newest commits of a branch whose changes are listed */
#define PAGE_MAX    (16u << 20)
/* version-id-marker of a page that begins behind all versions of its key-marker; in S3, the oldest version of a key
 * may have this id */
#define ALL_VERSIONS "null"

/* One state of the branch in which keys changed: a gathering commit, or a commit. Newest first. */
struct state {
    char id[PL_ID_HEX + 1];
    struct pl_hash root, attributes;
    int64_t created_us;
    struct pl_open_commit *open; /* reference; NULL = a commit */
};

struct versions {
    struct pl_s3_request *q;
    struct pl_s3_version_question question;
    const char *id_marker;
    uint64_t max_keys;
    bool url;

    struct state *states;
    size_t n_states, cap;
    struct pl_hash oldest_root, oldest_attributes; /* trees of the parent of the last state */
    struct pl_s3_version_page page;
};

static void versions_free(void *self)
{
    struct versions *v = self;

    for (size_t i = 0; i < v->n_states; i++)
        if (v->states[i].open)
            pl_open_commit_unref(v->states[i].open);
    pl_s3_version_page_finish(&v->page);
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

/* ---- changes ---- */

typedef int (*take_fn)(void *arg, const struct pl_s3_change *change, struct pl_err *err);

/* Reads the differences of a commit's files, or of their attributes, from those of its parent. Of attributes, only
 * those of files that are there make a line. */
static int read_commit(struct versions *v, size_t state, bool rows, const char *from, size_t from_len, take_fn take, void *arg,
                       struct pl_err *err)
{
    _cleanup_(pl_tree_differ_destroyp) struct pl_tree_differ *d = NULL;
    struct pl_node_source source = {v->q->target.store, pl_store_node_get};
    const struct state *s = &v->states[state], *parent = state + 1 < v->n_states ? s + 1 : NULL;
    const struct pl_hash *old = rows ? &v->oldest_attributes : &v->oldest_root, *new = rows ? &s->attributes : &s->root;
    struct pl_tree_change c;
    int r;

    if (parent)
        old = rows ? &parent->attributes : &parent->root;
    r = pl_tree_differ_create(&source, old, new, NULL, 0, &d, err);
    r = r < 0 ? r : pl_tree_differ_seek(d, from, from_len, err);
    while (r >= 0 && (r = pl_tree_differ_next(d, &c, err)) > 0) {
        struct pl_s3_change change = {.path = c.path, .path_len = c.path_len, .marker = !c.new_entry};

        change.folder = !rows && (c.new_entry ? c.new_entry : c.old_entry)->kind == PL_KIND_DIR;
        change.is_line = c.new_entry || !(rows || change.folder);
        r = take(arg, &change, err);
        if (r <= 0)
            return r;
    }
    return r < 0 ? r : 1;
}

static int read_open(struct versions *v, size_t state, const char *from, size_t from_len, take_fn take, void *arg,
                     struct pl_err *err)
{
    _cleanup_(pl_branch_walk_destroyp) struct pl_branch_walk *walk = NULL;
    struct pl_open_commit *open;
    struct pl_branch_view view;
    struct pl_branch_item *item;
    int r;

    state_view(v, &v->states[state], &open, &view);
    r = pl_branch_walk_create(&view, &walk, err);
    r = r < 0 ? r : pl_branch_walk_seek(walk, from, from_len, err);
    while (r >= 0 && (r = pl_branch_walk_next(walk, &item, err)) > 0) {
        bool gone = r == PL_BRANCH_WALK_GONE;
        struct pl_s3_change change = {.path = item->path,
                                      .path_len = item->path_len,
                                      .is_line = true,
                                      .folder = !gone && item->file.entry.kind == PL_KIND_DIR,
                                      .marker = gone};

        r = take(arg, &change, err);
        if (r <= 0)
            return r;
    }
    return r < 0 ? r : 1;
}

static int read_changes(void *self, size_t stream, const char *from, size_t from_len, take_fn take, void *arg, struct pl_err *err)
{
    struct versions *v = self;
    size_t state = stream / 2;
    bool rows = stream % 2;

    if (!v->states[state].open)
        return read_commit(v, state, rows, from, from_len, take, arg, err);
    /* an open commit has the attributes with the files */
    return rows ? 1 : read_open(v, state, from, from_len, take, arg, err);
}

/* ---- reply ---- */

static int add_version(struct versions *v, size_t at, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(pl_branch_file_finish) struct pl_branch_file file = {0};
    const struct pl_s3_version_line *l = &v->page.lines[at];
    const struct state *s = &v->states[l->state];
    const char *element = l->marker ? "DeleteMarker" : "Version";
    char etag[PL_S3_ETAG_MAX + 1], quoted[PL_S3_ETAG_MAX + 3], time[32];
    bool first = at == 0 || v->page.lines[at - 1].shared || !pl_streq(v->page.lines[at - 1].key, l->key);
    struct pl_open_commit *open;
    struct pl_branch_view view;
    int r = pl_s3_xml_open(out, element, err);

    if (first && pl_streq(l->key, v->question.key_marker))
        first = l->state == v->page.marker_newest;
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

static int add_shared(struct versions *v, const struct pl_s3_version_line *l, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_s3_xml_open(out, "CommonPrefixes", err);

    r = r < 0 ? r : pl_s3_add_text(v->url, out, "Prefix", l->key, err);
    return r < 0 ? r : pl_s3_xml_close(out, "CommonPrefixes", err);
}

static int answer(struct versions *v, struct pl_buf *out, struct pl_err *err)
{
    size_t n = v->page.n;
    bool truncated = v->page.truncated;
    int r = pl_s3_xml_begin(out, "ListVersionsResult", true, err);

    r = r < 0 ? r : pl_s3_xml_add(out, "Name", v->q->bucket, err);
    r = r < 0 ? r : pl_s3_add_text(v->url, out, "Prefix", v->question.prefix, err);
    r = r < 0 ? r : pl_s3_add_text(v->url, out, "KeyMarker", v->question.key_marker, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "VersionIdMarker", v->id_marker, err);
    if (r == 0 && truncated && v->page.read_to) {
        r = pl_s3_add_text(v->url, out, "NextKeyMarker", v->page.read_to, err);
        r = r < 0 ? r : pl_s3_xml_add(out, "NextVersionIdMarker", ALL_VERSIONS, err);
    } else if (r == 0 && truncated) {
        const struct pl_s3_version_line *l = &v->page.lines[n - 1];

        r = pl_s3_add_text(v->url, out, "NextKeyMarker", l->key, err);
        if (r == 0 && !l->shared)
            r = pl_s3_xml_add(out, "NextVersionIdMarker", v->states[l->state].id, err);
    }
    r = r < 0 ? r : pl_s3_xml_add_u64(out, "MaxKeys", v->max_keys, err);
    if (r == 0 && *v->question.delimiter)
        r = pl_s3_add_text(v->url, out, "Delimiter", v->question.delimiter, err);
    if (r == 0 && v->url)
        r = pl_s3_xml_add(out, "EncodingType", "url", err);
    r = r < 0 ? r : pl_s3_xml_add(out, "IsTruncated", truncated ? "true" : "false", err);
    for (size_t i = 0; i < n && r == 0; i++)
        r = v->page.lines[i].shared ? add_shared(v, &v->page.lines[i], out, err) : add_version(v, i, out, err);
    return r < 0 ? r : pl_s3_xml_close(out, "ListVersionsResult", err);
}

/* ---- request ---- */

static int read_question(struct versions *v, struct pl_err *err)
{
    const struct pl_s3_request *q = v->q;
    const char *encoding = pl_s3_query_or_empty(q, "encoding-type");

    v->question.prefix = pl_s3_query_or_empty(q, "prefix");
    v->question.delimiter = pl_s3_query_or_empty(q, "delimiter");
    v->question.key_marker = pl_s3_query_or_empty(q, "key-marker");
    v->id_marker = pl_s3_query_or_empty(q, "version-id-marker");
    v->url = pl_streq(encoding, "url");
    if (*encoding && !v->url)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "Invalid Encoding Method specified in Request");
    if (*v->id_marker && !*v->question.key_marker)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "A version-id marker cannot be specified without a key marker.");
    return pl_s3_query_number(q, "max-keys", PL_S3_LIST_MAX, PL_S3_LIST_MAX, &v->max_keys, err);
}

/* Finds the state that the version-id marker names. */
static int find_marker(struct versions *v, struct pl_err *err)
{
    if (pl_streq(v->id_marker, ALL_VERSIONS)) {
        v->question.marker_state = SIZE_MAX;
        v->question.within_key = true;
        return 0;
    }
    for (size_t i = 0; i < v->n_states; i++) {
        if (!pl_streq(v->states[i].id, v->id_marker))
            continue;
        v->question.marker_state = i;
        v->question.within_key = true;
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
    if (r == 0 && v->max_keys) {
        struct pl_s3_change_source source = {v, v->n_states, read_changes};

        v->question.max = (size_t)v->max_keys;
        v->question.steps_max = PL_S3_MERGE_STEPS_MAX;
        r = pl_s3_version_merge(&source, &v->question, &v->page, err);
    }
    r = r < 0 ? r : answer(v, &out, err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}
