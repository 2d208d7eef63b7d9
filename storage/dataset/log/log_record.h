/* log_record: the kinds of log records and their fields. The table in docs/format.md is generated from
 * this one. The payload is a JSON object with sorted keys. Hashes are 64 hex digits, "" = none; ids of
 * runs and commits are 32 hex digits; times are microseconds since 1970 (UTC). Fields may be added, but
 * never change their meaning. An unknown kind is an error: the log was written by a newer program. */
#pragma once

#include "storage/base/buf.h"

/* X(NAME, number, wire name, fields in alphabetical order ("?": may be absent; "" = the kind is reserved
 * and rejected), meaning) */
#define PL_RECORD_MAP(X)                                                                                                         \
    X(OPEN_EPOCH, 1, "open_epoch", "at epoch host nonce pid",                                                                    \
      "A daemon starts. This is its first record: a daemon of a lower epoch that still writes finds its next number taken.")     \
    X(PROJECT, 2, "project", "at name", "A project is created.")                                                                 \
    X(PROJECT_DELETE, 3, "project_delete", "name", "An empty project is deleted.")                                               \
    X(REPO, 4, "repo", "at description kind name options project",                                                               \
      "A repo is created, or its description and options are set. `kind` is `input` or `output`.")                               \
    X(REPO_DELETE, 5, "repo_delete", "name project", "A repo is deleted with its branches and commits.")                         \
    X(BRANCH, 6, "branch", "at head name project repo", "A branch is created. `head`: a commit's id, `\"\"` = none yet.")        \
    X(BRANCH_DELETE, 7, "branch_delete", "name project repo", "A branch is deleted; its commits stay.")                          \
    X(COMMIT, 8, "commit",                                                                                                       \
      "at attributes author branch bytes code files generation git? message object owner parent project provenance repo root "   \
      "run "                                                                                                                     \
      "stage table",                                                                                                             \
      "A commit, named by its run, becomes the head of `branch`, which is created if it does not exist. `object`: hash of "      \
      "the commit object; `parent`: id of the head before; `root` and `object` in full, an empty tree as 64 zeros; "             \
      "`git`: the git commit with the same files, in a repo that follows a git repository.")                                     \
    X(COMMIT_DELETE, 9, "commit_delete", "at? project repo run why?",                                                            \
      "Its parent becomes the head of its branches and the parent of its children. `why`: the reason, for users.")               \
    X(REF, 10, "ref", "at branch head project repo", "A branch moves to another commit.")                                        \
    X(RUN, 11, "run", "as? at cause id message of? stages?",                                                                     \
      "A run begins; runs have the order of their records. `cause`: `push`, `pipeline`, `manual`, `cron`, `delete`; "            \
      "`stages`: [project, stage] pairs that run although no input changed; with `force` as a third word all their datums "      \
      "run again, with {`failed`: [id], `recovered`: [id]} all that have no result but these at most 1,000.  `of`: the run "     \
      "whose jobs it repeats; `as`: the branch that gets the outputs instead of the stages' own.")                               \
    X(RUN_END, 12, "run_end", "at id reason state", "`state`: `success`, `failure`, `killed`.")                                  \
    X(PIPELINE, 13, "pipeline", "at effective_spec filename name origin? project run stages user_spec version",                  \
      "A version of a pipeline becomes the current one. `user_spec`, `effective_spec`: blobs; `run`: the run it starts; "        \
      "`origin`: the git commit it came from, {`source`, `url`, `branch`, `commit`, `path`, `author`, `message`, `at`}, or "     \
      "{`detached`: source (may be absent), `by`: who set it by hand}; its `defaults` (may be absent) are the fields that the "  \
      "defaults of the project and the cluster gave, {`project`: [path], `cluster`: [path], `cut`: some are left out}; "         \
      "`stages`: [{`name`, `branch`, `spec`, `code_root`, `code_identity`, `git`}] in order.")                                   \
    X(PIPELINE_DELETE, 14, "pipeline_delete", "name project", "All its versions are deleted; its output repos are not.")         \
    X(DEFAULTS, 15, "defaults", "scope spec", "`scope`: `cluster` or `project/NAME`.")                                           \
    X(JOB, 16, "job",                                                                                                            \
      "base bytes code counts created finished inputs ms output pipeline project reason run stage started state version "        \
      "warnings",                                                                                                                \
      "The final result of a stage in a run. `base`: the commit whose table was reused; `output`: the commit created; "          \
      "`started` 0 = never.")                                                                                                    \
    X(FOLD, 17, "fold", "", "Reserved: partial roots of a running job.")                                                         \
    X(PACK_STATE, 18, "pack_state", "at pack project state",                                                                     \
      "A pack changes its state in garbage collection. `state`: `condemned`, `doomed`, `revived` (live again), `gone` (its "     \
      "row is deleted, long after its object).")                                                                                 \
    X(USER, 19, "user", "at name roles",                                                                                         \
      "A user is created, or gets these roles: `roles`: [scope, role] pairs, scope `\"\"` = everything, `PROJECT`, "             \
      "`PROJECT/REPO`; the role `admin`, `writer`, `reader`.")                                                                   \
    X(TOKEN, 20, "token", "at expires hash name role scope user",                                                                \
      "A token of a user, by its SHA-256; it allows no more than `role` over `scope`. `expires`: 0 = never.")                    \
    X(SOURCE, 21, "source", "at name project spec",                                                                              \
      "A git repository is followed, or its settings change: `spec` is {`git`, `branch`, `path`, `interval`, `prune`, …}.")      \
    X(NOTIFY, 22, "notify", "at name project spec",                                                                              \
      "Events of a project are sent to a URL, or how they are sent changes: `spec` is {`on`, `url`, `format`, `secret`, "        \
      "`repo`}.")                                                                                                                \
    X(USER_DELETE, 23, "user_delete", "name", "A user is deleted with all tokens and keys.")                                     \
    X(TOKEN_DELETE, 24, "token_delete", "hash", "A token becomes invalid.")                                                      \
    X(S3_KEY, 25, "s3_key", "access_key at expires name role scope user",                                                        \
      "A user's key for S3 clients exists. Its secret is stored only on the daemon's machine, encrypted, and never logged.")     \
    X(S3_KEY_DELETE, 26, "s3_key_delete", "access_key", "The key becomes invalid.")                                              \
    X(PROJECT_OPTIONS, 27, "project_options", "name options",                                                                    \
      "All settings of a project: `options` is {`network`: false} if its stages have no network, otherwise {}.")                 \
    X(SOURCE_DELETE, 28, "source_delete", "name", "The repository is not followed any more; its pipelines are set by hand.")     \
    X(PIPELINE_STATE, 29, "pipeline_state", "at name project stopped",                                                           \
      "A pipeline stops or runs again. `stopped`: who stopped it, `hand` or `source`; runs give its stages no jobs until "       \
      "`\"\"` says that it runs again.")                                                                                         \
    X(NOTIFY_DELETE, 30, "notify_delete", "name", "Its events are not sent any more.")

enum pl_record_kind {
#define PL_RECORD_ENUM(name, number, ...) PL_RECORD_##name = (number),
    PL_RECORD_MAP(PL_RECORD_ENUM)
#undef PL_RECORD_ENUM
};

/* Returns the wire name; NULL for an unknown kind. */
const char *pl_record_name(uint16_t kind);
/* Returns the names of the fields, as in the table; NULL for an unknown kind. */
const char *pl_record_fields(uint16_t kind);
/* Appends the table of record kinds for docs/format.md, in Markdown. */
PL_MUST_CHECK
int pl_record_markdown(struct pl_buf *out, struct pl_err *err);
