// link: pipelined/net/remote storage/base storage/pack storage/tree_edit
/* pl-bench-many URL TOKEN PROJECT REPO FILES BYTES: one commit of many random files, without a folder to read them from: d000/f000 …, a
 * thousand a folder, of which each holds other bytes. Goes the way that an ingest goes: packs, then operations. */
#include "pipelined/net/remote/remote.h"
#include "storage/base/hash.h"
#include "storage/pack/pack_builder.h"
#include "storage/tree_edit/tree_ops.h"

#include <stdio.h>

#define FOLDER_FILES 1000u
#define BYTES_MAX    65536u

static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u); /* SplitMix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int add_file(struct pl_pack_builder *session, struct pl_tree_ops_writer *ops, unsigned i, size_t n, struct pl_err *err)
{
    static uint64_t bytes[BYTES_MAX / sizeof(uint64_t)];
    uint64_t state = i;
    struct pl_entry entry;
    struct pl_hash id;
    char path[64];
    int r;

    for (size_t k = 0; k * sizeof bytes[0] < n; k++)
        bytes[k] = draw(&state);
    r = pl_pack_builder_add(session, PL_REC_CHUNK, bytes, n, &id, err);
    if (r < 0)
        return r;
    entry = pl_entry_chunk(PL_KIND_FILE, n, &id);
    snprintf(path, sizeof path, "d%03u/f%03u", i / FOLDER_FILES, i % FOLDER_FILES);
    return pl_tree_ops_writer_put(ops, path, strlen(path), &entry, err);
}

static int commit(struct pl_http_client *client, const char *project, const char *repo, const char *session,
                  const struct pl_buf *ops, struct pl_err *err)
{
    _cleanup_free_ char *path =
        pl_http_path_make("/api/v1/repos/%s/%s/branches/master/commits?session=%s", project, repo, session);
    const struct pl_http_call call = {.method = "POST",
                                      .path = path,
                                      .content_type = PL_TREE_OPS_MEDIA_TYPE,
                                      .upload = PL_UPLOAD_BYTES,
                                      .bytes = ops->data,
                                      .len = ops->len};

    return path ? pl_http_client_call(client, &call, NULL, err) : pl_err_nomem(err);
}

static int add_all(struct pl_http_client *client, const char *project, const char *repo, unsigned files, size_t n,
                   struct pl_err *err)
{
    _cleanup_(pl_remote_closep) struct pl_remote *remote = NULL;
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_tree_ops_writer_finish) struct pl_tree_ops_writer writer = {0};
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_pack_sink sink;
    int r = pl_remote_open(client, project, &remote, err);

    r = r < 0 ? r : pl_remote_session(remote, err);
    if (r < 0)
        return r;
    sink = pl_remote_sink(remote);
    r = pl_pack_builder_open(&sink, project, &session, err);
    r = r < 0 ? r : pl_tree_ops_writer_init(&writer, &ops, err);
    for (unsigned i = 0; r == 0 && i < files; i++)
        r = add_file(session, &writer, i, n, err);
    r = r < 0 ? r : pl_tree_ops_writer_end(&writer, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    return r < 0 ? r : commit(client, project, repo, pl_remote_session_id(remote), &ops, err);
}

int main(int argc, char **argv)
{
    _cleanup_(pl_http_client_destroyp) struct pl_http_client *client = NULL;
    struct pl_err err = {0};
    int r;

    if (argc != 7 || strtoul(argv[6], NULL, 10) > BYTES_MAX) {
        fprintf(stderr, "usage: pl-bench-many URL TOKEN PROJECT REPO FILES BYTES\n");
        return 2;
    }
    r = pl_http_client_create(argv[1], argv[2], &client, &err);
    r = r < 0 ? r : add_all(client, argv[3], argv[4], (unsigned)strtoul(argv[5], NULL, 10), strtoul(argv[6], NULL, 10), &err);
    if (r < 0)
        fprintf(stderr, "pl-bench-many: %s\n", err.msg);
    return r < 0;
}
