// link: storage/dataset/commit
/* Any bytes as a commit object: refused, or exactly what encoding the decoded commit gives. */
#include "storage/dataset/commit/commit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void look_at(const struct pl_commit *c)
{
    size_t length =
        strlen(c->project) + strlen(c->repo) + strlen(c->branch) + strlen(c->author) + strlen(c->message) + strlen(c->stage);

    if (strlen(c->id) != PL_ID_HEX || length > PL_COMMIT_OBJECT_MAX_BYTES)
        abort();
    for (size_t i = 0; i < c->n_provenance; i++)
        if (pl_name_check("repo", c->provenance[i].repo, NULL) < 0 || strlen(c->provenance[i].commit) != PL_ID_HEX)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct pl_arena *arena = pl_arena_create(16u << 20);
    struct pl_buf again = {0};
    struct pl_commit c;
    struct pl_err err = {0};

    if (!arena)
        return 0;
    if (pl_commit_decode(data, n, arena, &c, &err) == 0) {
        look_at(&c);
        if (pl_commit_encode(&c, &again, &err) < 0 || again.len != n || memcmp(again.data, data, n) != 0)
            abort();
    } else if (err.msg[0] == '\0') {
        abort();
    }
    pl_buf_finish(&again);
    pl_arena_destroy(arena);
    return 0;
}
