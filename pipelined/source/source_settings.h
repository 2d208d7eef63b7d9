/* source_settings: checks the settings of a source and completes them with defaults. Pure. */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_SOURCE_PATH     "pipelines/**/*.json" /* default of `path` */
#define PL_SOURCE_INTERVAL "60s"

/* Checks {git, branch?, path?, interval?, secret?, prune?, hook_secret?, status?, preview?, paused?} and returns a new reference in normal form: `git`
 * is an address as in text/git_address.h, "branch" "" = the repository's default branch. With `update` only the settings that are given are
 * checked and returned. PL_EINVAL, with the field. */
PL_MUST_CHECK
int pl_source_settings_check(const json_t *settings, bool update, json_t **ret, struct pl_err *err);
