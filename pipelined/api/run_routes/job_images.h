/* job_images: the container images in which a job's commands ran, as resolved by the nodes: "REPO@sha256:…".
 * The image is known only for attempts that are kept. A node reports it while the command runs, or shortly
 * after the end of a quick command. Jobs that ran as local processes have no images. */
#pragma once

#include "pipelined/api/server/api_context.h"

/* Adds "images" to the job's JSON, and a warning if one tag stood for two digests: within the job, or in
 * this job and in the previous job that ran the same image. An image that the spec names by its digest is
 * not checked, and ids that different container runtimes report are not compared. */
PL_MUST_CHECK
int pl_job_images_add(struct pl_conn *c, int64_t job, json_t *out, struct pl_err *err);
/* Finds the image of a datum's last successful attempt; if that attempt is not kept, the job's image, if it
 * had only one. `ret` is malloc'ed; NULL = unknown. */
PL_MUST_CHECK
int pl_job_image_of(struct pl_conn *c, int64_t job, const struct pl_hash *datum, char **ret, struct pl_err *err);
