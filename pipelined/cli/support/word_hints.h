/* word_hints: maps words of kubectl, pachctl, dvc and git to what pipelinectl calls the same thing. */
#pragma once

#include <stddef.h>

/* Returns a hint on what to type instead of the unknown verb `word`; `next` is the word after it, NULL if
 * there is none. NULL if `word` is not in the table. */
const char *pl_cli_word_hint(const char *word, const char *next);
/* Returns a hint for a known verb with a noun that it does not take; NULL if there is none. */
const char *pl_cli_noun_hint(const char *verb, const char *noun);
/* Returns a hint for an option that a verb does not take, such as "pipeline"; `name` is without the dashes.
 * NULL if there is none. */
const char *pl_cli_other_option(const char *name);
