/* job_images: which images the commands of a job ran in, as the nodes of its pods resolved them: "REPO@sha256:…". Of attempts that are kept, and once
 * their node has said so: a moment after a quick command has ended. Jobs of processes have none. */
#pragma once

#include "pipelined/api/server/api_context.h"

/* Adds "images", and a warning when one tag was two digests: within the job, or in it and in the last job before it that ran the same image. Nothing
 * to compare is a digest in the spec, and what two kinds of container runtimes call it. */
PL_MUST_CHECK
int pl_job_images_add(struct pl_conn *c, int64_t job, json_t *out, struct pl_err *err);
/* The image of a datum's last good attempt, of all datums when that one is not kept and there was one image; NULL: it is not known. The caller frees. */
PL_MUST_CHECK
int pl_job_image_of(struct pl_conn *c, int64_t job, const struct pl_hash *datum, char **ret, struct pl_err *err);
