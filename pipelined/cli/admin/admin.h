/* cli/admin: Subcommands for access and maintenance: access, s3, login, gc, retention, fsck, recover, mirror.
 *
 * In:      Names, store URLs.
 * Out:     Tables, reports.
 * Uses:    cli/{local, support}, db/{gc, writer}, storage/{base, object, system},
 *          storage/dataset/{fsck, ingest, mirror}
 * Threads: Main thread.
 *
 * Inside:
 *   credential          options of create token and create s3-key
 *   verb_access         users, tokens, audit log
 *   verb_fsck           fsck: checks a store
 *   verb_gc             gc: garbage collection
 *   verb_login          login, logout, list context
 *   verb_login_session  login sessions of browsers
 *   verb_mirror         mirror: copies a store
 *   verb_recover        recover: rebuilds a data folder from its store
 *   verb_retention      keep: applies retention rules
 *   verb_s3             S3 keys, s3 env */
#pragma once
