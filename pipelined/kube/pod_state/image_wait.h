/* image_wait: for how long no pod of a stage could pull the stage's image. The time is that of the stage, not of a
 * pod: if pods are placed apart, or replaced, each of them waits for less than the stage has waited.
 *
 *   0 ──a pod waits for its image──▶ since then ──a pod comes up, no pod of the stage is left,
 *                                                 or none waited for its image for ten minutes──▶ 0
 *
 * Pure; times are monotonic. */
#pragma once

#include "storage/base/map.h"

struct pl_image_wait;

/* Returns the entry of the stage version to which the pod of this name belongs ("<stage version>-<index>-<start>"),
 * with one more reference. `stages`: map of the entries, empty at first. NULL without memory. */
struct pl_image_wait *pl_image_wait_ref(struct pl_map *stages, const char *pod);
/* Drops a reference; the last one removes the entry from the map. NULL is allowed; returns NULL. */
struct pl_image_wait *pl_image_wait_unref(struct pl_map *stages, struct pl_image_wait *w);
/* Reports that a pod of the stage has waited for its image since `since_ms` and still does. */
void pl_image_wait_failed(struct pl_image_wait *w, int64_t since_ms, int64_t now_ms);
/* Reports that the containers of a pod of the stage run. */
void pl_image_wait_up(struct pl_image_wait *w);
/* Returns for how many ms the stage has waited; 0 = it does not wait. */
int64_t pl_image_wait_ms(const struct pl_image_wait *w, int64_t now_ms);
