/* terminal: a pseudo-terminal between a person's terminal and a shell in a sandbox, so that the shell has a terminal of its own: what it sets
 * there, or types into it, is its own affair.
 *
 *   person's terminal (raw) ◀──▶ pl_terminal_pass ◀──▶ master ┊ slave ◀──▶ shell, whose session the slave is
 *
 * The person's terminal is as it was before when pl_terminal_close returns. One thread; the process's handlers of SIGWINCH, SIGCHLD, SIGTERM,
 * SIGHUP, SIGINT and SIGQUIT are this module's from open to close, so there is one at a time. */
#pragma once

#include "storage/base/err.h"

#include <signal.h>
#include <termios.h>

#define PL_TERMINAL_SIGNALS 6

struct pl_terminal {
    int master;     /* not blocking; -1: closed */
    char slave[64]; /* its path: to be opened by a session's leader, whose terminal it then is */
    bool raw;
    struct termios before; /* of the person's terminal */
    struct sigaction actions[PL_TERMINAL_SIGNALS];
};

/* Standard input is a person's terminal: its settings and size are the new one's. PL_EUNAVAILABLE. */
PL_MUST_CHECK
int pl_terminal_open(struct pl_terminal *ret, struct pl_err *err);
/* Makes the person's terminal raw and passes bytes both ways and changes of its size until the child `pid` has ended; it is not waited for. 0, or
 * the signal that ends this process instead (SIGTERM, SIGHUP): the child still runs. */
int pl_terminal_pass(struct pl_terminal *t, pid_t pid);
void pl_terminal_close(struct pl_terminal *t);
