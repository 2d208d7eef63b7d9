/* args: parses a command line into the table row of its subcommand, its options and its arguments. */
#pragma once

#include "pipelined/cli/support/cli.h"

/* The options that every subcommand accepts; a row without a name ends the list. */
extern const struct pl_option pl_cli_common_options[];

/* Parses argv into `c`. A command line without a subcommand means `status`. PL_EUSAGE: the message names the
 * word that was not understood and suggests a correction. Call pl_cli_finish also after an error. The strings
 * in `c` point into argv. */
PL_MUST_CHECK
int pl_cli_parse(struct pl_cli *c, int argc, char **argv, struct pl_err *err);
void pl_cli_finish(struct pl_cli *c);

/* Returns the table row of a verb and a noun, such as "put" and "file"; NULL if there is none. A plural noun
 * is accepted. If `noun` is NULL, returns the row of the verb without a noun, or else its row with the noun
 * "file". */
const struct pl_verb *pl_cli_find_verb(const char *verb, const char *noun);
/* Sets PL_EUSAGE for a verb that does not exist, or for a noun that the verb does not accept (`noun` may be
 * NULL). The message suggests a similar subcommand. */
int pl_cli_unknown(const char *verb, const char *noun, struct pl_err *err);
/* Writes the usage line of a subcommand, such as "put file REPO@BRANCH[:/PATH]", into `out` and returns
 * `out`. */
char *pl_cli_usage(const struct pl_verb *v, char *out, size_t size);

/* pl_cli_flag: true if the option was given. pl_cli_value: the last value given for the option; NULL = not
 * given. pl_cli_value_at: the value number `i`, from 0; NULL if there are fewer. pl_cli_value_count: how
 * often the option was given. */
bool pl_cli_flag(const struct pl_cli *c, const char *name);
const char *pl_cli_value(const struct pl_cli *c, const char *name);
const char *pl_cli_value_at(const struct pl_cli *c, const char *name, size_t i);
size_t pl_cli_value_count(const struct pl_cli *c, const char *name);
/* Parses the value of an option as a number from 1 to `max`. Leaves `*ret` unchanged if the option was not
 * given. PL_EUSAGE: the value is not such a number. */
PL_MUST_CHECK
int pl_cli_number(const struct pl_cli *c, const char *name, uint64_t max, uint64_t *ret, struct pl_err *err);
