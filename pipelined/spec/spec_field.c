/* The field tables of all objects, except those of pod fields, which are in spec_field_pod.c. */
#include "pipelined/spec/spec_field.h"

static const char *const nothing[] = {NULL};

static const struct spec_field fields_of_file[] = {
    {.name = "pipeline", FIELD(name, pl_spec, pipeline), .noun = "pipeline", .required = true, .doc = "Name of the pipeline."},
    {.name = "project",
     FIELD(name, pl_spec, project),
     .noun = "project",
     .doc = "Project of its stages and repos. Without it `default`, or the one named on the command line."},
    {.name = "description", FIELD(text, pl_spec, description), .fallback = "\"\"", .doc = "For people."},
    {.name = "repos",
     FIELD(repos, pl_spec, repos),
     .child = &pl_spec_object_repo,
     .doc = "Input repos, `{\"NAME\": {…}}`: created when absent, their options set, never deleted."},
    {.name = "defaults",
     FIELD(defaults, pl_spec, stages),
     .child = &pl_spec_object_stage,
     .doc =
         "Merged under every stage (RFC 7396): a stage overrides field by field, `null` removes. Beneath them are those of the "
         "project, and beneath these the cluster's (`pipelinectl update defaults`)."},
    {.name = "stages",
     FIELD(stages, pl_spec, stages),
     .child = &pl_spec_object_stage,
     .required = true,
     .doc = "The stages, in any order; each writes the repo of its own name. With their defaults they are at most 2 MiB as JSON. "
            "Divide what is larger into several pipelines: their stages read each other's repos as here."},
};
OBJECT(file, "file", "A spec file is one JSON object.", nothing);

static const char *const words_durable[] = {[PL_DURABLE_LOCAL] = "local", [PL_DURABLE_BUCKET] = "bucket", NULL};
static const struct spec_field fields_of_repo_keep[] = {
    {.name = "commits",
     FIELD(count, pl_retention_rule, commits),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "The newest so many commits of every branch."},
    {.name = "days",
     FIELD(count, pl_retention_rule, days),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Commits of the last so many days. With `commits`: what either keeps. All commits when neither is given."},
};
OBJECT(repo_keep, "repo_keep",
       "Which commits of an input repo stay. Whatever it says, branches' heads stay, what commits that stay were made from, and "
       "what "
       "unfinished jobs and runs read; `{}` keeps everything.",
       nothing);

static const struct spec_field fields_of_repo[] = {
    {.name = "commit_window",
     FIELD(duration, pl_spec_repo, commit_window_ms),
     .max = 60000,
     .doc = "Puts that name no commit gather in one until none comes for so long; from `100ms` to `60s`. `0s`, as without it: "
            "each is a commit."},
    {.name = "durable",
     FIELD(word, pl_spec_repo, durable),
     .words = words_durable,
     .doc =
         "When what is put into an open commit is answered: once it is on the daemon's disk (`local`), or once the store alone "
         "gives it back (`bucket`)."},
    {.name = "keep",
     FIELD(keep, pl_spec_repo, keep),
     .child = &pl_spec_object_repo_keep,
     .doc = "How many commits stay, or how old they become. What is dropped gives its space back with the next garbage "
            "collection."},
};
OBJECT(repo, "repo", "What `repos` says about an input repo; set each time the pipeline is, what is not said stays.", nothing);

static const char *const words_on_new[] = {
    [PL_ON_NEW_QUEUE] = "queue", [PL_ON_NEW_NEWEST] = "newest", [PL_ON_NEW_RESTART] = "restart", NULL};
static const char *const later_of_stage[] = {"setup", "schedule", "egress",  "replicas", "sweep",
                                             "serve", "notebook", "volumes", NULL};

static const struct spec_field fields_of_stage[] = {
    {.name = "name", FIELD(name, pl_stage, name), .noun = "stage", .required = true, .doc = "The stage and its output repo."},
    {.name = "input",
     FIELD(input, pl_stage, input),
     .child = &pl_spec_object_input,
     .required = true,
     .doc = "What it reads, and how that is cut into datums."},
    {.name = "run",
     .type = &pl_spec_type_texts,
     LIST(pl_stage, run, n_run),
     .min = 1,
     .doc = "The command and its arguments, for execve: no shell. Exactly one of `run` and `script`."},
    {.name = "script",
     FIELD(text, pl_stage, script),
     .min = 1,
     .doc = "Text of a script: run by the interpreter of its `#!` line, else by `/bin/sh -e`."},
    {.name = "stdin",
     FIELD(text, pl_stage, stdin_text),
     .doc = "Text that the command reads as its standard input; in the datum key. Nothing by default."},
    {.name = "accept_codes", FIELD(codes, pl_stage, accepted), .doc = "Exit codes that are no failure, beside 0."},
    {.name = "image",
     FIELD(text, pl_stage, image),
     .min = 1,
     .doc = "Container image. Part of the datum key as written. On one machine the host's files are used instead, and the job "
            "says so."},
    {.name = "code",
     FIELD(code, pl_stage, code),
     .doc = "Folder at or below the spec's, without `..`, at most 256 MiB and 10,000 files, `.gitignore` honoured. A private "
            "copy is the "
            "working directory, `/code`. Its content is in the datum key."},
    {.name = "env",
     FIELD(env, pl_stage, env),
     .fallback = "{}",
     .doc = "Environment variables; in the datum key. Numbers and booleans become their text. `PYTHONUNBUFFERED`, `PL_DEVICE`, "
            "`PL_GPU_COUNT` and `PL_SEED` are set unless given here; other names that start with `PL_` or `PACH_` are refused."},
    {.name = "gpu",
     FIELD(gpu, pl_stage, gpu),
     .child = &pl_spec_object_gpu,
     .fallback = "false",
     .doc = "GPUs per worker: `true` is one. A stage without gets no GPU device, ever."},
    {.name = "resources",
     FIELD(object, pl_stage, resources),
     .child = &pl_spec_object_resources,
     .fallback = "{}",
     .doc = "What each worker needs."},
    {.name = "workers",
     FIELD(count, pl_stage, workers),
     .fallback = "1",
     .min = 1,
     .max = PL_WORKERS_MAX,
     .doc = "At most so many at once. They share the datums, they never split one."},
    {.name = "datum",
     FIELD(object, pl_stage, datum),
     .child = &pl_spec_object_datum,
     .fallback = "{}",
     .doc = "How one datum is tried."},
    {.name = "timeout",
     FIELD(duration, pl_stage, timeout_ms),
     .min = 1,
     .doc = "Of the job, counted only while it has a running worker. None by default."},
    {.name = "on_error",
     FIELD(on_error, pl_stage, on_error),
     .child = &pl_spec_object_on_error,
     .fallback = "\"fail\"",
     .doc =
         "`fail`: one failed datum fails the job; the others still run and are kept. `skip`: failed datums are left out of the "
         "output and run again in the next job. An object: that command runs when a datum failed; when it succeeds, the datum is "
         "left out as with `skip` (recovered), else the job fails."},
    {.name = "max_failed",
     FIELD(max_failed, pl_stage, max_failed),
     .doc = "More failed datums than this fail the job at once: a number, or a share of all its datums such as `\"1%\"`."},
    {.name = "checkpoint",
     FIELD(checkpoint, pl_stage, checkpoint_ms),
     .child = &pl_spec_object_checkpoint,
     .doc = "`true` or an object: the folder `$PL_CHECKPOINT` is uploaded every so often, when the command failed, and when the "
            "worker is told to "
            "end, is there again for the next attempt at the same datum, and goes when the datum succeeds. In no output and no "
            "key. Write a file "
            "beside and rename it: one that changes while it is read is left for the next time."},
    {.name = "on_new",
     FIELD(word, pl_stage, on_new),
     .words = words_on_new,
     .fallback = "\"newest\"",
     .doc = "A newer run of the stage while one is unfinished: `queue`, one job per run; `newest`, a job that has leased nothing "
            "yet is superseded by one that can run as soon, and the first run to begin is carried through, so that no stage "
            "starves; `restart`, a running one is stopped too: what it finished is kept and not done again."},
    {.name = "output",
     FIELD(object, pl_stage, output),
     .child = &pl_spec_object_output,
     .fallback = "{}",
     .doc = "What it writes."},
    {.name = "cache",
     FIELD(cache, pl_stage, cache),
     .child = &pl_spec_object_cache,
     .fallback = "true",
     .doc = "`false`: every job runs every datum."},
    {.name = "secrets",
     FIELD(secrets, pl_stage, secrets),
     .child = &pl_spec_object_secret,
     .doc = "Secrets as variables or folders; not in the datum key."},
    {.name = "network",
     FIELD(network, pl_stage, network),
     .fallback = "true",
     .doc = "`false`: the command reaches nothing but itself. So it is wherever the project's network is off (`pipelinectl "
            "update project "
            "NAME --network off`); `true` is refused there."},
    {.name = "user",
     FIELD(user, pl_stage, user),
     .doc = "Who the command runs as: `\"1000\"` or `\"1000:1000\"`, numbers of user and group; in the datum key. Without it the "
            "image's user, or 10001 where the namespace forbids root. On one machine it is always the daemon's."},
    {.name = "priority",
     FIELD(priority, pl_stage, priority),
     .fallback = "0",
     .min = -PL_PRIORITY_MAX,
     .max = PL_PRIORITY_MAX,
     .doc = "Of two stages that wait for the same room, the one with more goes first."},
    {.name = "keep_warm",
     FIELD(warm, pl_stage, keep_warm_ms),
     .fallback = "\"0s\"",
     .doc = "How long a worker without work stays, so that the next job need not wait for one."},
    {.name = "scratch",
     FIELD(object, pl_stage, scratch),
     .child = &pl_spec_object_scratch,
     .doc = "A volume of its own for a worker's data, in the place of the node's disk."},
    {.name = "placement",
     FIELD(placement, pl_stage, placement),
     .child = &pl_spec_object_placement,
     .fallback = "{}",
     .doc = "Where pods run, and what else is said of them; not in the datum key."},
};
OBJECT(stage, "stage", "A command that reads repos and writes the repo named after it.", later_of_stage);

static const char *const later_of_input[] = {"join",  "group", "cron", "git",         "join_on", "group_by",
                                             "outer", "s3",    "lazy", "empty_files", "trigger", NULL};
static const struct spec_field fields_of_input[] = {
    {.name = "repo",
     FIELD(repo, pl_input, repo),
     .doc = "`NAME`, `NAME@BRANCH` or `PROJECT/NAME@BRANCH`; branch `master` by default. A name is a stage of the same file "
            "first, then a "
            "repo of the project."},
    {.name = "name",
     FIELD(name, pl_input, name),
     .noun = "input",
     .doc = "Folder under `/pfs` and name of its variables: `NAME` and `PL_INPUT_NAME` hold the path of the match. The repo's by "
            "default."},
    {.name = "glob",
     FIELD(glob, pl_input, glob),
     .fallback = "\"/\"",
     .doc = "Each match is one datum; `/` is one for all. `*` `?` `[a-z]` `{a,b}` `**`, and `(…)` to capture."},
    {.name = "files",
     .type = &pl_spec_type_globs,
     LIST(pl_input, files, n_files),
     .min = 1,
     .doc = "Which files of each match are mounted and hashed, relative to the match; a glob without `/` matches at any depth, "
            "one that "
            "matches a folder takes all in it. All files by default. A match of which nothing is left is no datum."},
    {.name = "cross",
     FIELD(cross, pl_input, children),
     .child = &pl_spec_object_input,
     .doc = "Every combination of these inputs, the first the slowest. Stands alone."},
    {.name = "union",
     FIELD(union, pl_input, children),
     .child = &pl_spec_object_input,
     .doc = "The datums of these inputs, one after the other. Inputs of different branches may share a name, "
            "but not two that read one branch of one repo. Stands alone."},
    {.name = "params",
     FIELD(params, pl_input, params),
     .doc =
         "Parameters: `{\"lr\": [0.1, 0.03], \"k\": [1, 2]}` is every combination, `[{\"lr\": 0.1, \"k\": 1}, …]` exactly these; "
         "each is one datum, as `/pfs/params/params.json`, in `PL_PARAM_LR` and as `${params.lr}` in `run`, `env` and "
         "`output.prefix`. A new value runs only the new combinations. Stands alone."},
    {.name = "reference",
     FIELD(bool, pl_input, reference),
     .doc = "`true`: its content is not in the datum key; a change of it, or of its `files`, alone runs nothing again, and "
            "`update` says so."},
    {.name = "writable",
     FIELD(bool, pl_input, writable),
     .doc = "`true`: copies that the command may change, not the read-only files; what it changes is thrown away."},
    {.name = "previous",
     FIELD(bool, pl_input, previous),
     .doc = "`true`, on the stage's own name: its last good output, an empty folder the first time. It never starts the stage, "
            "and such "
            "a stage runs every datum in every job."},
    {.name = "pfs",
     FIELD(pfs, pl_input, pfs),
     .child = &pl_spec_object_input,
     .doc = "`{\"pfs\": {\"repo\": …}}` is `{\"repo\": …}`."},
};
OBJECT(input, "input", "A repo, `cross` or `union` of inputs, or `params`.", later_of_input);

static const struct spec_field fields_of_resources[] = {
    {.name = "cpu", FIELD(cpu, pl_resources, cpu_milli), .doc = "CPUs to reserve; no limit, but a share of what there is."},
    {.name = "cpu_limit", FIELD(cpu, pl_resources, cpu_limit_milli), .doc = "CPUs that it may use at most; pods only."},
    {.name = "memory",
     FIELD(bytes, pl_resources, memory_bytes),
     .doc = "Memory to reserve, and the limit; on one machine where cgroups are delegated to the daemon."},
    {.name = "memory_request",
     FIELD(bytes, pl_resources, memory_request_bytes),
     .doc = "Memory to reserve when that is less than `memory`, which then is the limit alone."},
    {.name = "disk", FIELD(bytes, pl_resources, disk_bytes), .doc = "Scratch beside the inputs."},
    {.name = "shm", FIELD(bytes, pl_resources, shm_bytes), .doc = "Size of `/dev/shm`, counted inside `memory`."},
};
OBJECT(resources, "resources", "Kubernetes quantities: `500m`, `2`, `40Gi`.", nothing);

static const struct spec_field fields_of_on_error[] = {
    {.name = "run",
     .type = &pl_spec_type_texts,
     LIST(pl_stage, err_run, n_err_run),
     .min = 1,
     .required = true,
     .doc = "The command and its arguments, with the datum's inputs and variables; what it and the failed command wrote is "
            "thrown away."},
};
OBJECT(on_error, "on_error", "What runs when a datum's command failed.", nothing);

static const struct spec_field fields_of_checkpoint[] = {
    {.name = "every",
     FIELD(duration, pl_stage, checkpoint_ms),
     .fallback = "\"5m\"",
     .min = 1000,
     .doc = "How often; at least 1s."},
};
OBJECT(checkpoint, "checkpoint", "What a command that is stopped goes on with.", nothing);

static const struct spec_field fields_of_datum[] = {
    {.name = "tries",
     FIELD(count, pl_datum_policy, tries),
     .fallback = "1",
     .min = 1,
     .max = PL_TRIES_MAX,
     .doc = "How often the command may end badly. Lost workers are not counted."},
    {.name = "timeout", FIELD(duration, pl_datum_policy, timeout_ms), .min = 1, .doc = "Of one try. None by default."},
    {.name = "batch",
     FIELD(bool, pl_datum_policy, batch),
     .fallback = "false",
     .doc = "The command stays alive for all datums of its worker (a model is loaded once) and asks for each with `pl-next`, or "
            "with `pl.datums()` in Python."},
};
OBJECT(datum, "datum", "How one datum is tried.", nothing);

static const struct spec_field fields_of_keep[] = {
    {.name = "commits",
     FIELD(count, pl_retention_rule, commits),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "The newest so many commits of every branch."},
    {.name = "days",
     FIELD(count, pl_retention_rule, days),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Commits of the last so many days. With `commits`: what either keeps. All commits when neither is given."},
    {.name = "results",
     FIELD(count, pl_retention_rule, results),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Days after a job's end for which its attempts, their metrics and what it did before it failed are kept. The job and "
            "its "
            "figures stay."},
    {.name = "logs",
     FIELD(count, pl_retention_rule, logs),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Days after a job's end for which its log is kept."},
};
OBJECT(keep, "keep", "What stays of what a stage makes; as for input repos.", nothing);

static const char *const later_of_output[] = {"branch", "s3", NULL};
static const struct spec_field fields_of_output[] = {
    {.name = "prefix",
     FIELD(text, pl_output, prefix),
     .fallback = "\"\"",
     .doc = "Goes before every path a datum writes: `${INPUT.1}` (a capture of the glob), `${INPUT.path}`, `${INPUT.dir}`, "
            "`${INPUT.stem}`, `${params.NAME}`, `${datum}` (12 hex digits). Not in the datum key."},
    {.name = "expect",
     .type = &pl_spec_type_globs,
     LIST(pl_output, expect, n_expect),
     .min = 1,
     .doc = "A job whose output lacks a match of any of these fails."},
    {.name = "copy_links",
     FIELD(bool, pl_output, copy_links),
     .fallback = "false",
     .doc = "`true`: a link that leads neither into the output nor into an input becomes a copy of the file or folder that the "
            "command could read there. `false`: such a link fails the datum. Not in the datum key."},
    {.name = "keep",
     FIELD(keep, pl_output, keep),
     .child = &pl_spec_object_keep,
     .doc = "What stays of commits, results and logs. Without it everything, or what `pipelinectl update repo --keep` has set."},
};
OBJECT(output, "output", "The output repo.", later_of_output);

static const struct spec_field fields_of_cache[] = {
    {.name = "code",
     FIELD(bool, pl_cache, code),
     .fallback = "true",
     .doc = "`false`: the code is not in the datum key; what is done stays done whatever the code."},
    {.name = "salt",
     FIELD(text, pl_cache, salt),
     .fallback = "\"\"",
     .doc = "Any text, in the datum key: change it to run all again."},
};
OBJECT(cache, "cache", "What counts as already done.", nothing);

const struct spec_object *const pl_spec_objects[] = {
    &pl_spec_object_file,      &pl_spec_object_repo,       &pl_spec_object_repo_keep,
    &pl_spec_object_stage,     &pl_spec_object_input,      &pl_spec_object_gpu,
    &pl_spec_object_share,     &pl_spec_object_resources,  &pl_spec_object_on_error,
    &pl_spec_object_datum,     &pl_spec_object_output,     &pl_spec_object_keep,
    &pl_spec_object_cache,     &pl_spec_object_secret,     &pl_spec_object_scratch,
    &pl_spec_object_placement, &pl_spec_object_toleration, NULL};

const struct spec_field *pl_spec_field_find(const struct spec_object *object, const char *name)
{
    for (size_t i = 0; i < object->n; i++)
        if (pl_streq(object->fields[i].name, name))
            return &object->fields[i];
    return NULL;
}

bool pl_spec_field_later(const struct spec_object *object, const char *name)
{
    for (const char *const *later = object->later; *later != NULL; later++)
        if (pl_streq(*later, name))
            return true;
    return false;
}
