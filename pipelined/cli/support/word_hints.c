/* Tables of words that users of other tools type, with the command of pipelinectl to use instead. */
#include "pipelined/cli/support/word_hints.h"

#include "storage/base/base.h"
#include <string.h>

#define ANY NULL

/* Among rows with the same `word`, those with a `next` word must come before the row with ANY, because the
 * first match is used. */
static const struct {
    const char *word, *next, *instead;
} words[] = {
    /* words of kubectl's users */
    {"apply", ANY, "create pipeline -f SPEC makes a pipeline, update pipeline -f SPEC changes it"},
    {"describe", ANY, "inspect shows one object: inspect job STAGE"},
    {"exec", ANY, "try STAGE --at RUN --shell opens a shell in a datum's sandbox"},
    {"attach", ANY, "logs STAGE -f follows what a stage prints"},
    {"edit", ANY, "update pipeline -f SPEC changes a pipeline"},
    {"patch", ANY, "update pipeline -f SPEC changes a pipeline"},
    {"set", ANY, "image, env and workers are set in the stage's spec: update pipeline -f SPEC"},
    {"cluster-info", ANY, "status says where the daemon is and what runs"},
    {"api-resources", ANY, "help lists all subcommands and what they accept"},
    {"replace", ANY, "update pipeline -f SPEC changes a pipeline"},
    {"explain", ANY, "help VERB explains a subcommand, why REPO@REF:/PATH shows where a file comes from"},
    {"rollout", ANY, "run pipeline NAME --force runs every datum again"},
    {"scale", ANY, "set \"workers\" of the stage in its spec, then update pipeline -f SPEC"},
    {"top", ANY, "status shows what runs and waits, gpus who holds the GPUs"},
    {"use-context", ANY, "login NAME switches to another server"},
    {"config", ANY, "list context shows the servers you are logged in to, login NAME switches to one"},
    {"port-forward", ANY, "open opens the web page"},
    {"cancel", ANY, "stop run RUN stops a run, stop job STAGE a job"},
    {"kill", ANY, "stop run RUN stops a run, stop job STAGE a job"},
    {"events", ANY, "list run and list job show what happened"},
    {"watch", ANY, "wait run RUN waits for a run, logs STAGE -f follows a stage"},
    /* words of pachctl's users */
    {"auth", ANY, "login URL saves a server's address and token"},
    {"draw", ANY, "open shows the graph in the browser"},
    {"enter", ANY, "try STAGE --at RUN --shell opens a shell in a datum's sandbox"},
    {"flush", ANY, "wait run RUN waits for everything that a push started"},
    {"subscribe", ANY, "wait run RUN waits for a run, logs STAGE -f follows a stage"},
    {"restart", ANY, "run pipeline NAME --stage STAGE --force runs its datums again"},
    {"squash", ANY, "delete commit REPO@REF deletes a commit"},
    {"mount", ANY, "get file REPO@REF:/ -r -o FOLDER fetches a repo"},
    {"unmount", ANY, "get file REPO@REF:/ -r -o FOLDER fetches a repo"},
    {"copy", ANY, "use get file, then put file"},
    {"find", "commit", "list commit REPO shows commits, why REPO@REF:/PATH what a file was made from"},
    {"find", ANY, "glob file 'REPO@REF:/**/NAME' finds files"},
    {"garbage-collect", ANY, "gc removes data that is no longer needed"},
    {"prune", ANY, "keep --dry-run shows what retention rules would drop, update repo NAME --keep sets a rule"},
    {"retention", ANY, "update repo NAME --keep commits=10,days=30 sets what a repo keeps"},
    {"debug", ANY, "status, inspect run RUN and logs STAGE show what is going on"},
    {"shell", ANY, "try STAGE --at RUN --shell opens a shell in a datum's sandbox"},
    {"next", ANY, "a worker takes its next datum by itself; try STAGE runs one datum by hand"},
    {"truncate", ANY, "delete file REPO@BRANCH:/PATH deletes files"},
    {"extract", ANY, "mirror FROM TO copies a store"},
    {"restore", ANY, "recover --store URL --data DIR rebuilds the daemon's folder; mirror FROM TO copies a store"},
    {"deploy", ANY, "start pipelined; create pipeline -f SPEC makes a pipeline"},
    {"pause", ANY, "stop run RUN stops what is running, stop pipeline NAME a pipeline"},
    {"upgrade", ANY, "start the new pipelined on the same folder"},
    /* words of dvc's users */
    {"repro", ANY, "a push runs the stages that depend on it; run pipeline NAME starts a run by hand"},
    {"exp", ANY, "update pipeline -f SPEC runs what a change affects; list run shows runs"},
    {"experiments", ANY, "update pipeline -f SPEC runs what a change affects; list run shows runs"},
    {"add", ANY, "put file REPO@BRANCH -f FILE adds a file; create makes repos, branches and pipelines"},
    {"commit", ANY, "every put file is a commit; finish commit REPO finishes an open one"},
    {"remove", ANY, "delete file REPO@BRANCH:/PATH deletes files, delete pipeline NAME a pipeline"},
    {"move", ANY, "put file under the new name, then delete file under the old one: the content is not sent again"},
    {"destroy", ANY, "use delete pipeline NAME or delete repo NAME"},
    {"get-url", ANY, "get file REPO@REF:/PATH -o FILE fetches a file"},
    {"data", ANY, "list file REPO@REF shows files, diff file REPO@OLD REPO@NEW what changed"},
    {"unfreeze", ANY, "start pipeline NAME lets a stopped pipeline run again"},
    {"push", ANY, "put file REPO@BRANCH -r -f FOLDER pushes a folder"},
    {"pull", ANY, "get file REPO@REF:/ -r -o FOLDER fetches a repo"},
    {"fetch", ANY, "get file REPO@REF:/ -r -o FOLDER fetches a repo"},
    {"checkout", ANY, "get file REPO@REF:/ -r -o FOLDER fetches a commit"},
    {"import", ANY, "put file REPO@BRANCH -f FILE adds a file"},
    {"import-url", ANY, "curl URL | pipelinectl put file REPO@BRANCH:/PATH -f -"},
    {"dag", ANY, "open shows the graph in the browser, list pipeline the stages"},
    {"init", ANY, "create repo NAME makes a repo; a local folder needs no preparation"},
    {"remote", ANY, "login URL saves a server's address and token"},
    {"stage", ANY, "stages are defined in a spec: create pipeline -f SPEC"},
    {"params", ANY, "parameters are set in a spec: update pipeline -f SPEC"},
    {"plots", ANY, "open shows metrics in the browser"},
    {"queue", ANY, "list job shows what runs and waits"},
    {"freeze", ANY, "stop pipeline NAME keeps its outputs and gives it no jobs"},
    /* words of git's users */
    {"log", ANY, "list commit REPO shows commits, logs STAGE what a stage prints"},
    {"clone", ANY, "get file REPO@REF:/ -r -o FOLDER fetches a repo"},
    {"merge", ANY, "pushes to the same branch are merged automatically"},
    {"revert", ANY, "delete commit REPO@REF deletes a commit"},
    {"reset", ANY, "delete commit REPO@REF deletes a commit"},
    {"blame", ANY, "why REPO@REF:/PATH says what a file was made from"},
    {"tag", ANY, "create branch REPO@NAME --from REF names a commit"},
};

static const struct {
    const char *verb, *noun, *instead;
} nouns[] = {
    {"create", "commit", "put file and delete file make commits"},
    {"create", "file", "use put file"},
    {"create", "run", "every commit and every create or update pipeline starts a run; run pipeline starts one by hand"},
    {"create", "job", "runs create their jobs"},
    {"delete", "all", "projects, repos and pipelines are deleted one by one, by name"},
    {"delete", "stage", "remove it from the spec, then update pipeline -f SPEC"},
    {"delete", "run", "runs are kept; stop run ends one"},
    {"delete", "job", "jobs are kept; stop job ends one"},
    {"wait", "commit", "wait run REPO@REF waits for everything that the commit started"},
    {"wait", "job", "wait run RUN waits for all jobs of a run"},
    {"start", "transaction", "start commit REPO@BRANCH gathers any number of puts into one commit"},
    {"inspect", "cluster", "status says how the daemon is doing"},
    {"inspect", "stage", "inspect job STAGE shows its newest job, inspect pipeline NAME all stages"},
    {"list", "stage", "list pipeline shows them"},
    {"run", "stage", "run pipeline NAME --stage STAGE"},
    {"run", "job", "run pipeline NAME --stage STAGE"},
    {"edit", "pipeline", "update pipeline -f SPEC"},
    /* the kinds that follow `kubectl get` */
    {"get", "pod", "list job shows what runs, logs STAGE what it prints"},
    {"get", "po", "list job shows what runs, logs STAGE what it prints"},
    {"get", "node", "status shows what runs and waits, gpus who holds the GPUs"},
    {"get", "deployment", "list pipeline shows the stages"},
    {"get", "event", "list run and list job show what happened"},
    {"get", "all", "status shows what there is and what runs"},
};

static const struct {
    const char *name, *instead;
} options[] = {
    {"pipeline", "stages are named directly, as in logs STAGE, list job --stage STAGE and why STAGE@master:/PATH"},
    {"namespace", "--project NAME selects the project"},
    {"output", "--json gives the answer as JSON"},
    {"raw", "--json gives the answer as JSON"},
    {"format", "--json gives the answer as JSON"},
    {"watch", "wait run RUN waits for a run, logs STAGE -f follows a stage"},
    {"repo", "a repo is named with its branch: REPO@BRANCH:/PATH"},
    {"branch", "a branch is named with its repo: REPO@BRANCH:/PATH"},
    {"commit", "a commit is named with its repo: REPO@COMMIT:/PATH"},
    {"job", "a job is named STAGE@RUN"},
    {"history", "REPO@BRANCH^2 is the commit two before; list commit REPO shows all"},
};

const char *pl_cli_other_option(const char *name)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(options); i++)
        if (pl_streq(options[i].name, name))
            return options[i].instead;
    return NULL;
}

const char *pl_cli_word_hint(const char *word, const char *next)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++)
        if (pl_streq(words[i].word, word) && (!words[i].next || (next && pl_streq(words[i].next, next))))
            return words[i].instead;
    return NULL;
}

const char *pl_cli_noun_hint(const char *verb, const char *noun)
{
    size_t n = strlen(noun), bare = n && noun[n - 1] == 's' ? n - 1 : n;

    for (size_t i = 0; i < PL_ARRAY_SIZE(nouns); i++)
        if (pl_streq(nouns[i].verb, verb) && strlen(nouns[i].noun) == bare && memcmp(nouns[i].noun, noun, bare) == 0)
            return nouns[i].instead;
    return NULL;
}
