// link: pipelined/agent/runner
/* Any bytes as what the agent sends to pl-runner, in pieces of the size that the first byte says, which is in a pod when that is odd:
 * commands that lie whole within their frame, or the runner ends. The program's source is taken in with its ends and its processes taken
 * away: nothing is started. */
#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
static pid_t no_fork(void);
static jmp_buf ended;

#define vfork()                        no_fork()
#define _exit(code)                    longjmp(ended, 1)
#define dprintf(fd, format, what, why) ((void)(what), (void)(why))
#define main                           runner_main
int runner_main(int argc, char **argv);
#include "pipelined/agent/runner/no_network.c"
#include "pipelined/agent/runner/runner.c"
#include "pipelined/agent/runner/runner_pod.c"

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* Words up to their NULL, each of them ended within what was received. */
static char **use_words(char **words)
{
    const char *start = (const char *)the_runner.in, *end = start + the_runner.in_len;

    for (; *words; words++)
        must(*words >= start && *words < end && memchr(*words, 0, (size_t)(end - *words)));
    return words;
}

/* In place of the command's start. */
static pid_t no_fork(void)
{
    char **argv_end = use_words(the_runner.words);

    must(argv_end > the_runner.words);
    must(use_words(argv_end + 1) <= the_runner.words + PL_RUNNER_ARGS_MAX + 1);
    errno = EAGAIN;
    return -1;
}

static char *const no_folders[] = {NULL};

static void receive(const uint8_t *data, size_t n, size_t piece)
{
    struct runner *r = &the_runner;

    r->in_len = 0;
    r->pod = piece & 1;
    r->shared = no_folders;
    while (n > 0) {
        size_t now = n < piece ? n : piece;

        must(now <= sizeof(r->in) - r->in_len);
        memcpy(r->in + r->in_len, data, now);
        r->in_len += now;
        data += now;
        n -= now;
        handle_input(r);
        must(r->in_len < PL_RUNNER_HEAD_BYTES || r->in_len < PL_RUNNER_HEAD_BYTES + (size_t)pl_runner_get32(r->in));
    }
}

/* Asked for by a program's words, which are none of the agent's frames. */
int pl_copy_links(const char *out, const char *pfs)
{
    (void)out;
    (void)pfs;
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n > 0 && n < PL_RUNNER_FRAME_MAX && setjmp(ended) == 0)
        receive(data + 1, n - 1, data[0] ? data[0] : n);
    return 0;
}
