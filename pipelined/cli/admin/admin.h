/* cli/admin: Verbs for access and upkeep: access, s3, login, gc, retention, fsck, recover, mirror.
 *
 * In:      Names, store URLs.
 * Out:     Tables, reports.
 * Uses:    cli/{local, support}, db/{gc, writer}, storage/{base, object, system},
 *          storage/dataset/{fsck, ingest, mirror}
 * Threads: Main thread.
 *
 * Inside:
 *   credential          options of create token and create s3-key
 *   verb_access         users, tokens, audit
 *   verb_fsck           fsck
 *   verb_gc             garbage collection
 *   verb_login          login, logout, contexts
 *   verb_login_session  sessions of browsers
 *   verb_mirror         mirror
 *   verb_recover        recover
 *   verb_retention      keep: applies retention rules
 *   verb_s3             S3 keys, s3 env */
#pragma once
