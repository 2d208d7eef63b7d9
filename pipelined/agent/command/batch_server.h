/* next_server: where the command of a batch stage asks for its next datum: a unix socket beside its folders. pl-next and pl.py are the
 * clients; one request a connection, in lines:
 *
 *   next\n   or   fail MESSAGE\n      the current datum is done, or failed (the first "next" ends none)
 *   ok\n  |  end\n  |  error TEXT\n   the next one is in place; there is none any more; the request is refused
 *
 * The answer comes when there is one: seconds or hours later. One thread. */
#pragma once

#include "storage/base/err.h"

#define PL_NEXT_MESSAGE_MAX 1000u /* bytes of a MESSAGE; more is cut off */
#define PL_NEXT_ASKERS_MAX  8     /* connections at a time; more are closed */

struct pl_next_server;

/* Listens at FOLDER/next, which may be a long path. PL_EIO. */
PL_MUST_CHECK
int pl_next_server_create(const char *folder, struct pl_next_server **ret, struct pl_err *err);
struct pl_next_server *pl_next_server_destroy(struct pl_next_server *s);
/* Readable when pl_next_server_look has something to do. */
int pl_next_server_fd(const struct pl_next_server *s);
/* Takes in what has come, without waiting. */
void pl_next_server_look(struct pl_next_server *s);
/* The request that waits for its answer; NULL when there is none. `*ret_message` of a fail, NULL of a next; valid until the answer. */
bool pl_next_server_asked(const struct pl_next_server *s, const char **ret_message);
/* Answers it: "ok", "end" or "error TEXT". False when who asked has gone meanwhile. */
bool pl_next_server_answer(struct pl_next_server *s, const char *answer);
