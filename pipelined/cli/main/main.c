/* pipelinectl: the command line program. Lists the tables of subcommands of all rooms and passes them to
 * pl_cli_main. */
#include "pipelined/cli/support/cli.h"

/* The tables of subcommands (verb_<noun>.c) in the order of the help text, each with its heading in that
 * text. */
#define TABLES(X)                                                                                                                \
    X(project, "data")                                                                                                           \
    X(repo, "data")                                                                                                              \
    X(branch, "data")                                                                                                            \
    X(commit, "data")                                                                                                            \
    X(put, "data")                                                                                                               \
    X(get, "data")                                                                                                               \
    X(file, "data")                                                                                                              \
    X(pipeline, "pipelines")                                                                                                     \
    X(versions, "pipelines")                                                                                                     \
    X(defaults, "pipelines")                                                                                                     \
    X(secret, "pipelines")                                                                                                       \
    X(source, "pipelines")                                                                                                       \
    X(notify, "pipelines")                                                                                                       \
    X(run, "runs")                                                                                                               \
    X(wait, "runs")                                                                                                              \
    X(rerun, "runs")                                                                                                             \
    X(retry, "runs")                                                                                                             \
    X(job, "runs")                                                                                                               \
    X(status, "status, why and logs")                                                                                            \
    X(open, "status, why and logs")                                                                                              \
    X(why, "status, why and logs")                                                                                               \
    X(logs, "status, why and logs")                                                                                              \
    X(metrics, "status, why and logs")                                                                                           \
    X(offline, "without a server")                                                                                               \
    X(plan, "without a server")                                                                                                  \
    X(try, "without a server")                                                                                                   \
    X(doctor, "without a server")                                                                                                \
    X(login, "access")                                                                                                           \
    X(access, "access")                                                                                                          \
    X(login_session, "access")                                                                                                   \
    X(s3, "access")                                                                                                              \
    X(fsck, "upkeep")                                                                                                            \
    X(recover, "upkeep")                                                                                                         \
    X(mirror, "upkeep")                                                                                                          \
    X(gc, "upkeep")                                                                                                              \
    X(keep, "upkeep")                                                                                                            \
    X(help, "help")                                                                                                              \
    X(completion, "help")

#define DECLARE(noun, heading) extern const struct pl_verb_table pl_cli_verbs_##noun;
TABLES(DECLARE)

#define SECTION(noun, heading) {heading, &pl_cli_verbs_##noun},
static const struct pl_verb_section tables[] = {TABLES(SECTION)};

int main(int argc, char **argv)
{
    return pl_cli_main(argc, argv, tables, PL_ARRAY_SIZE(tables));
}
