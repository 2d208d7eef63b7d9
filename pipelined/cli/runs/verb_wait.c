/* wait run: waits until a run has ended. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/run_wait.h"
#include "storage/base/clock.h"

static int wait_run(struct pl_cli *c, struct pl_err *err)
{
    const char *timeout = pl_cli_value(c, "timeout");
    int64_t ms = 0;
    int r = timeout ? pl_duration_parse(timeout, &ms, err) : 0;

    /* --timeout 0s asks once; 0 would mean no limit */
    return r < 0 ? pl_err_wrap(err, r, "--timeout") : pl_cli_run_wait(c, c->args[0], timeout ? PL_MAX(ms, 1) : 0, err);
}

static const struct pl_option options[] = {{"timeout", 0, "90s", "give up after this time (exit 1); the run continues"}, {0}};

static const struct pl_verb verbs[] = {
    {"wait",
     "run",
     "ID|REPO@REF",
     1,
     1,
     options,
     wait_run,
     "Waits until a run has ended; exit 1 if it failed. For a commit: the run that it started; for a branch: the run of all "
     "puts so far; for a stage's branch: the newest run that writes it.",
     {"wait run 9ab2f1c4", "wait run digits@master --timeout 10m",
      "wait run digits@master -q && pipelinectl get file report@master:/report.json -o -"}},
};
PL_CLI_TABLE(wait, verbs);
