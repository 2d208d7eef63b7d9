/* args: parses a command line into the verb's table row, its options and its arguments. */
#pragma once

#include "pipelined/cli/support/cli.h"

/* Options that every verb accepts; a row without a name ends the list. */
extern const struct pl_option pl_cli_common_options[];

/* Parses argv into `c`. A command line without a verb means `status`. PL_EUSAGE: the message names the word
 * that was not understood and suggests a correction. Call pl_cli_finish also after an error. The strings stay
 * in argv. */
PL_MUST_CHECK
int pl_cli_parse(struct pl_cli *c, int argc, char **argv, struct pl_err *err);
void pl_cli_finish(struct pl_cli *c);

/* Returns the row of a verb and noun, such as "put" and "file". With `noun` NULL, returns the verb that takes
 * no noun, or else the verb with the noun "file". A noun may be a plural. NULL if there is no such row. */
const struct pl_verb *pl_cli_find_verb(const char *verb, const char *noun);
/* Sets PL_EUSAGE for a verb that does not exist, or for a noun that the verb does not take (`noun` may be
 * NULL). The message suggests what may have been meant. */
int pl_cli_unknown(const char *verb, const char *noun, struct pl_err *err);
/* Writes the usage line, such as "put file REPO@BRANCH[:/PATH]", into `out` and returns `out`. */
char *pl_cli_usage(const struct pl_verb *v, char *out, size_t size);

/* pl_cli_flag: true if the option was given. pl_cli_value: its last value, NULL if not given.
 * pl_cli_value_at: its `i`th value, NULL past the last. pl_cli_value_count: how often it was given. */
bool pl_cli_flag(const struct pl_cli *c, const char *name);
const char *pl_cli_value(const struct pl_cli *c, const char *name);
const char *pl_cli_value_at(const struct pl_cli *c, const char *name, size_t i);
size_t pl_cli_value_count(const struct pl_cli *c, const char *name);
/* Parses the option's value as a number from 1 to `max`. `*ret` is not changed if the option was not given.
 * PL_EUSAGE. */
PL_MUST_CHECK
int pl_cli_number(const struct pl_cli *c, const char *name, uint64_t max, uint64_t *ret, struct pl_err *err);
