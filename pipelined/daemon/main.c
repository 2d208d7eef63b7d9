/* pipelined: the daemon. This comment is the map: every folder and file, in the order in which a push becomes a result.
 *
 * A person types: pipelined/cli (pipelinectl)
 *   cli, main            the table of verbs, verb_help, other_words for "did you mean", verb_completion;  args: options;  show: tables for people;  progress
 *   server, contexts     where the daemon is, and its token;  push, code_folder, local_tree, spec_file, jobs, beside: what several
 *                        verbs do
 *     verb_put, verb_get, verb_file, verb_commit, verb_branch, verb_repo, verb_project                 data
 *     verb_pipeline, verb_defaults, verb_secret, verb_run, verb_rerun, verb_job, verb_logs, verb_metrics, verb_wait, verb_why, verb_status     work;  verb_login, verb_gc
 *     verb_access, verb_s3 (credential: what a token or key is made with)          who may
 *     verb_offline, verb_plan (given_inputs: folders in the place of repos)                            without a daemon
 *     verb_recover, verb_fsck, verb_keep, verb_mirror (store_url: a store by its address)                         what is kept
 *     verb_doctor (doctor: its lines, doctor_machine, doctor_cluster, doctor_probe: a pod started once)            whether a machine, a cluster will do
 *     verb_try             one datum by hand: try_inputs (which), try_folder (its files), try_worker (the agent, started for it)
 * Local files become records: storage/dataset, storage/chunk, storage/pack
 *   ingest               walk, read, hash, pack with all cores: ingest_walk, ingest_read, ingest_out; segment, stream for large
 *                        files; join: one file of several
 *   ingest_names         the same by name alone, for planning over a folder
 *   stat_cache           files that were read before and have not changed
 *   chunk                where a file is cut: chunk_scan in parallel, chunk_list for the pieces, codec for zstd
 *   pack_session         what one writer adds: seen_set, pack_writer, pack_putter; pack_format and pack_reader know the bytes
 * They travel: pipelined/net, pipelined/api
 *   loop                 the one libuv loop on which everything decides
 *   http_server          libmicrohttpd: http_route, http_intake (bodies in), http_request, http_reply, http_stream (bodies out);
 *                        http_guests: connections that do not get to the point; http_peer: whose they are
 *   tls                  the certificate that listeners show
 *   http_client          the other side, by libcurl (storage/object's curl_library loads it with the first request)
 *   remote               a daemon's store from outside: remote_table knows where its records are; remote_ahead: what will be
 *                        read comes before; remote_signed: past the daemon, by URLs that it signs; patient_sink: through lost connections
 *   sse                  events to any number of followers; run_waits: who waits for a run's end
 *   api                  routes and who may use them: guard, principal (roles and verbs), access (users, tokens, S3 keys), audit,
 *                        params, openapi, turns (costly requests, those of each by turns), listing, download, spool, sessions, job_json, job_images; disk_watch: is there room?;
 *                        uploads (bodies) go by push onto a branch or by open_put into an open commit; commit_view reads either
 *     routes_repos, routes_branches, routes_commits, routes_open, routes_files, routes_diff, routes_packs,
 *     routes_signed (URLs for packs in a bucket; read_back reads what was put there, and takes out what lies),
 *     routes_trees                                                                                      data: data_routes
 *     routes_pipelines, routes_defaults, routes_secrets, routes_runs, routes_logs, routes_why, routes_status, routes_fsck, routes_keep                work
 *     routes_access (who may), routes_gc: all of these are run_routes;   routes_events, routes_openapi, routes_page                          the rest
 *   s3_gateway           the same repos as S3 buckets, on a port of their own: s3_ops is the table of S3's operations, s3_request reads and
 *                        verifies, s3_target knows buckets, s3_headers what is said beside the bytes, s3_error S3's codes
 *     s3_body (s3_chunked, s3_checksum), s3_put, s3_copy, s3_delete, s3_get, s3_list, s3_buckets       objects and buckets
 *     s3_multipart, s3_complete, s3_list_uploads; s3_uploads keeps their parts, s3_ended what came of them   uploads in parts
 * They are kept: storage/object, storage/pack, storage/tree, storage/dataset
 *   object               drivers of object storage: object_file; object_s3 (object_s3_read, object_s3_list, object_s3_sign: requests for
 *                        others), with copies in object_cache; marker says which store it is; comparison: is what lies there ours?
 *     s3_client            requests to a bucket until their outcome is known: http_io (curl multi, one thread; curl_library loads it),
 *                        http_head answers' headers, s3_answer what an answer means, s3_url where the bucket is, s3_creds whose requests
 *                        they are (s3_profile, s3_creds_fetch), crc32c; this_host: is it this machine?
 *     sigv4, sigv4_query, sigv4_verify   signatures, for clients and for those who check them;   s3_xml: S3's documents
 *     libs3_module         the same for servers that want Signature V2: a module (storage/object/libs3/), which object_libs3 loads
 *   store                verified records of a project: index (index_table, index_segment), record_cache; pack_files and pack_window read
 *                        packs, wherever they lie; stores opens one a project
 *   tree                 the path-keyed tree: node, node_stack, level_writer, names; tree_build, tree_walk, tree_edit (tree_apply,
 *                        change_list), tree_diff, tree_merge, tree_find; content_id for datums, ops for the wire; op_table and overlay for
 *                        operations that gather; attributes: what S3 clients say of a file
 *   commit, history      commit objects and how people name them;  session_sink, recent_nodes: nodes on their way into packs
 * They are recorded: storage/dataset, pipelined/db
 *   record, log          kinds of records; the log, which is the truth;  log_reader: ahead of who reads it;  ckpt: its checkpoints
 *   db                   the writer thread and group commit; open (lock, schema, replay), epoch (the log is ours), log_watch (it still is), clock_trust (what time it is for who drops), apply (one record), sql, names (look-ups)
 *   snapshot, recover    a copy of the database for a checkpoint; all of it anew from checkpoint and log, and without what had gone: regained
 *   opens                open commits: opens_writer (groups of puts, on the disk before they are answered), opens_view, opens_end,
 *                        opens_told, opens_needs, opens_shut, opens_bucket (their copy there); each is a file: storage/dataset/op_spool;  branch_view: a branch with what gathers on it, heads
 *   repo_tx, defaults_tx, commit_tx, push (attributes_edit: the second tree of a commit), pipeline_tx, pipeline_circle, update_price, manual_run, rerun (aside:
 *                        onto a branch of its own), job_tx,
 *   keep_pass (keep_world: all commits and what stands on them)   what repos keep no more is dropped
 *   access_tx, brought_tx   the transactions;   stage_log: what stages print
 * A pipeline says what to do with them: pipelined/core (pure), pipelined/git
 *   json_pos, json_text, quantity, glob (glob_compile), template (prefix: over a stage's inputs), params    texts
 *   spec                 spec_reader, spec_field, spec_type, spec_type_tree, spec_params, spec_check, spec_order, spec_doc;
 *                        spec_field_pod, spec_type_pod, spec_check_pod: what pods bring;  pachyderm: another form of it;  spec_documents
 *   code, git_main       a stage's code folder, its ignore rules and its git commit, asked of libgit2 in a program of its own
 *   identity, plan, plan_leaf, plan_json   which datums there are, and what runs again
 *                        plan_diff, plan_change, plan_again: of them only those that changed, or failed
 *   rate                 how often somebody fails
 *   table, merge, merge_rows, merge_collision    results of datums put together;   datum_env: what a command sees
 *   carry, carry_items   the same from what changed: the trees of the commit before, edited
 *   sched                what runs, where and when: sched_event, sched_graph, sched_run, sched_job, sched_task, sched_worker, sched_admit,
 *                        sched_line (fair share), sched_shape (pods), sched_node (where they were lost), sched_restore, sched_say (why something waits), sched_view, timers,
 *                        ranges
 *   disk_room            how full a disk may become;  keep: which commits stay;  secret: what is asked of who keeps them;  container_log: of who runs containers
 * The engine carries it out: pipelined/daemon, pipelined/exec
 *   daemon, config       one running daemon and what it is told;  listen: where it may;  log_ckpt: when a checkpoint of the log is made
 *   engine               feeds the scheduler: engine_stages, engine_restore; job_plan, job_base, job_rows, job_results, job_tried, job_commit,
 *                        job_whole; endings, later; workers, worker_doors (their tokens), worker_api, checkpoints
 *   local                workers as processes of this machine; gpu_slots, nvml: its GPUs; secret_files: what commands are given and nobody else;
 *                        worker_limits: what each may take;  workers_log: the file that agents write to; sandbox_probe: does bubblewrap work here?  leftovers: sandboxes that outlive their agents
 *   kubernetes           workers as pods: pods (one of them), shapes (those that are alike), admission (would the cluster
 *                        take one?), learning (what must be known first), owner (whose pods are),
 *                        silent (whose agents do not come), queued (whom a queue of Kueue holds back), pod_turns (which of them is asked about),
 *                        pod_logs (what their containers print),
 *                        cluster (what it can offer), seen_nodes (and could before), limits (what its
 *                        namespace's quotas demand), project_secrets, gpu_use (what GPUs do), kube_feed (what the cluster tells, on the loop);   kube_settings:
 *                        what the configuration says of pods
 * Kubernetes, where stages can be pods: pipelined/kube
 *   kubeconfig           which cluster, and who we are (kube_yaml); kube_identity: the token in force; kube_exec: plugins that say who we are
 *   kube_scan            JSON as it arrives, less what nobody needs;  kube_status: refusals and what to do about them;  kube_rate: how many a second
 *   kube_client          requests until their outcome is known (kube_wait: by who waits for it);  kube_write: made once, removed exactly;  kube_access: what we may do;  kube_log: what pods print
 *   kube_watch           lists that are kept up to date: which request comes next and what its answer means;  kube_informer: and asks it
 *   pod_render           a stage's worker as a pod: pod_gpu (ways to ask for GPUs), pod_devices (what is known of them by name), pod_patch (patches of a pod), pod_patched (applied, and what comes after), pod_check
 *                        (what specs may not ask for; pod_check_container, pod_check_volume)
 *   cluster_facts        what the API server's answers say of a cluster that pods are rendered by
 *   cache_folder         which folder of nodes agents may keep files in
 *   pod_state            what is the matter with a pod, and whose business it is (last_words: the end of what it printed; workload: what Kueue says of it);  offer, offer_answers: what nodes could give it;  pod_ramp: how many may wait
 *   gpu_report           which GPUs nodes have and who holds them: dcgm (how busy they are), gpushare_table (memory shared out);
 *                        secret_object: a secret of a project as the cluster keeps it
 * A worker does it: pipelined/agent
 *   worker_main, worker  the agent from attach to its end;  wire, lease, uplink: its protocol;  flow: rows pass through its three threads
 *   inputs, input_folder, input_change, input_kept, tree_source  data in;   datum, env, runner_client, sandbox, seccomp, userns, gpu: the command
 *   mesh                 the proxy of a service mesh in its pod
 *   out_folder, folder_move, outputs, out_walk, link_target, input_refs  data out;   early, early_walk, writers: while the command runs still
 *   try, shell           one datum for pipelinectl try: the same without a daemon;  a person in the place of the command, with a terminal of its own
 *   batch, next_server   a command that stays for all datums and asks for each;   next_main: pl-next, by which it asks
 *   checkpoint           what it keeps for its next attempt;  outlog, metrics: what it prints, as it prints it;
 *                        secrets: what it is given of them; mask: what it prints, less these
 *   runner               the static program beside the command;  copy_links: what links of its output lead to;  runner_pod: in a pod the
 *                        agent is in another container, no_network: and keeps the network to itself;  unix_listen: where they meet
 * Files come back: storage/dataset
 *   checkout             checkout_write, file_cache, file_read
 *   mirror               one store made equal to another: mirror_packs, then mirror_log
 *   fsck                 is it all there, and is it what it says? fsck_packs by several threads, fsck_log; check (pipelined/db): all
 *                        of a store
 * What nothing needs any more goes: pipelined/db, storage/dataset (gc.h: the protocol)
 *   gc                   when; gc_collect: one project's round; gc_roots: what is needed; gc_tx: states of packs;  session_tx: who is there
 *   gc_mark, gc_copy     what is reachable; what is needed of packs of little use;  reach: is all there that a tree needs?;  result_rows
 * Under everything: storage/base
 *   err, buf, shown (bytes where they lie), arena, hash, seal (secrets at rest), map, path, io, patience (who may wait lets others sync first), clock, log,
 *   pool, lack (memory that a library asked for in vain), effort (what a request may cost), program, holders (who has a file open),
 *   cgroup (limits for the processes of a sandbox),
 *   closed (a process that no other looks into), lock_order (debug builds: no two threads may wait for each other) */
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
    umask(077); /* whatever DIR's own mode is, nothing in it is for others */
    if (pl_config_read(argc, argv, &config, &err) < 0) {
        fprintf(stderr, "pipelined: %s\n", err.msg);
        return pl_err_info(err.code)->exit_code == 2 ? 2 : 1;
    }
    (void)pl_log_level_parse(config.log_level, &level); /* checked when it was read */
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
