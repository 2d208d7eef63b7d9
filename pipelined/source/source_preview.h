/* source_preview: says of each branch beside the followed one what its specs would change, from current data, and changes nothing.
 * Only branches of the repository itself are previewed (refs/heads/…): those of forks stand elsewhere.
 *
 *   list of branches ──tip is new──▶ fetch ──▶ validate and plan (dry run) ──▶ a preview ──▶ the status of its commit
 *
 * A preview is a note of status_poster with two members more, {"branch", "at_us", …}: who planned what, and when. The previews of a
 * source are kept until the branch is deleted or becomes the followed commit. */
#pragma once

#include "pipelined/source/source_look.h"

#define PL_PREVIEWS_PER_LOOK 20u /* branches without a preview come first, then the oldest previews; the rest at later looks */

/* Brings the previews of the source up to date, sends their statuses, and records both. Without the setting `preview` it forgets them.
 * What went wrong is logged and recorded as a warning, and the next look tries again. */
void pl_source_preview(struct pl_source_look *l);

/* Returns the text of a preview, a new reference: "would create 1, update 2 pipelines: 340 datums to run, about 2.5 GPU-hours (3
 * stages)". `changes`: as from pl_source_commit_changes; `pruned`: how many pipelines would be stopped or deleted, which
 * `prune` says. NULL: no memory. Pure. */
json_t *pl_source_preview_text(const json_t *changes, size_t pruned, enum pl_source_prune prune);
