/* The field tables of all objects, except those of pod fields, which are in spec_field_pod.c. */
#include "pipelined/spec/spec_field.h"

static const char *const nothing[] = {NULL};

static const struct spec_field fields_of_file[] = {
    {.name = "pipeline", FIELD(name, pl_spec, pipeline), .noun = "pipeline", .required = true, .doc = "Name of the pipeline."},
    {.name = "project",
     FIELD(name, pl_spec, project),
     .noun = "project",
     .doc = "Project of its stages and repos. Without it `default`, or the one named on the command line."},
    {.name = "description", FIELD(text, pl_spec, description), .fallback = "\"\"", .doc = "Description for people."},
    {.name = "repos",
     FIELD(repos, pl_spec, repos),
     .child = &pl_spec_object_repo,
     .doc = "Input repos, `{\"NAME\": {…}}`. They are created if they do not exist, their options are set, and they are never "
            "deleted."},
    {.name = "defaults",
     FIELD(defaults, pl_spec, stages),
     .child = &pl_spec_object_stage,
     .doc = "Default values for the fields of every stage, merged as in RFC 7396: a stage overrides them field by field, `null` "
            "removes one. Below them are those of the "
            "project, and below these the cluster's (`pipelinectl update defaults`)."},
    {.name = "stages",
     FIELD(stages, pl_spec, stages),
     .child = &pl_spec_object_stage,
     .required = true,
     .doc = "The stages, in any order; each writes the repo of its own name. With their defaults they are at most 2 MiB as JSON. "
            "Split a larger spec into several pipelines; their stages can read each other's repos."},
};
OBJECT(file, "file", "A spec file is one JSON object.", nothing);

static const char *const words_durable[] = {[PL_DURABLE_LOCAL] = "local", [PL_DURABLE_BUCKET] = "bucket", NULL};
static const struct spec_field fields_of_repo_keep[] = {
    {.name = "commits",
     FIELD(count, pl_retention_rule, commits),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Keep this many of the newest commits of every branch."},
    {.name = "days",
     FIELD(count, pl_retention_rule, days),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Keep commits for this many days. With `commits`, a commit stays if either rule keeps it. If neither is "
            "given, all commits stay."},
};
OBJECT(repo_keep, "repo_keep",
       "Which commits of an input repo are kept. Heads of branches are always kept, as are commits from which kept commits were "
       "made, "
       "and commits that unfinished jobs and runs read. `{}` keeps everything.",
       nothing);

static const struct spec_field fields_of_repo[] = {
    {.name = "commit_window",
     FIELD(duration, pl_spec_repo, commit_window_ms),
     .max = 60000,
     .doc = "Puts that name no commit are collected in one open commit until no put has come for this time, from `100ms` to "
            "`60s`. With "
            "`0s`, the default, "
            "each put is a commit."},
    {.name = "durable",
     FIELD(word, pl_spec_repo, durable),
     .words = words_durable,
     .doc = "When a put into an open commit is acknowledged: once it is on the daemon's disk (`local`), or once the store alone "
            "can give it back (`bucket`)."},
    {.name = "keep",
     FIELD(keep, pl_spec_repo, keep),
     .child = &pl_spec_object_repo_keep,
     .doc = "How many commits are kept, or for how long. The next garbage collection frees the space of dropped commits."},
};
OBJECT(repo, "repo",
       "Options of an input repo. They are set each time the pipeline is created or updated; options that are not given stay as "
       "they are.",
       nothing);

static const char *const words_on_new[] = {
    [PL_ON_NEW_QUEUE] = "queue", [PL_ON_NEW_NEWEST] = "newest", [PL_ON_NEW_RESTART] = "restart", NULL};
static const char *const later_of_stage[] = {"schedule", "egress", "replicas", "sweep", "serve", "notebook", "volumes", NULL};

static const struct spec_field fields_of_stage[] = {
    {.name = "name",
     FIELD(name, pl_stage, name),
     .noun = "stage",
     .required = true,
     .doc = "Name of the stage and of its output repo."},
    {.name = "input",
     FIELD(input, pl_stage, input),
     .child = &pl_spec_object_input,
     .required = true,
     .doc = "What the stage reads, and how that is divided into datums."},
    {.name = "run",
     .type = &pl_spec_type_texts,
     LIST(pl_stage, run, n_run),
     .min = 1,
     .doc =
         "The command and its arguments, executed without a shell. Exactly one of `run` and `script` is given. `${params.NAME}` "
         "is "
         "replaced by the datum's parameter; another `${params.…}`, `${param.…}` or `${INPUT.…}` is refused. `$${` is the text "
         "`${`; any other `${` stays as it is, for a shell."},
    {.name = "script",
     FIELD(text, pl_stage, script),
     .min = 1,
     .doc = "Text of a script: run by the interpreter of its `#!` line, else by `/bin/sh -e`."},
    {.name = "stdin",
     FIELD(text, pl_stage, stdin_text),
     .doc = "Text for the command's standard input; part of the datum key. Empty by default."},
    {.name = "accept_codes", FIELD(codes, pl_stage, accepted), .doc = "Exit codes other than 0 that count as success."},
    {.name = "image",
     FIELD(text, pl_stage, image),
     .min = 1,
     .doc =
         "Container image. Part of the datum key as written. On one machine podman gets it, where podman is installed, and the "
         "command runs in the usual sandbox with the image's files; see `image_required` and environments.md."},
    {.name = "image_required",
     FIELD(unless_false, pl_stage, image_required),
     .fallback = "true",
     .doc = "On one machine without podman: `true` refuses a new stage that names an image. `false`: its commands use this "
            "machine's files instead, and each job says so. Not used where podman is installed, nor in a cluster."},
    {.name = "code",
     FIELD(code, pl_stage, code),
     .child = &pl_spec_object_code,
     .doc = "Code folder, at or below the spec's folder and without `..`; at most 256 MiB and 10,000 files. Files that git or "
            "`.pipelinedignore` files ignore are left out. The command's working directory, `/code`, is a private copy of it. "
            "Its content is part of the datum key. The object names the files of this stage, so that a change of other files in "
            "the folder does not run it again."},
    {.name = "python",
     FIELD(machine_path, pl_stage, python),
     .doc = "On one machine: the Python of the stage, the absolute path of a virtual environment (or of another folder with "
            "`bin/python3`), or of its interpreter; part of the datum key as written. Its `bin` is first in `PATH`, and "
            "`VIRTUAL_ENV` is set. The sandbox must show its folder, and that of the Python that it is made of: see "
            "`sandbox_read_only` in config.md. Not used in a cluster, where the image has the Python."},
    {.name = "setup",
     FIELD(setup, pl_stage, setup),
     .child = &pl_spec_object_setup,
     .doc = "The stage's environment: packages that are installed once, in a stage of its own that is named after this one "
            "(`train-setup`), and are at `/pl/env` in every worker, with `/pl/env/bin` first in `PATH`. Stages with the same "
            "`setup` and image share one. See environments.md."},
    {.name = "env",
     FIELD(env, pl_stage, env),
     .fallback = "{}",
     .doc = "Environment variables; part of the datum key. Numbers and booleans are converted to text. `PYTHONUNBUFFERED`, "
            "`PL_DEVICE`, "
            "`PL_GPU_COUNT` and `PL_SEED` are set unless given here; other names that start with `PL_`, and Pachyderm's "
            "variables that are set, are refused. `${…}` in values is as in `run`."},
    {.name = "gpu",
     FIELD(gpu, pl_stage, gpu),
     .child = &pl_spec_object_gpu,
     .fallback = "false",
     .doc = "GPUs per worker: `true` means one. A stage without this field never gets a GPU device."},
    {.name = "resources",
     FIELD(object, pl_stage, resources),
     .child = &pl_spec_object_resources,
     .fallback = "{}",
     .doc = "CPUs, memory and disk space of each worker."},
    {.name = "workers",
     FIELD(count, pl_stage, workers),
     .fallback = "1",
     .min = 1,
     .max = PL_WORKERS_MAX,
     .doc = "Maximum number of workers at the same time. They share the stage's datums; a datum is never split."},
    {.name = "datum",
     FIELD(object, pl_stage, datum),
     .child = &pl_spec_object_datum,
     .fallback = "{}",
     .doc = "How one datum is run and retried."},
    {.name = "timeout",
     FIELD(duration, pl_stage, timeout_ms),
     .min = 1,
     .doc = "Time limit of the job, counted only while it has a running worker. None by default."},
    {.name = "on_error",
     FIELD(on_error, pl_stage, on_error),
     .child = &pl_spec_object_on_error,
     .fallback = "\"fail\"",
     .doc =
         "`fail`: one failed datum fails the job; the others still run and are kept. `skip`: failed datums are left out of the "
         "output and run again in the next job. An object: its command runs after a datum has failed; if it succeeds, the datum "
         "is "
         "left out as with `skip` (recovered), else the job fails."},
    {.name = "max_failed",
     FIELD(max_failed, pl_stage, max_failed),
     .doc = "More failed datums than this fail the job at once: a number, or a share of all its datums such as `\"1%\"`."},
    {.name = "checkpoint",
     FIELD(checkpoint, pl_stage, checkpoint_ms),
     .child = &pl_spec_object_checkpoint,
     .doc =
         "`true` or an object: the folder `$PL_CHECKPOINT` is uploaded at intervals, after the command has failed, and when the "
         "worker is told to end. The next attempt at the same datum finds it again; it is deleted when the datum succeeds. It is "
         "part of no output and no "
         "key. Write each file under another name and rename it: a file that changes while it is read is left for the next "
         "upload."},
    {.name = "on_new",
     FIELD(word, pl_stage, on_new),
     .words = words_on_new,
     .fallback = "\"newest\"",
     .doc = "What happens to an unfinished job of the stage when a newer run has one. `queue`: each run gets its job. `newest`: "
            "a job of which no datum has "
            "begun is superseded by one that can run as soon; the first run to begin is carried through, so that no stage "
            "starves. `restart`: a running job is stopped, too; the datums that it finished are kept and not run again."},
    {.name = "output",
     FIELD(object, pl_stage, output),
     .child = &pl_spec_object_output,
     .fallback = "{}",
     .doc = "What the stage writes."},
    {.name = "cache",
     FIELD(cache, pl_stage, cache),
     .child = &pl_spec_object_cache,
     .fallback = "true",
     .doc = "`false`: every job runs every datum."},
    {.name = "secrets",
     FIELD(secrets, pl_stage, secrets),
     .child = &pl_spec_object_secret,
     .doc = "Secrets of the project, as variables or folders; not part of the datum key."},
    {.name = "network",
     FIELD(unless_false, pl_stage, network),
     .fallback = "true",
     .doc = "`false`: the command has no network but its own loopback. The same holds in a project whose network is off "
            "(`pipelinectl "
            "update project NAME --network off`); `true` is refused there."},
    {.name = "user",
     FIELD(user, pl_stage, user),
     .doc = "User that the command runs as: `\"1000\"` or `\"1000:1000\"`, the numeric ids of user and group; part of the datum "
            "key. By default the "
            "image's user, or 10001 where the namespace forbids root. On one machine it is always the daemon's user."},
    {.name = "priority",
     FIELD(priority, pl_stage, priority),
     .fallback = "0",
     .min = -PL_PRIORITY_MAX,
     .max = PL_PRIORITY_MAX,
     .doc = "Of two stages that wait for the same resources, the one with the higher priority goes first."},
    {.name = "keep_warm",
     FIELD(warm, pl_stage, keep_warm_ms),
     .fallback = "\"0s\"",
     .doc = "How long an idle worker stays, so that the next job need not wait for a new one."},
    {.name = "scratch",
     FIELD(object, pl_stage, scratch),
     .child = &pl_spec_object_scratch,
     .doc = "A separate volume for a worker's data, instead of the node's disk."},
    {.name = "placement",
     FIELD(placement, pl_stage, placement),
     .child = &pl_spec_object_placement,
     .fallback = "{}",
     .doc = "Where pods run, and other settings of pods; not part of the datum key."},
};
OBJECT(stage, "stage", "A command that reads repos and writes the repo named after it.", later_of_stage);

static const char *const later_of_input[] = {"join", "group", "cron",        "join_on", "group_by", "outer",
                                             "s3",   "lazy",  "empty_files", "trigger", NULL};
static const struct spec_field fields_of_input[] = {
    {.name = "repo",
     FIELD(repo, pl_input, repo),
     .doc = "`NAME`, `NAME@BRANCH` or `PROJECT/NAME@BRANCH`; branch `master` by default. A name is looked up first among the "
            "stages of the same file, "
            "then among the repos of the project. With `PROJECT/` it is a repo of another project, which whoever creates the "
            "pipeline must be allowed to read; its commits start the stage as those of the own project do."},
    {.name = "name",
     FIELD(name, pl_input, name),
     .noun = "input",
     .doc = "Name of the folder under `/pfs`, and of the variables `NAME` and `PL_INPUT_NAME`, which hold the path of the match. "
            "The repo's name by "
            "default."},
    {.name = "glob",
     FIELD(glob, pl_input, glob),
     .fallback = "\"/\"",
     .doc = "Each match is one datum; `/` makes one datum of everything. Patterns: `*` `?` `[a-z]` `{a,b}` `**`, and `(…)` to "
            "capture."},
    {.name = "files",
     .type = &pl_spec_type_globs,
     LIST(pl_input, files, n_files),
     .min = 1,
     .doc = "Globs for the files of each match that are mounted and hashed, relative to the match. A glob without `/` matches at "
            "any depth; "
            "one that matches a folder selects everything in it. All files by default. A match without any such file is not a "
            "datum."},
    {.name = "cross",
     FIELD(cross, pl_input, children),
     .child = &pl_spec_object_input,
     .doc = "Every combination of these inputs; the first input varies slowest. No other field may be beside it."},
    {.name = "union",
     FIELD(union, pl_input, children),
     .child = &pl_spec_object_input,
     .doc = "The datums of these inputs, one input after the other. Inputs in different branches of the union may share a name, "
            "but not two that read the same branch of the same repo. No other field may be beside it."},
    {.name = "params",
     FIELD(params, pl_input, params),
     .doc = "Parameters: `{\"lr\": [0.1, 0.03], \"k\": [1, 2]}` means every combination, `[{\"lr\": 0.1, \"k\": 1}, …]` exactly "
            "these. "
            "Each combination is one datum; its values are in `/pfs/params/params.json`, in variables such as `PL_PARAM_LR`, and "
            "as `${params.lr}` in `run`, `env` and "
            "`output.prefix`. A new value runs only the new combinations. No other field may be beside it."},
    {.name = "reference",
     FIELD(bool, pl_input, reference),
     .doc = "`true`: its content is not part of the datum key. A change of this input or of its `files` alone runs nothing "
            "again, and "
            "`update` says so."},
    {.name = "writable",
     FIELD(bool, pl_input, writable),
     .doc = "`true`: the command gets copies that it may change, instead of read-only files; its changes are discarded."},
    {.name = "previous",
     FIELD(bool, pl_input, previous),
     .doc = "`true`, with the stage's own name as `repo`: the stage's last successful output, or an empty folder the first time. "
            "It never starts the stage, "
            "and the stage runs every datum in every job."},
    {.name = "environment",
     FIELD(bool, pl_input, environment),
     .doc =
         "`true`: the repo is the stage's environment, at `/pl/env` too, with `/pl/env/bin` first in `PATH`. `setup` adds such "
         "an input by itself; written by hand, stages of several pipelines share an environment. Each run of the stage "
         "first runs the stage that makes it, which is done at once if nothing of it has changed. Not without a sandbox."},
    {.name = "pfs",
     FIELD(pfs, pl_input, pfs),
     .child = &pl_spec_object_input,
     .doc = "`{\"pfs\": {\"repo\": …}}` means the same as `{\"repo\": …}`."},
    {.name = "git",
     FIELD(git, pl_input, git_url),
     .child = &pl_spec_object_git,
     .doc =
         "The files of a git repository. They are kept in a repo of the input's name, which only the daemon writes: each push to "
         "the branch becomes a commit of it and starts a run. No other field may be beside it."},
};
OBJECT(input, "input", "A repo, a git repository, a `cross` or `union` of inputs, or `params`.", later_of_input);

static const struct spec_field fields_of_git[] = {
    {.name = "name",
     FIELD(name, pl_input, name),
     .noun = "input",
     .required = true,
     .doc = "Name of the input, and of the repo that keeps the files. The repo is created if it does not exist. Several "
            "stages and pipelines may name it, with the same repository and branch."},
    {.name = "source",
     FIELD(name, pl_input, git_source),
     .noun = "source",
     .doc = "A source of the project (`pipelinectl create source`): its repository and secret are used, it is looked at as "
            "often, and "
            "its webhooks count. Exactly one of `source` and `url` is given."},
    {.name = "url", FIELD(git_url, pl_input, git_url), .doc = "Address of the repository. It is looked at every 60s."},
    {.name = "branch",
     FIELD(git_branch, pl_input, git_branch),
     .fallback = "\"\"",
     .doc = "The branch. By default that of the source, or the repository's default branch."},
    {.name = "secret",
     FIELD(text, pl_input, git_secret),
     .fallback = "\"\"",
     .doc =
         "With `url`: a secret of the project with the keys `token`, `username` and `password`, or `ssh_key` and `known_hosts`."},
    {.name = "glob", FIELD(glob, pl_input, glob), .fallback = "\"/\"", .doc = "As for a repo."},
    {.name = "files", .type = &pl_spec_type_globs, LIST(pl_input, files, n_files), .min = 1, .doc = "As for a repo."},
    {.name = "reference", FIELD(bool, pl_input, reference), .doc = "As for a repo."},
    {.name = "writable", FIELD(bool, pl_input, writable), .doc = "As for a repo."},
};
OBJECT(git, "git", "A git repository as input.", nothing);

static const struct spec_field fields_of_resources[] = {
    {.name = "cpu",
     FIELD(cpu, pl_resources, cpu_milli),
     .doc = "CPUs to reserve. This is not a limit; it is the worker's share when CPUs are busy."},
    {.name = "cpu_limit",
     FIELD(cpu, pl_resources, cpu_limit_milli),
     .doc = "Maximum number of CPUs that the worker may use; pods only."},
    {.name = "memory",
     FIELD(bytes, pl_resources, memory_bytes),
     .doc = "Memory to reserve, and the limit. On one machine the limit holds where cgroups are delegated to the daemon."},
    {.name = "memory_request",
     FIELD(bytes, pl_resources, memory_request_bytes),
     .doc = "Memory to reserve if that is less than `memory`, which then is only the limit."},
    {.name = "disk", FIELD(bytes, pl_resources, disk_bytes), .doc = "Scratch space, in addition to the inputs."},
    {.name = "shm", FIELD(bytes, pl_resources, shm_bytes), .doc = "Size of `/dev/shm`, counted inside `memory`."},
};
OBJECT(resources, "resources", "Kubernetes quantities: `500m`, `2`, `40Gi`.", nothing);

static const struct spec_field fields_of_on_error[] = {
    {.name = "run",
     .type = &pl_spec_type_texts,
     LIST(pl_stage, err_run, n_err_run),
     .min = 1,
     .required = true,
     .doc = "The command and its arguments. It gets the datum's inputs and variables; what it and the failed command wrote is "
            "discarded."},
};
OBJECT(on_error, "on_error", "The command that runs after a datum's command has failed.", nothing);

static const struct spec_field fields_of_code[] = {
    {.name = "path",
     FIELD(folder, pl_stage, code),
     .required = true,
     .doc = "The folder, at or below the spec's folder and without `..`."},
    {.name = "files",
     .type = &pl_spec_type_globs,
     LIST(pl_stage, code_files, n_code_files),
     .min = 1,
     .required = true,
     .doc = "Globs over the folder's files: only files that match are copied and count. A glob without `/` matches at any depth; "
            "one that matches a folder selects everything in it."},
};
OBJECT(code, "code", "A part of a code folder: a change of another file in it does not run the stage again.", nothing);

static const struct spec_field fields_of_setup_secret[] = {
    {.name = "name", FIELD(kube_name, pl_setup_secret, name), .required = true, .doc = "A secret of the project."},
    {.name = "key", FIELD(text, pl_setup_secret, key), .min = 1, .required = true, .doc = "The key of it that has the value."},
};
OBJECT(setup_secret, "setup_secret", "The secret of a package index.", nothing);

static const struct spec_field fields_of_setup[] = {
    {.name = "python",
     FIELD(requirements, pl_setup, python),
     .doc = "A file with requirements, at or below the spec's folder: `requirements.txt` (or any `.txt`), `pyproject.toml` (its "
            "`dependencies`), `uv.lock`, or `environment.yml`, which needs micromamba or conda. Installed into a virtual "
            "environment of the `python3` of the image, or of the stage's `python`. Exactly one of `python` and `script` is "
            "given."},
    {.name = "script",
     FIELD(text, pl_setup, script),
     .min = 1,
     .doc = "A script that fills `/pl/env`, as in a stage. Its working directory has the `files`."},
    {.name = "files",
     .type = &pl_spec_type_globs,
     LIST(pl_setup, files, n_files),
     .min = 1,
     .doc =
         "Globs for other files that are needed, such as those that the requirements name: in the folder of that file, or with "
         "`script` in the spec's folder."},
    {.name = "index",
     FIELD(index, pl_setup, index),
     .doc = "URL of a package index, in the place of the usual one. A script finds it in `PIP_INDEX_URL` and `UV_INDEX_URL`."},
    {.name = "secret",
     FIELD(object, pl_setup, secret),
     .child = &pl_spec_object_setup_secret,
     .doc = "The secret for `index`: `USER:PASSWORD`, or a token. A script finds it in `SETUP_SECRET`."},
    {.name = "timeout",
     FIELD(duration, pl_setup, timeout_ms),
     .fallback = "\"1h\"",
     .min = 1,
     .doc = "Time limit for making the environment."},
};
OBJECT(setup, "setup", "How the environment of a stage is made.", nothing);

static const struct spec_field fields_of_checkpoint[] = {
    {.name = "every",
     FIELD(duration, pl_stage, checkpoint_ms),
     .fallback = "\"5m\"",
     .min = 1000,
     .doc = "Time between two uploads, at least 1s."},
};
OBJECT(checkpoint, "checkpoint", "Files with which the next attempt continues a command that was stopped.", nothing);

static const struct spec_field fields_of_datum[] = {
    {.name = "tries",
     FIELD(count, pl_datum_policy, tries),
     .fallback = "1",
     .min = 1,
     .max = PL_TRIES_MAX,
     .doc = "How many times the command is run before the datum counts as failed. Tries on lost workers are not counted."},
    {.name = "timeout", FIELD(duration, pl_datum_policy, timeout_ms), .min = 1, .doc = "Time limit of one try. None by default."},
    {.name = "batch",
     FIELD(bool, pl_datum_policy, batch),
     .fallback = "false",
     .doc = "The command stays alive for all datums of its worker (a model is loaded once) and asks for each with `pl-next`, or "
            "with `pl.datums()` in Python."},
};
OBJECT(datum, "datum", "How one datum is run and retried.", nothing);

static const struct spec_field fields_of_keep[] = {
    {.name = "commits",
     FIELD(count, pl_retention_rule, commits),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Keep this many of the newest commits of every branch."},
    {.name = "days",
     FIELD(count, pl_retention_rule, days),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Keep commits for this many days. With `commits`, a commit stays if either rule keeps it. If neither is "
            "given, all commits stay."},
    {.name = "results",
     FIELD(count, pl_retention_rule, results),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Days after a job's end for which its attempts, their metrics and the work of a failed job are kept. The job and its "
            "figures stay."},
    {.name = "logs",
     FIELD(count, pl_retention_rule, logs),
     .min = 1,
     .max = PL_RETENTION_MAX,
     .doc = "Days after a job's end for which its log is kept."},
};
OBJECT(keep, "keep", "What is kept of a stage's commits, results and logs; commits as for input repos.", nothing);

static const char *const later_of_output[] = {"branch", "s3", NULL};
static const struct spec_field fields_of_output[] = {
    {.name = "prefix",
     FIELD(text, pl_output, prefix),
     .fallback = "\"\"",
     .doc = "Prefix of every path that a datum writes. It may contain `${INPUT.1}` (a capture of the glob), `${INPUT.path}`, "
            "`${INPUT.dir}`, "
            "`${INPUT.stem}`, `${params.NAME}`, `${datum}` (12 hex digits). Not part of the datum key."},
    {.name = "expect",
     .type = &pl_spec_type_globs,
     LIST(pl_output, expect, n_expect),
     .min = 1,
     .doc = "The job fails if one of these globs matches nothing in its output."},
    {.name = "copy_links",
     FIELD(bool, pl_output, copy_links),
     .fallback = "false",
     .doc = "`true`: a link that leads neither into the output nor into an input becomes a copy of the file or folder that the "
            "command could read there. `false`: such a link fails the datum. Not part of the datum key."},
    {.name = "environment",
     FIELD(bool, pl_output, environment),
     .doc = "`true`: the output is an environment for other stages. `/pl/env` is another name of the output folder, so that "
            "paths in its files are right where it is used; links are kept as they are, also those that lead out of it."},
    {.name = "keep",
     FIELD(keep, pl_output, keep),
     .child = &pl_spec_object_keep,
     .doc =
         "What is kept of commits, results and logs. By default everything, or what `pipelinectl update repo --keep` has set."},
};
OBJECT(output, "output", "The output repo.", later_of_output);

static const struct spec_field fields_of_cache[] = {
    {.name = "code",
     FIELD(bool, pl_cache, code),
     .fallback = "true",
     .doc = "`false`: the code is not part of the datum key, so that a change of code causes no datum to run again."},
    {.name = "salt",
     FIELD(text, pl_cache, salt),
     .fallback = "\"\"",
     .doc = "Any text; part of the datum key. Change it to run every datum again."},
};
OBJECT(cache, "cache", "Which datums count as done already.", nothing);

const struct spec_object *const pl_spec_objects[] = {&pl_spec_object_file,
                                                     &pl_spec_object_repo,
                                                     &pl_spec_object_repo_keep,
                                                     &pl_spec_object_stage,
                                                     &pl_spec_object_input,
                                                     &pl_spec_object_git,
                                                     &pl_spec_object_gpu,
                                                     &pl_spec_object_share,
                                                     &pl_spec_object_resources,
                                                     &pl_spec_object_on_error,
                                                     &pl_spec_object_datum,
                                                     &pl_spec_object_output,
                                                     &pl_spec_object_keep,
                                                     &pl_spec_object_cache,
                                                     &pl_spec_object_secret,
                                                     &pl_spec_object_scratch,
                                                     &pl_spec_object_placement,
                                                     &pl_spec_object_toleration,
                                                     &pl_spec_object_checkpoint,
                                                     &pl_spec_object_code,
                                                     &pl_spec_object_setup,
                                                     &pl_spec_object_setup_secret,
                                                     NULL};

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
