/* other_words: what people type who come from kubectl, pachctl, dvc or git, and what it is called here. */
#pragma once

#include <stddef.h>

/* What to type in place of `word` ("list commit shows commits, logs what stages print"); `next` is the word behind it, NULL when there is
 * none. NULL: not a word of theirs. */
const char *pl_cli_word_hint(const char *word, const char *next);
/* For a verb that is there with a noun that it does not take; NULL: nothing is known of it. */
const char *pl_cli_noun_hint(const char *verb, const char *noun);
/* For an option "--pipeline" that a verb does not take, its name without dashes; NULL: nothing is known of it. */
const char *pl_cli_other_option(const char *name);
