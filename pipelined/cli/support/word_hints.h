/* word_hints: maps words of kubectl, pachctl, dvc and git to the commands of pipelinectl with the same
 * purpose. */
#pragma once

#include <stddef.h>

/* Returns what to type instead of the unknown verb `word`; NULL if `word` is not in the table. `next` is the
 * word after it, NULL if there is none. */
const char *pl_cli_word_hint(const char *word, const char *next);
/* Returns what to type instead of a known verb with a noun that it does not accept; NULL if there is no
 * hint. */
const char *pl_cli_noun_hint(const char *verb, const char *noun);
/* Returns what to use instead of an option that a subcommand does not accept, such as "pipeline"; NULL if
 * there is no hint. `name` is without the dashes. */
const char *pl_cli_other_option(const char *name);
