/* try_terminal: a pseudo-terminal between the user's terminal and a shell in a sandbox, so that the shell
 * cannot change the settings of the user's terminal or insert input into it.
 *
 *   user's terminal (raw) ◀──▶ pl_terminal_pass ◀──▶ master ┊ slave ◀──▶ shell, whose terminal is the slave
 *
 * pl_terminal_close restores the user's terminal. One thread. From open to close this module handles
 * SIGWINCH, SIGCHLD, SIGTERM, SIGHUP, SIGINT and SIGQUIT of the process, so only one terminal can exist at a
 * time. */
#pragma once

#include "storage/base/err.h"

#include <signal.h>
#include <termios.h>

#define PL_TERMINAL_SIGNALS 6

struct pl_terminal {
    int master;     /* descriptor of the master side, non-blocking; -1 = closed */
    char slave[64]; /* path of the slave side; a session leader that opens it gets it as its terminal */
    /* the user's terminal was put into raw mode */
    bool raw;
    struct termios before; /* settings of the user's terminal before it became raw */
    /* signal actions of the process before open */
    struct sigaction actions[PL_TERMINAL_SIGNALS];
};

/* Opens a pseudo-terminal with the settings and size of the user's terminal, which must be standard input.
 * PL_EUNAVAILABLE. */
PL_MUST_CHECK
int pl_terminal_open(struct pl_terminal *ret, struct pl_err *err);
/* Makes the user's terminal raw, and passes bytes in both directions and size changes until the child `pid`
 * has ended. The caller must still wait for the child. Returns 0, or the signal (SIGTERM, SIGHUP) that ends
 * this process while the child still runs. */
int pl_terminal_pass(struct pl_terminal *t, pid_t pid);
/* Restores the user's terminal and the signal actions, and closes the pseudo-terminal. */
void pl_terminal_close(struct pl_terminal *t);
