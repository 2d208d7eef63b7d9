/* Stores a local folder as a tree: ingests its files, then builds a tree from the entries that the ingest
 * returns. */
#include "pipelined/cli/local/local_tree.h"

#include "storage/dataset/commit/pack_node_sink.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/tree/tree_build.h"

static int build(struct pl_pack_builder *session, const struct pl_buf *ops, bool files_only, struct pl_hash *ret_root,
                 struct pl_err *err)
{
    _cleanup_(pl_tree_builder_destroyp) struct pl_tree_builder *builder = NULL;
    struct pl_node_sink sink = pl_pack_node_sink(session);
    struct pl_tree_ops_reader reader;
    struct pl_tree_op op;
    int r = pl_tree_builder_create(&sink, &builder, err);

    r = r < 0 ? r : pl_tree_ops_reader_init(&reader, ops->data, ops->len, err);
    while (r >= 0 && (r = pl_tree_ops_reader_next(&reader, &op, err)) > 0)
        if (!files_only || op.entry.kind != PL_KIND_DIR)
            r = pl_tree_builder_add(builder, op.path, op.path_len, &op.entry, err);
    return r < 0 ? r : pl_tree_builder_finish(builder, ret_root, NULL, err);
}

int pl_cli_tree_store(const struct pl_pack_sink *sink, const char *project, const char *folder,
                      bool (*takes)(void *self, const char *path, bool is_dir), void *self, bool files_only,
                      struct pl_hash *ret_root, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    const struct pl_ingest_source source = {.local = folder, .dest = ""};
    const struct pl_ingest_options options = {.sink = sink, .filter = takes, .self = self};
    int r = pl_pack_builder_open(sink, project, &session, err);

    r = r < 0 ? r : pl_ingest_tree(session, &source, 1, &options, &ops, NULL, err);
    r = r < 0 ? r : build(session, &ops, files_only, ret_root, err);
    return r < 0 ? r : pl_pack_builder_finish(session, err);
}
