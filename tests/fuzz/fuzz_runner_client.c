// link: pipelined/agent/command pipelined/net/agent_protocol
/* Any bytes as what a runner sends to the agent: HELLO and EXITs as they are written, or an error. The client's source is taken in, to
 * give it a socket without a process. */
#include "pipelined/agent/command/runner_client.c"
#include "pipelined/net/agent_protocol/agent_protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* A result can be told to the daemon, whatever is in it. */
static void use_result(const struct pl_command_result *result)
{
    const struct pl_agent_protocol_lease lease = {.task = "1"};
    const struct pl_agent_protocol_outcome outcome = {.run = *result};
    json_t *json = pl_agent_protocol_result_json(&lease, &outcome, 1);

    must(json_array_size(json_object_get(json, "rows")) == 1);
    json_decref(json);
}

/* As pl_runner_client_run reads its answer. */
static int read_exit(struct pl_runner_client *c, struct pl_err *err)
{
    struct pl_command_result result;
    int r;

    while ((r = read_frame(c, err)) == 0)
        ;
    if (r < 0 || c->in[4] != PL_RUNNER_EXIT || pl_runner_get32(c->in) != PL_RUNNER_EXIT_BYTES)
        return -1;
    take_result(c->in + PL_RUNNER_HEAD_BYTES, &result);
    use_result(&result);
    c->in_len = 0;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct pl_runner_client c = {.output_fd = -1, .wake_fd = -1};
    struct pl_err err = {0};
    int sockets[2];

    if (n > 65536 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return 0;
    must(send(sockets[1], data, n, MSG_NOSIGNAL) == (ssize_t)n);
    close(sockets[1]);
    c.control_fd = sockets[0];
    if (wait_hello(&c, &err) == 0)
        while (read_exit(&c, &err) == 0)
            ;
    must(err.msg[0] != '\0' || c.in_len > 0);
    close(sockets[0]);
    return 0;
}
