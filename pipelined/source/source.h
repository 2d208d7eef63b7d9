/* source: Follows git repositories: the specs at the tip of a branch are the pipelines of a project.
 *
 *   branch moves ──look──▶ commit ──read──▶ specs, code ──check──▶ one transaction ──▶ pipelines, a run
 *                 pl-git            pl-git                db/pipelines
 *
 * In:      Sources and git inputs of the database; repositories.
 * Out:     Pipeline versions that name their commit; commits of git inputs; the state of each.
 * Uses:    db/{pipelines, tx, writer}, forge, policy, spec, text,
 *          storage/{base, http, pack, store, system, tree}, storage/dataset/{commit, file}
 * Threads: A few of its own, which look at sources side by side; each starts pl-git while a source is due.
 *
 * Headers for other rooms:
 *   webhooks         a webhook, and keys of webhooks, read when they are needed
 *
 * Inside:
 *   git_child        a pl-git process, asked with a time limit
 *   git_files        files of a commit, one after another, or stored as a tree
 *   git_input        a look at a repository whose files are an input
 *   source_address   which repositories a source may follow
 *   source_commit    the specs and code folders of a commit, prepared for one transaction
 *   source_look      a look at a source: the tip, and what a new commit there sets
 *   source_preview   what the specs of other branches would change
 *   source_schedule  when a source is looked at next
 *   source_settings  checks the settings of a source
 *   webhook_signature  whether a webhook is signed with a secret */

/* source: the API, on any thread. Functions that read the database block. */
#pragma once

#include "pipelined/db/pipelines/pipeline_draft.h"
#include "pipelined/forge/status_poster.h"
#include "storage/http/outbound.h"

struct pl_sources_config {
    const struct pl_pipeline_host *host; /* must outlive the sources, like `local_folders` */
    const char *data_dir;                /* copies of repositories lie in DIR/cache/git */
    /* folders below which local repositories may lie, separated by commas; "" = none */
    const char *local_folders;
    const struct pl_outbound *outbound; /* servers that may be connected to; must outlive the sources */
    const char *public_url;             /* URL of the daemon's page, which statuses of commits link to; "" = none */
    const char *program;                /* pl-git; NULL = the one beside this program */
};

struct pl_sources;
struct pl_webhook;

/* Starts the threads. PL_EINVAL: a local folder is not absolute, or lies in or above `data_dir`. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_sources_start(const struct pl_sources_config *config, struct pl_sources **ret, struct pl_err *err);
/* Makes the threads end soon: stops pl-git and what it reads; a transaction that has begun is completed. Does not block.
 * NULL is allowed. */
void pl_sources_drain(struct pl_sources *s);
/* Waits up to `ms` milliseconds for the end of the threads, which may need the event loop until then. True if they have ended,
 * or `s` is NULL. */
bool pl_sources_drained(struct pl_sources *s, int64_t ms);
/* Waits for the end of the threads and frees the sources. NULL is allowed. Returns NULL. */
struct pl_sources *pl_sources_destroy(struct pl_sources *s);

/* Checks the settings of a source, {git, branch?, path?, interval?, secret?, prune?, hook_secret?, status?, preview?, paused?}, and
 * returns them in their normal form, with all defaults unless `update`. PL_EINVAL: the message and field name the setting. PL_EFORBIDDEN: the
 * daemon's settings exclude the repository. */
PL_MUST_CHECK
int pl_sources_check(const struct pl_sources *s, const json_t *settings, bool update, json_t **ret, struct pl_err *err);
/* Checks complete settings: whether statuses of commits can be sent, if the setting `status` says so. PL_EINVAL, PL_EFORBIDDEN; the
 * errors have the field. */
PL_MUST_CHECK
int pl_sources_check_status(const struct pl_sources *s, const json_t *settings, struct pl_err *err);
/* Says that a source, or a repo with the option `git`, was created, changed or deleted: it is read again and looked at soon. */
void pl_sources_changed(struct pl_sources *s);
/* Takes a webhook (webhooks.h): if it is signed with the secret that the source names, the source is looked at soon, unless it
 * is paused. Any number of webhooks before that are one look. Returns false for all others, without telling why. Reads a
 * secret at most now and then, and never the database. */
bool pl_sources_webhook(struct pl_sources *s, const struct pl_webhook *hook);
/* Asks for a look now at the repository of a repo with the option `git`. Returns the number of that look; 0 = there is no such
 * repo. */
uint64_t pl_sources_look_repo(struct pl_sources *s, const char *project, const char *repo);
/* Returns the number of the last completed look at it since this start; 0 = none. */
uint64_t pl_sources_looks_repo(struct pl_sources *s, const char *project, const char *repo);
/* Checks the addresses that the git inputs of a spec name. PL_EFORBIDDEN, PL_ENOTFOUND: the message names the stage. */
struct pl_spec;
PL_MUST_CHECK
int pl_sources_check_inputs(const struct pl_sources *s, const struct pl_spec *spec, struct pl_err *err);
/* Says that a secret was changed or deleted. */
void pl_sources_secret_changed(struct pl_sources *s);
/* Asks for a look now, also at a paused source. Returns the number of that look (see pl_sources_looks); 0 = there is no
 * such source. `compare`: the look changes nothing, and pl_sources_compared says what another would do. */
uint64_t pl_sources_look(struct pl_sources *s, const char *name, bool compare);
/* Returns the result of the last comparison, {"commit", "error", "prune", "pipelines": [{"pipeline", "path", "change":
 * "created" | "updated" | "unchanged" | "started", "stages"}], "left"?, "warnings"?, "errors"?}; a new reference, NULL if there was none since the start. */
json_t *pl_sources_compared(struct pl_sources *s, const char *name);
/* Returns the number of the last completed look at the source since this start; 0 = none. */
uint64_t pl_sources_looks(struct pl_sources *s, const char *name);
