/* batch_server: the unix socket on which the command of a batch stage asks for its next datum. The clients
 * are pl-next and pl.py. One request per connection, in lines:
 *
 *   request:  next\n                       the current datum is done; the first "next" completes no datum
 *             fail MESSAGE\n               the current datum failed
 *   answer:   ok\n | end\n | error TEXT\n   next datum is in place | no more datums | request refused
 *
 * The client waits for the answer, which may come seconds or hours after the request. One thread. */
#pragma once

#include "storage/base/err.h"

#define PL_NEXT_MESSAGE_MAX 1000u /* bytes of a MESSAGE; the rest is cut off */
#define PL_NEXT_ASKERS_MAX  8     /* connections at a time; further connections are closed */

struct pl_next_server;

/* Listens at FOLDER/next, also if this path is longer than a socket address allows. PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_next_server_create(const char *folder, struct pl_next_server **ret, struct pl_err *err);
struct pl_next_server *pl_next_server_destroy(struct pl_next_server *s);
/* Returns a descriptor that is readable when pl_next_server_look has something to do. */
int pl_next_server_fd(const struct pl_next_server *s);
/* Accepts connections and reads requests that have arrived, without waiting. */
void pl_next_server_look(struct pl_next_server *s);
/* True if a request waits for its answer. `*ret_message` is the MESSAGE of a "fail", or NULL for a "next";
 * valid until the answer. */
bool pl_next_server_asked(const struct pl_next_server *s, const char **ret_message);
/* Answers the waiting request with "ok", "end" or "error TEXT". False if the client has disconnected. */
bool pl_next_server_answer(struct pl_next_server *s, const char *answer);
