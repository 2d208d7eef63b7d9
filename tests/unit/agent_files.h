/* A store in a temporary folder and a work folder beside it, for the tests of inputs and outputs. */
#pragma once

#include "pipelined/agent/inputs/inputs.h"
#include "pipelined/agent/outputs/outputs.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/object/object.h"
#include "storage/object/store_marker.h"
#include "storage/store/store.h"
#include "storage/system/io.h"
#include "storage/tree_edit/tree_edit.h"
#include <stdio.h>
#include <sys/stat.h>

struct agent_files {
    char dir[64];
    char work[128], out[160];
    struct pl_object_store *objects;
    struct pl_store *store;
    struct pl_inputs *inputs;
    struct pl_input_refs refs;
    struct pl_outputs_store outputs;
};

static inline void agent_files_write(const char *folder, const char *path, const void *data, size_t n, mode_t mode)
{
    char whole[4096];
    FILE *file;

    snprintf(whole, sizeof(whole), "%s/%s", folder, path);
    *strrchr(whole, '/') = 0;
    assert_int_equal(pl_io_mkdirs(whole, 0755, NULL), 0);
    whole[strlen(whole)] = '/';
    (void)unlink(whole);
    file = fopen(whole, "w"); /* not pl_io_write_file: nothing here need survive a crash */
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fchmod(fileno(file), mode), 0);
    assert_int_equal(fclose(file), 0);
}

/* The tree of a local folder, in the store. */
static inline struct pl_hash agent_files_commit(struct agent_files *f, const char *folder)
{
    const struct pl_pack_sink sink = pl_store_sink(f->store);
    const struct pl_ingest_source source = {.local = folder, .dest = ""};
    const struct pl_ingest_options options = {0};
    struct pl_node_source nodes = {.self = f->store, .get = pl_store_node_get};
    struct pl_node_sink node_sink = {.put = pl_pack_session_node_put};
    struct pl_pack_session *session = NULL;
    struct pl_hash root = {0};
    struct pl_buf ops = {0};
    struct pl_tree_op *list;
    struct pl_err err = {0};
    size_t n;

    if (pl_pack_session_open(&sink, "default", &session, &err) < 0 ||
        pl_ingest_tree(session, &source, 1, &options, &ops, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    node_sink.self = session;
    assert_int_equal(pl_ops_read(ops.data, ops.len, &list, &n, &err), 0);
    if (pl_tree_edit(&nodes, &node_sink, &root, list, n, &root, &err) < 0 || pl_pack_session_finish(session, &err) < 0)
        fail_msg("%s", err.msg);
    free(list);
    pl_buf_finish(&ops);
    pl_pack_session_close(session);
    return root;
}

static inline struct agent_files *agent_files_create(bool read_only)
{
    static const char *const folders[] = {"work/pfs/out", "work/next", "store", "in"};
    struct agent_files *f = calloc(1, sizeof(*f));
    struct pl_store_marker marker;
    struct pl_err err = {0};
    struct pl_inputs_config config = {.work = f->work, .read_only = read_only};
    char path[160];

    strcpy(f->dir, "/tmp/pl-test-files-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    for (size_t i = 0; i < PL_ARRAY_SIZE(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", f->dir, folders[i]);
        assert_int_equal(pl_io_mkdirs(path, 0755, NULL), 0);
    }
    snprintf(f->work, sizeof(f->work), "%s/work", f->dir);
    snprintf(f->out, sizeof(f->out), "%s/pfs/out", f->work);
    snprintf(path, sizeof(path), "%s/store", f->dir);
    if (pl_object_file_open(path, &f->objects, &err) < 0 || pl_object_store_init(f->objects, &marker, &err) < 0 ||
        pl_store_open(f->objects, "default", NULL, &f->store, &err) < 0)
        fail_msg("%s", err.msg);
    snprintf(path, sizeof(path), "%s/cache", f->dir);
    config.reader = pl_store_chunk_reader(f->store);
    config.cache = path;
    if (pl_inputs_create(&config, &f->inputs, &err) < 0 || pl_input_refs_init(&f->refs, &config.reader, &err) < 0)
        fail_msg("%s", err.msg);
    f->outputs = (struct pl_outputs_store){.sink = pl_store_sink(f->store), .project = "default"};
    return f;
}

static inline void agent_files_destroy(struct agent_files *f)
{
    pl_outputs_drop(&f->outputs);
    pl_inputs_destroy(f->inputs);
    pl_input_refs_finish(&f->refs);
    pl_store_close(f->store);
    pl_object_close(f->objects);
    assert_int_equal(pl_io_remove_tree(f->dir, NULL), 0);
    free(f);
}

/* For tests whose state is the files alone. */
static inline int agent_files_set_up(void **state)
{
    *state = agent_files_create(true);
    return 0;
}

static inline int agent_files_set_up_writable(void **state)
{
    *state = agent_files_create(false);
    return 0;
}

static inline int agent_files_tear_down(void **state)
{
    agent_files_destroy(*state);
    return 0;
}
