/* pipelined: the daemon. This map lists the rooms of the code in the order in which a push becomes a result. Each room
 * is a folder; its face, the header with the folder's name, says what the room is for, what enters and leaves it, and
 * what each of its files does.
 *
 *   a person types          cli/{main, support, data, runs, admin, local, try, doctor}
 *   files become records    storage/dataset/{ingest, file}, storage/{chunk, pack}
 *   records travel          net/{remote, http_client, loop, server}
 *   the daemon admits them  api/{access, server, data_routes, run_routes, answer_routes, origin_routes, transfer}, s3gateway/{gateway, formats}
 *   it keeps them           storage/{store, tree, tree_edit, object, s3, http}, storage/dataset/commit
 *   it records them         db/{tx, writer, open_commits, pipelines, stage_log}, storage/dataset/log
 *   a spec says what runs   spec, text, policy, source, forge, notify, git
 *   the daemon decides      plan, sched, engine; figures: metrics; their time: gpus; failures: failure
 *   workers start           exec, exec/{local, kubernetes}, kube/{client, watch, pod, pod_state, nodes}
 *   a worker computes       agent/{worker, connection, inputs, command, sandbox, runner, outputs}, sandbox_view, nvml, net/agent_protocol
 *   results become a commit merge, storage/tree_edit, db/tx
 *   a person looks at it    graph, provenance, api/graph_view
 *   files come back         storage/dataset/checkout
 *   old data goes           db/{retention, gc}, storage/dataset/gc
 *   damage is found         storage/dataset/{fsck, mirror}
 *   under everything        storage/{base, system}
 *
 * The room `daemon` itself reads the configuration, connects the other rooms, starts and stops them. */
#include "pipelined/daemon/daemon.h"

#include "storage/system/log_line.h"
#include "storage/system/process_hardening.h"

#include <stdio.h>
#include <sys/stat.h>

static int print(int (*make)(struct pl_buf *out, struct pl_err *err))
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};

    if (make(&text, NULL) < 0)
        return 1;
    return fwrite(text.data, 1, text.len, stdout) == text.len && fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    enum pl_log_level level = PL_LOG_INFO;
    struct pl_config config = {0};
    struct pl_err err = {0};
    int code;

    pl_process_close();
    umask(077); /* no file in the data folder is for other users, whatever the mode of the folder itself */
    if (pl_config_read(argc, argv, &config, &err) < 0 || pl_config_show_folders(&config, &err) < 0) {
        fprintf(stderr, "pipelined: %s\n", err.msg);
        return pl_err_info(err.code)->exit_code == 2 ? 2 : 1;
    }
    (void)pl_log_level_parse(config.log_level, &level); /* already checked */
    pl_log_init("pipelined", level, !isatty(STDERR_FILENO));
    if (config.show_help)
        code = print(pl_config_help);
    else if (config.show_doc)
        code = print(pl_config_markdown);
    else if (config.show_version)
        code = printf("pipelined %s\n", PL_VERSION) < 0;
    else
        code = pl_daemon_run(&config);
    pl_config_finish(&config);
    return code;
}
