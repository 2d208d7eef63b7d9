/* sandbox_probe.c: runs the agent's program with --probe-sandbox and turns its output into an error with a
 * remedy. */
#include "pipelined/exec/local/sandbox_probe.h"

#include "storage/system/program_run.h"

int pl_sandbox_probe(const char *program, struct pl_err *err)
{
    const char *const argv[] = {program, "--probe-sandbox", NULL};
    struct pl_err why = {0};
    char line[512];
    int r = pl_program_run(argv, PL_SANDBOX_PROBE_MS, line, sizeof line, &why);

    if (r == 0)
        return 0;
    return pl_err_set(err, PL_EUNAVAILABLE,
                      "stages cannot run in a sandbox here: %s: install bubblewrap and allow namespaces, or start with "
                      "--sandbox none (stages then see this machine's files)",
                      r < 0     ? why.msg
                      : line[0] ? line
                                : "the probe failed without a message");
}
