/* Encodes and decodes commit objects. Both directions apply the same checks, so that only canonical bytes
 * exist. */
#include "storage/dataset/commit/commit.h"

static const uint8_t commit_magic[4] = {'P', 'L', 'C', 'O'};

/* Number of consecutive hashes after the field `branch`. Their order, which is part of the format, is defined
 * by commit_roots. */
#define COMMIT_ROOTS 6

static void commit_roots(const struct pl_commit *c, const struct pl_hash *ret[COMMIT_ROOTS])
{
    ret[0] = &c->tree;
    ret[1] = &c->attributes;
    ret[2] = &c->table;
    ret[3] = &c->owner;
    ret[4] = &c->metrics;
    ret[5] = &c->logs;
}

static int source_cmp(const struct pl_commit_source *a, const struct pl_commit_source *b)
{
    int d = strcmp(a->project, b->project);

    if (d == 0)
        d = strcmp(a->repo, b->repo);
    return d != 0 ? d : strcmp(a->branch, b->branch);
}

static int check_text(const char *what, const char *s, size_t max, struct pl_err *err)
{
    size_t len = s != NULL ? strlen(s) : 0;

    if (len > max)
        return pl_err_set(err, PL_EINVAL, "commit: %s is %zu bytes long; at most %zu are accepted", what, len, max);
    if (!pl_utf8_ok(s != NULL ? s : "", len))
        return pl_err_set(err, PL_EINVAL, "commit: %s is not UTF-8", what);
    return 0;
}

static int check_name(const char *what, const char *name, bool required, struct pl_err *err)
{
    if (name == NULL || name[0] == '\0')
        return required ? pl_err_set(err, PL_EINVAL, "commit: %s is missing", what) : 0;
    return pl_name_check(what, name, err);
}

static int check_provenance(const struct pl_commit *c, struct pl_err *err)
{
    int r;

    for (size_t i = 0; i < c->n_provenance; i++) {
        const struct pl_commit_source *s = &c->provenance[i];

        if ((r = check_name("project", s->project, true, err)) < 0 || (r = check_name("repo", s->repo, true, err)) < 0 ||
            (r = check_name("branch", s->branch, true, err)) < 0)
            return pl_err_wrap(err, r, "provenance %zu", i);
        if (!pl_id_ok(s->commit))
            return pl_err_set(err, PL_EINVAL, "commit: provenance %zu: its id is not 32 hex digits", i);
        if (i > 0 && source_cmp(s - 1, s) >= 0)
            return pl_err_set(err, PL_EINVAL, "commit: provenance entry %zu (%s/%s@%s) is not sorted after the one before", i,
                              s->project, s->repo, s->branch);
    }
    return 0;
}

/* The checks that a commit must pass, both before it is written and after it is read. */
static int commit_check(const struct pl_commit *c, struct pl_err *err)
{
    int r;

    if ((r = check_name("project", c->project, true, err)) < 0 || (r = check_name("repo", c->repo, true, err)) < 0 ||
        (r = check_name("branch", c->branch, false, err)) < 0 || (r = check_name("stage", c->stage, false, err)) < 0)
        return r;
    if ((r = check_text("author", c->author, PL_COMMIT_AUTHOR_MAX, err)) < 0 ||
        (r = check_text("message", c->message, PL_COMMIT_MESSAGE_MAX, err)) < 0)
        return r;
    if (!pl_id_ok(c->id))
        return pl_err_set(err, PL_EINVAL, "commit: its id is not 32 hex digits");
    if (c->generation == 0 || (c->n_parents == 0 && c->generation != 1))
        return pl_err_set(err, PL_EINVAL, "commit: generation %llu is not possible with %zu parents",
                          (unsigned long long)c->generation, c->n_parents);
    if (c->n_parents > PL_COMMIT_PARENTS_MAX)
        return pl_err_set(err, PL_EINVAL, "commit: %zu parents; at most %d are accepted", c->n_parents, PL_COMMIT_PARENTS_MAX);
    if (c->n_provenance > PL_COMMIT_PROVENANCE_MAX)
        return pl_err_set(err, PL_EINVAL, "commit: %zu sources; at most %d are accepted", c->n_provenance,
                          PL_COMMIT_PROVENANCE_MAX);
    return check_provenance(c, err);
}

static int add_text(struct pl_buf *b, const char *s, struct pl_err *err)
{
    size_t len = s != NULL ? strlen(s) : 0;
    int r = pl_buf_add_varint(b, len, err);

    return r < 0 || len == 0 ? r : pl_buf_add(b, s, len, err);
}

static int add_id(struct pl_buf *b, const char *id, struct pl_err *err)
{
    uint8_t raw[PL_ID_HEX / 2];

    if (!pl_hex_decode(id, raw, sizeof(raw)))
        return pl_err_set(err, PL_EINVAL, "commit: \"%s\" is not an id", id);
    return pl_buf_add(b, raw, sizeof(raw), err);
}

static int encode_head(const struct pl_commit *c, struct pl_buf *b, struct pl_err *err)
{
    const struct pl_hash *roots[COMMIT_ROOTS];
    int r;

    if ((r = pl_buf_add(b, commit_magic, sizeof(commit_magic), err)) < 0 || (r = pl_buf_add_u8(b, PL_COMMIT_VERSION, err)) < 0 ||
        (r = add_text(b, c->project, err)) < 0 || (r = add_text(b, c->repo, err)) < 0 || (r = add_id(b, c->id, err)) < 0 ||
        (r = add_text(b, c->branch, err)) < 0)
        return r;
    commit_roots(c, roots);
    for (size_t i = 0; i < COMMIT_ROOTS; i++) {
        if ((r = pl_buf_add(b, roots[i]->b, PL_HASH_BYTES, err)) < 0)
            return r;
    }
    return 0;
}

static int encode_provenance(const struct pl_commit *c, struct pl_buf *b, struct pl_err *err)
{
    int r = pl_buf_add_varint(b, c->n_provenance, err);

    for (size_t i = 0; r == 0 && i < c->n_provenance; i++) {
        const struct pl_commit_source *s = &c->provenance[i];

        if ((r = add_text(b, s->project, err)) < 0 || (r = add_text(b, s->repo, err)) < 0 ||
            (r = add_text(b, s->branch, err)) < 0)
            return r;
        r = add_id(b, s->commit, err);
    }
    return r;
}

static int encode_middle(const struct pl_commit *c, struct pl_buf *b, struct pl_err *err)
{
    int r;

    if ((r = pl_buf_add_varint(b, c->generation, err)) < 0 || (r = pl_buf_add_le64(b, (uint64_t)c->wall_us, err)) < 0 ||
        (r = pl_buf_add_varint(b, c->files, err)) < 0 || (r = pl_buf_add_varint(b, c->bytes, err)) < 0 ||
        (r = add_text(b, c->author, err)) < 0 || (r = add_text(b, c->message, err)) < 0 || (r = add_text(b, c->stage, err)) < 0)
        return r;
    return pl_buf_add(b, c->code.b, PL_HASH_BYTES, err);
}

static int encode_parents(const struct pl_commit *c, struct pl_buf *b, struct pl_err *err)
{
    int r = pl_buf_add_varint(b, c->n_parents, err);

    return r < 0 || c->n_parents == 0 ? r : pl_buf_add(b, c->parents, c->n_parents * PL_HASH_BYTES, err);
}

int pl_commit_encode(const struct pl_commit *c, struct pl_buf *ret, struct pl_err *err)
{
    size_t before = ret->len;
    int r;

    if ((r = commit_check(c, err)) < 0 || (r = encode_head(c, ret, err)) < 0 || (r = encode_middle(c, ret, err)) < 0 ||
        (r = encode_parents(c, ret, err)) < 0 || (r = encode_provenance(c, ret, err)) < 0)
        return r;
    if (ret->len - before > PL_COMMIT_OBJECT_MAX_BYTES)
        return pl_err_set(err, PL_ETOOBIG, "commit: %zu bytes; at most %u are accepted", ret->len - before,
                          PL_COMMIT_OBJECT_MAX_BYTES);
    return 0;
}

/* Decoder state. The cursor remembers the first failure; after it, texts are read as "". pl_commit_decode
 * checks for failures once, at the end. */
struct reader {
    struct pl_cursor c;
    struct pl_arena *arena;
    bool nomem;
};

static const char *read_text(struct reader *rd, size_t max)
{
    uint64_t len = pl_cursor_varint(&rd->c);
    const uint8_t *p;
    char *s;

    if (len > max)
        rd->c.failed = true;
    p = rd->c.failed ? NULL : pl_cursor_bytes(&rd->c, (size_t)len);
    if (p == NULL || memchr(p, '\0', (size_t)len) != NULL) {
        rd->c.failed = true;
        return "";
    }
    s = pl_arena_strndup(rd->arena, (const char *)p, (size_t)len);
    if (s == NULL) {
        rd->nomem = true;
        return "";
    }
    return s;
}

static void read_hash(struct reader *rd, struct pl_hash *ret)
{
    const uint8_t *p = pl_cursor_bytes(&rd->c, PL_HASH_BYTES);

    if (p != NULL)
        memcpy(ret->b, p, PL_HASH_BYTES);
}

static void read_id(struct reader *rd, char ret[PL_ID_HEX + 1])
{
    const uint8_t *p = pl_cursor_bytes(&rd->c, PL_ID_HEX / 2);

    if (p != NULL)
        pl_hex_encode(p, PL_ID_HEX / 2, ret);
}

/* Allocates space for `n` items of at least `least` encoded bytes each. A count that the remaining bytes
 * cannot contain is rejected before anything is allocated. */
static void *read_array(struct reader *rd, uint64_t n, uint64_t max, size_t least, size_t size)
{
    void *p;

    if (rd->c.failed || n == 0)
        return NULL;
    if (n > max || n * least > pl_cursor_left(&rd->c)) {
        rd->c.failed = true;
        return NULL;
    }
    p = pl_arena_alloc(rd->arena, (size_t)n * size);
    if (p == NULL)
        rd->nomem = true;
    return p;
}

static void decode_parents(struct reader *rd, struct pl_commit *c)
{
    uint64_t n = pl_cursor_varint(&rd->c);
    struct pl_hash *parents = read_array(rd, n, PL_COMMIT_PARENTS_MAX, PL_HASH_BYTES, sizeof(*parents));

    if (parents == NULL)
        return;
    for (uint64_t i = 0; i < n; i++)
        read_hash(rd, &parents[i]);
    c->parents = parents;
    c->n_parents = (size_t)n;
}

static void decode_provenance(struct reader *rd, struct pl_commit *c)
{
    uint64_t n = pl_cursor_varint(&rd->c);
    struct pl_commit_source *sources = read_array(rd, n, PL_COMMIT_PROVENANCE_MAX, 3 + PL_ID_HEX / 2, sizeof(*sources));

    if (sources == NULL)
        return;
    for (uint64_t i = 0; i < n && !rd->nomem; i++) {
        sources[i].project = read_text(rd, PL_NAME_MAX_BYTES);
        sources[i].repo = read_text(rd, PL_NAME_MAX_BYTES);
        sources[i].branch = read_text(rd, PL_NAME_MAX_BYTES);
        read_id(rd, sources[i].commit);
    }
    c->provenance = sources;
    c->n_provenance = (size_t)n;
}

/* Reads all fields after the version, in the order of the format. */
static void decode_fields(struct reader *rd, struct pl_commit *c)
{
    const struct pl_hash *roots[COMMIT_ROOTS];

    c->project = read_text(rd, PL_NAME_MAX_BYTES);
    c->repo = read_text(rd, PL_NAME_MAX_BYTES);
    read_id(rd, c->id);
    c->branch = read_text(rd, PL_NAME_MAX_BYTES);
    commit_roots(c, roots);
    for (size_t i = 0; i < COMMIT_ROOTS; i++)
        read_hash(rd, (struct pl_hash *)roots[i]);
    c->generation = pl_cursor_varint(&rd->c);
    c->wall_us = (int64_t)pl_cursor_le64(&rd->c);
    c->files = pl_cursor_varint(&rd->c);
    c->bytes = pl_cursor_varint(&rd->c);
    c->author = read_text(rd, PL_COMMIT_AUTHOR_MAX);
    c->message = read_text(rd, PL_COMMIT_MESSAGE_MAX);
    c->stage = read_text(rd, PL_NAME_MAX_BYTES);
    read_hash(rd, &c->code);
    decode_parents(rd, c);
    decode_provenance(rd, c);
}

int pl_commit_decode(const void *bytes, size_t n, struct pl_arena *arena, struct pl_commit *ret, struct pl_err *err)
{
    struct reader rd = {.c = pl_cursor_of(bytes, n), .arena = arena};
    struct pl_commit c = {0};
    struct pl_err why = {0};
    const uint8_t *magic;
    uint8_t version;

    if (n > PL_COMMIT_OBJECT_MAX_BYTES)
        return pl_err_set(err, PL_EFORMAT, "commit object of %zu bytes; at most %u are accepted", n, PL_COMMIT_OBJECT_MAX_BYTES);
    magic = pl_cursor_bytes(&rd.c, sizeof(commit_magic));
    if (magic == NULL || memcmp(magic, commit_magic, sizeof(commit_magic)) != 0)
        return pl_err_set(err, PL_EFORMAT, "not a commit object: it does not start with PLCO");
    version = pl_cursor_u8(&rd.c);
    if (!rd.c.failed && version != PL_COMMIT_VERSION)
        return pl_err_set(err, PL_EFORMAT, "commit object of version %u; this program knows %d", version, PL_COMMIT_VERSION);
    decode_fields(&rd, &c);
    if (rd.nomem)
        return pl_err_nomem(err);
    if (rd.c.failed)
        return pl_err_set(err, PL_EFORMAT, "commit object: its %zu bytes are not a valid commit of version %d", n,
                          PL_COMMIT_VERSION);
    if (pl_cursor_left(&rd.c) != 0)
        return pl_err_set(err, PL_EFORMAT, "commit object: %zu bytes after its end", pl_cursor_left(&rd.c));
    if (commit_check(&c, &why) < 0)
        return pl_err_set(err, PL_EFORMAT, "commit object: %s", why.msg);
    *ret = c;
    return 0;
}
