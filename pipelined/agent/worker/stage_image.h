/* stage_image: gets the image of a stage ready for its commands on this machine, before a worker starts. */
#pragma once

#include "pipelined/sandbox_view/sandbox_view.h"
#include <jansson.h>

/* Gets the image that `request` (pl_image_request) names and checks that the stage's programs are in it.
 * The process, which must have one thread, is then in the namespace that has the image's files. The caller finishes
 * `ret`. PL_ESTAGE: the stage cannot run in this image, however often it is tried; PL_EUNAVAILABLE. */
PL_MUST_CHECK
int pl_stage_image_get(const json_t *request, struct pl_image *ret, struct pl_err *err);
/* For the agent's option --get-image: prints the image as JSON, or why there is none. Returns the exit code: 0, or
 * PL_IMAGE_EXIT_HOPELESS if no other try will do better, or 1. */
int pl_stage_image_print(const char *request);
