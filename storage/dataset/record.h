/* record: the kinds of log records and the fields of each. The payload is a JSON object with sorted keys; hashes are 64 hex digits,
 * ids 32, times microseconds since 1970 (UTC). A field may be added, never given another meaning; an unknown kind is refused: the
 * program is older than the log.
 *
 * "repo" fields come with "project". A commit's roots are hashes, all zeros where a tree is absent. */
#pragma once

#include <stdint.h>

/*  X(NAME, number, wire name) and below what its payload holds */
#define PL_RECORD_MAP(X)                                                                                                         \
    X(OPEN_EPOCH, 1, "open_epoch")         /* epoch, at, host, pid, program */                                                   \
    X(PROJECT, 2, "project")               /* name, at */                                                                        \
    X(PROJECT_DELETE, 3, "project_delete") /* name */                                                                            \
    X(REPO, 4, "repo")                     /* project, name, kind (input|output), description, options {}, at */                 \
    X(REPO_DELETE, 5, "repo_delete")       /* project, name */                                                                   \
    X(BRANCH, 6, "branch")                 /* project, repo, name, head (commit id or ""), at */                                 \
    X(BRANCH_DELETE, 7, "branch_delete")   /* project, repo, name */                                                             \
    X(COMMIT, 8, "commit") /* project, repo, branch, run, parent, object, root, attributes, table, owner,           \
                                               generation, files, bytes, message, author, stage, code, provenance [], at */            \
    X(COMMIT_DELETE, 9, "commit_delete") /* project, repo, run */                                                                \
    X(REF, 10, "ref")                    /* project, repo, branch, head, at */                                                   \
    X(RUN, 11, "run")                    /* id, cause, message, at */                                                            \
    X(RUN_END, 12, "run_end")            /* id, state, reason, at */                                                             \
    X(PIPELINE, 13, "pipeline") /* project, name, version, user_spec, effective_spec, filename, stages [{name, branch,   \
                                               spec, code_root, code_identity, git}], at */       \
    X(PIPELINE_DELETE, 14, "pipeline_delete") /* project, name */                                                                \
    X(DEFAULTS, 15, "defaults")               /* scope, spec */                                                                  \
    X(JOB, 16, "job")               /* run, project, stage, version, state, reason, output, counts {}, ms {}, bytes {},      \
                                               code, inputs [], warnings [], created, started, finished, base */   \
    X(FOLD, 17, "fold")             /* reserved: partial roots of a running job */                                               \
    X(PACK_STATE, 18, "pack_state") /* project, pack, state (condemned|doomed|revived) */                                        \
    X(USER, 19, "user")             /* reserved */                                                                               \
    X(TOKEN, 20, "token")           /* reserved: name, hash, roles */                                                            \
    X(SOURCE, 21, "source")         /* reserved: a watched git repository */                                                     \
    X(NOTIFY, 22, "notify")         /* reserved */

enum pl_record_kind {
#define PL_RECORD_ENUM(name, number, text) PL_RECORD_##name = (number),
    PL_RECORD_MAP(PL_RECORD_ENUM)
#undef PL_RECORD_ENUM
};

/* The wire name, NULL for an unknown kind. */
const char *pl_record_name(uint16_t kind);
