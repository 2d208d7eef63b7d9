// link: pipelined/agent/inputs storage/system
/* pl-bench-inputs URL TOKEN STORE_DIR PROJECT ROOT WORK [CACHE]: makes the tree ROOT the input "data" in WORK/pfs, by the very code
 * with which a worker does it: looked up in the daemon at URL, bytes out of the store's packs in STORE_DIR ("" = over HTTP), as hard
 * links out of CACHE when that is given. Prints the bytes of the files. */
#include "pipelined/agent/inputs/inputs.h"

#include "storage/system/io.h"
#include <inttypes.h>
#include <stdio.h>

static int make_folders(const char *work, struct pl_err *err)
{
    static const char *const folders[] = {"pfs", "next"};
    char path[4096];
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(folders); i++) {
        snprintf(path, sizeof path, "%s/%s", work, folders[i]);
        r = pl_io_mkdirs(path, 0755, err);
    }
    return r;
}

static int fetch(struct pl_uplink *link, const char *root, const char *work, const char *cache, uint64_t *ret_bytes,
                 struct pl_err *err)
{
    const struct pl_uplink_user user = {.link = link};
    struct pl_inputs_config config = {
        .reader = pl_daemon_client_reader(&user), .user = &user, .work = work, .cache = cache, .read_only = true};
    struct pl_agent_protocol_input input = {.name = "data", .path = ""};
    const struct pl_agent_protocol_datum row = {.datum = "", .inputs = &input, .n_inputs = 1};
    struct pl_inputs *inputs = NULL;
    int r = pl_hash_parse(root, &input.root, err);

    r = r < 0 ? r : make_folders(work, err);
    r = r < 0 ? r : pl_inputs_create(&config, &inputs, err);
    r = r < 0 ? r : pl_inputs_stage(inputs, &row, true, ret_bytes, err);
    r = r < 0 ? r : pl_inputs_apply(inputs, err);
    pl_inputs_destroy(inputs);
    return r;
}

int main(int argc, char **argv)
{
    atomic_bool stopping = false;
    struct pl_daemon_client_config config = {.stopping = &stopping};
    struct pl_uplink *link = NULL;
    struct pl_err err = {0};
    uint64_t bytes = 0;
    int r;

    if (argc < 7 || argc > 8) {
        fprintf(stderr, "usage: pl-bench-inputs URL TOKEN STORE_DIR PROJECT ROOT WORK [CACHE]\n");
        return 2;
    }
    config.url = argv[1];
    config.token = argv[2];
    config.store_dir = *argv[3] ? argv[3] : NULL;
    r = pl_daemon_client_create(&config, &link, &err);
    r = r < 0 ? r : pl_daemon_client_open_store(link, argv[4], &err);
    r = r < 0 ? r : fetch(link, argv[5], argv[6], argc > 7 ? argv[7] : NULL, &bytes, &err);
    pl_daemon_client_destroy(link);
    if (r < 0) {
        fprintf(stderr, "pl-bench-inputs: %s\n", err.msg);
        return 1;
    }
    printf("%" PRIu64 "\n", bytes);
    return 0;
}
