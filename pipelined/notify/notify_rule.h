/* notify_rule: the settings of a notification rule, and which events it wants. Pure. */
#pragma once

#include "storage/base/err.h"
#include "storage/base/path.h"
#include <jansson.h>

#define PL_NOTIFY_URL_MAX  2000u
#define PL_NOTIFY_HOST_MAX 255u
#define PL_NOTIFY_ON_MAX   64u /* entries of `on` */
#define PL_NOTIFY_TYPES    16u /* types of events */

/* The events that a rule wants. */
struct pl_notify_filter {
    /* for each type the states that are wanted, one bit each; 0 = the type is not wanted */
    uint32_t states[PL_NOTIFY_TYPES];
    const char *project, *repo; /* repo "" = any; borrowed from the caller and from the settings */
};

/* Checks {on, url, format?, secret?, repo?} and returns a new reference in normal form, with all five: `on` is an array of
 * TYPE or TYPE.STATE, `format` "json", "slack" or "s3"; "" = no secret, any repo. PL_EINVAL and PL_ELIMIT, with the field. */
PL_MUST_CHECK
int pl_notify_settings_check(const json_t *settings, json_t **ret, struct pl_err *err);
/* Makes the filter of settings in normal form, which must outlive it, like `project`. */
void pl_notify_filter_make(const json_t *settings, const char *project, struct pl_notify_filter *ret);
/* True if the settings want events of the whole daemon, which are nobody's in particular. */
bool pl_notify_daemon_wide(const json_t *settings);
/* Returns the names of the wanted types, a new array; NULL without memory. */
json_t *pl_notify_types(const struct pl_notify_filter *f);

enum pl_notify_match {
    PL_NOTIFY_NO,
    PL_NOTIFY_YES,
    PL_NOTIFY_IF_RUN /* if the run data.id has jobs or commits in the project */
};
/* Returns the index of a type in filter.states, which is not 0 there if the filter wants events of this type at all; -1 = no
 * filter wants such events. */
int pl_notify_type_index(const char *type);
/* Says whether the filter wants the event. */
enum pl_notify_match pl_notify_match(const struct pl_notify_filter *f, const char *type, const json_t *data);
/* Returns the state of an event, "failure"; "" = events of this type have none. Lives as long as `data`. */
const char *pl_notify_state(const char *type, const json_t *data);

#define PL_NOTIFY_BACK_OFF_MS     1000             /* after the first failed attempt */
#define PL_NOTIFY_BACK_OFF_MAX_MS (10 * 60 * 1000) /* after many */
/* Returns the wait in ms after `failures` failed attempts in a row, 1 or more. It doubles with each. `random`: any 32 random
 * bits, which change it by up to a tenth. */
int64_t pl_notify_wait_ms(unsigned failures, uint32_t random);

/* Splits an http or https URL. Accepts only what every reader of URLs reads alike: no user, no fragment, no characters
 * that need escapes. PL_EINVAL, with the field "url"; the message has no part of the URL, which may be a secret. */
PL_MUST_CHECK
int pl_notify_url_split(const char *url, char ret_scheme[8], char ret_host[PL_NOTIFY_HOST_MAX + 1], struct pl_err *err);
