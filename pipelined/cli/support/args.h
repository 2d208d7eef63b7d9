/* args: a command line → the verb's row, its options and arguments. */
#pragma once

#include "pipelined/cli/support/cli.h"

/* Options of every verb, ended by a row without a name. */
extern const struct pl_option pl_cli_common_options[];

/* Fills `c`. Without a verb it is `status`. PL_EUSAGE says what was not understood and what may have been meant. */
PL_MUST_CHECK
int pl_cli_parse(struct pl_cli *c, int argc, char **argv, struct pl_err *err);
void pl_cli_finish(struct pl_cli *c);

/* The row of "put", "file"; noun NULL: a verb that stands alone, else the verb with the noun `file`. NULL when there is none. */
const struct pl_verb *pl_cli_find_verb(const char *verb, const char *noun);
/* PL_EUSAGE for a verb, or a noun of a verb, that is not there (`noun` may be NULL): what may have been meant. */
int pl_cli_unknown(const char *verb, const char *noun, struct pl_err *err);
/* "put file REPO@BRANCH[:/PATH]", as usage lines show it, into `out`; returns `out`. */
char *pl_cli_usage(const struct pl_verb *v, char *out, size_t size);

/* Whether the option was given; its last value (NULL when not given); its `i`th value (NULL past the last). */
bool pl_cli_flag(const struct pl_cli *c, const char *name);
const char *pl_cli_value(const struct pl_cli *c, const char *name);
const char *pl_cli_value_at(const struct pl_cli *c, const char *name, size_t i);
size_t pl_cli_value_count(const struct pl_cli *c, const char *name);
/* A number from 1 to `max`; `*ret` stays as it is when the option was not given. PL_EUSAGE. */
PL_MUST_CHECK
int pl_cli_number(const struct pl_cli *c, const char *name, uint64_t max, uint64_t *ret, struct pl_err *err);
