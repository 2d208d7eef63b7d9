/* A direct-mapped cache of branch heads. The hash of the names selects an entry, which is valid for one log
 * position. */
#include "pipelined/db/open_commits/head_cache.h"

#include <pthread.h>

struct slot {
    uint64_t seq; /* log position when the entry was read; 0: the entry is empty */
    char project[PL_NAME_MAX_BYTES + 1], repo[PL_NAME_MAX_BYTES + 1], branch[PL_NAME_MAX_BYTES + 1];
    struct pl_head_cache_entry head;
};

struct pl_head_cache {
    struct pl_db *db;
    pthread_mutex_t lock;
    struct slot slots[PL_HEAD_CACHE_MAX];
};

int pl_head_cache_create(struct pl_db *db, struct pl_head_cache **ret, struct pl_err *err)
{
    struct pl_head_cache *h = calloc(1, sizeof *h);

    if (!h)
        return pl_err_nomem(err);
    h->db = db;
    pthread_mutex_init(&h->lock, NULL);
    *ret = h;
    return 0;
}

struct pl_head_cache *pl_head_cache_destroy(struct pl_head_cache *h)
{
    if (!h)
        return NULL;
    pthread_mutex_destroy(&h->lock);
    free(h);
    return NULL;
}

static int read_head(struct pl_db *db, const char *project, const char *repo, const char *branch, struct pl_head_cache_entry *ret,
                     struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    int64_t one;
    int r = pl_db_repo_find(rd.conn, project, repo, &ret->repo, err);

    r = r < 0 ? r : pl_db_branch_head(rd.conn, ret->repo.id, branch, &ret->commit, err);
    if (r < 0)
        return r;
    ret->branch = r > 0;
    if (r > 0)
        return 0;
    memset(&ret->commit, 0, sizeof ret->commit);
    r = pl_sql_int(rd.conn, err, &one, "SELECT 1 FROM branch WHERE repo = ? AND name = ?", "is", ret->repo.id, branch);
    ret->branch = r == 0;
    return r == PL_ENOTFOUND ? 0 : r;
}

static struct slot *slot_of(struct pl_head_cache *h, const char *project, const char *repo, const char *branch)
{
    uint64_t hash = pl_xxh64(branch, strlen(branch), pl_xxh64(repo, strlen(repo), pl_xxh64(project, strlen(project), 0)));

    return &h->slots[hash % PL_HEAD_CACHE_MAX];
}

static bool is_of(const struct slot *s, uint64_t seq, const char *project, const char *repo, const char *branch)
{
    return s->seq == seq && pl_streq(s->repo, repo) && pl_streq(s->branch, branch) && pl_streq(s->project, project);
}

int pl_head_cache_get(struct pl_head_cache *h, const char *project, const char *repo, const char *branch,
                      struct pl_head_cache_entry *ret, struct pl_err *err)
{
    /* read the log position before the database: if a change comes in between, the entry is outdated at once,
     * never wrong */
    uint64_t seq = pl_db_log_seq(h->db);
    struct slot *s = slot_of(h, project, repo, branch);
    bool known;
    int r;

    pthread_mutex_lock(&h->lock);
    known = seq && is_of(s, seq, project, repo, branch);
    if (known)
        *ret = s->head;
    pthread_mutex_unlock(&h->lock);
    if (known)
        return 0;
    r = read_head(h->db, project, repo, branch, ret, err);
    if (r < 0 || strlen(project) > PL_NAME_MAX_BYTES || strlen(repo) > PL_NAME_MAX_BYTES || strlen(branch) > PL_NAME_MAX_BYTES)
        return r;
    pthread_mutex_lock(&h->lock);
    s->seq = seq;
    strcpy(s->project, project);
    strcpy(s->repo, repo);
    strcpy(s->branch, branch);
    s->head = *ret;
    pthread_mutex_unlock(&h->lock);
    return 0;
}
