/* db/tx: Transactions on repos, branches, commits, pushes, runs, jobs, access and packs.
 *
 * In:      Arguments that are durable already (packs before the log).
 * Out:     Log records and rows.
 * Uses:    db/{retention, writer}, policy, spec, text, storage/{base, chunk, pack, store, tree, tree_edit},
 *          storage/dataset/{commit, gc}
 * Threads: The writer thread runs the bodies.
 *
 * Headers for other rooms:
 *   access_tx          transactions on users, tokens, S3 keys and the audit
 *   attributes_edit    edits the attribute tree of a commit
 *   commit_tx          transactions that make commits and end jobs and runs
 *   direct_upload_tx   transactions on packs uploaded straight to the bucket
 *   job_tx             transactions on runs and jobs
 *   login_session_tx   transactions on the sessions of browsers
 *   notify_tx          transactions on notification rules
 *   pack_state_tx      transactions on pack states
 *   repo_tx            transactions on projects, repos and branches
 *   rerun_branch       a rerun whose outputs go to a separate branch
 *   upload_session_tx  transactions on upload and reader sessions
 *
 * Inside:
 *   push_tx            a push: edits the head's tree and commits, retried on conflict */
#pragma once
