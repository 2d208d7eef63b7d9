/* daemon: main(), configuration, wiring, start and drain of one daemon.
 *
 * In:      Configuration.
 * Out:     A running daemon; exit status.
 * Uses:    api/{answer_routes, data_routes, origin_routes, run_routes, server}, db/{gc, tx, writer}, engine, notify, text, exec/{kubernetes, local},
 *          kube/{nodes, pod}, net/{loop, server}, s3gateway/gateway, storage/{base, object, system},
 *          storage/dataset/log
 * Threads: Main thread; then the event loop.
 *
 * Inside:
 *   config                   configuration: defaults, file, options
 *   kube_settings            configuration of pods
 *   listen_policy            which addresses a listener may have
 *   log_checkpoint_schedule  when to write a log checkpoint
 *   main                     main function and the map of rooms
 *   user_connections         what connects to servers that users name */
#pragma once

#include "pipelined/daemon/config.h"

/* Opens everything, serves until SIGTERM or SIGINT, drains and closes. Returns the exit code of the process: 0; 1
 * (could not start; the reason is on stderr); 75 (another daemon took over the store, or the database no longer
 * matches the log: start again). */
int pl_daemon_run(const struct pl_config *config);
