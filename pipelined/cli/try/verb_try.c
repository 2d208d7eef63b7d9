/* try: runs one datum of a stage on this machine, with the sandbox and the environment variables that a
 * worker would use. It commits nothing. */
#include "pipelined/cli/local/code_folder.h"
#include "pipelined/cli/local/spec_file.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/job_table.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "pipelined/cli/try/try_sandbox.h"
#include "pipelined/cli/try/try_worker.h"

#include "storage/base/clock.h"
#include <stdio.h>
#include <sys/stat.h>

#define PATHS_SHOWN  20u
#define EXPECT_SHOWN 5u /* paths in the message about output.expect */
#define NO_RUN       "00000000000000000000000000000000"

struct trial {
    struct pl_cli *c;
    struct pl_cli_spec file; /* the spec file of -f */
    struct pl_spec *told;    /* without -f: the spec that the stage's job ran with */
    const struct pl_spec *spec;
    const struct pl_stage *stage;
    json_t *job; /* the stage's job in the run of --at or, without -f, the stage's newest job; NULL = none */
    struct pl_cli_try_inputs inputs;
    struct pl_cli_try_folder folder;
    /* two plans of the stage: from the names of the files, and from their contents */
    struct pl_plan *names, *plan;
    size_t n_datums, number; /* number of datums in the plan `names`, and index of the chosen datum */
    char *url, *token, *secrets;
    char podman[PATH_MAX];
    struct pl_cli_try request;
};

static void trial_finish(struct trial *t)
{
    pl_plan_destroy(t->plan);
    pl_plan_destroy(t->names);
    pl_cli_try_inputs_finish(&t->inputs);
    pl_cli_try_folder_finish(&t->folder);
    json_decref(t->request.gpus);
    json_decref(t->job);
    pl_cli_spec_finish(&t->file);
    pl_spec_destroy(t->told);
    free(t->url);
    free(t->token);
    free(t->secrets);
}

/* ---- choice of the stage ---- */

/* Finds the job of the stage in the run of --at; without --at, the stage's newest job. */
static int find_job(struct trial *t, const char *stage, struct pl_err *err)
{
    const char *run = pl_cli_value(t->c, "at");
    _cleanup_free_ char *name = NULL, *path = NULL;
    struct pl_cli_job job;
    int r;

    if (asprintf(&name, "%s%s%s", stage, run ? "@" : "", run ? run : "") < 0)
        return pl_err_nomem(err);
    r = pl_cli_job_find(t->c, name, &job, err);
    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/jobs/%s/%s/%s", job.project, job.stage, job.run);
    return pl_cli_call(t->c, "GET", path, NULL, &t->job, err);
}

/* Requests the spec and the code with which the job ran. */
static int ask_stage(struct trial *t, struct pl_err *err)
{
    const char *project = pl_show_text_at(t->job, "project"), *stage = pl_show_text_at(t->job, "stage"),
               *run = pl_show_text_at(t->job, "run");
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/jobs/%s/%s/%s/spec", project, stage, run), *text = NULL;
    const char *sandbox = pl_cli_value(t->c, "sandbox");
    const struct pl_spec_context context = {.no_sandbox = sandbox && pl_streq(sandbox, "none")};
    _cleanup_(json_decrefp) json_t *told = NULL, *spec = NULL;
    int r = pl_cli_call(t->c, "GET", path, NULL, &told, err);

    if (r < 0)
        return r;
    spec = json_pack("{s:s, s:s, s:[O]}", "pipeline", pl_show_text_at(told, "pipeline"), "project", project, "stages",
                     json_object_get(told, "spec"));
    text = spec ? json_dumps(spec, JSON_COMPACT) : NULL;
    r = text ? pl_spec_parse(text, strlen(text), "the job's spec", &context, &t->told, NULL, err) : pl_err_nomem(err);
    if (r == 0 && *pl_show_text_at(told, "code_root"))
        r = pl_hash_parse(pl_show_text_at(told, "code_root"), &t->request.code_root, err);
    if (r < 0)
        return r;
    t->spec = t->told;
    t->stage = &t->told->stages[0];
    return 0;
}

static int read_file(struct trial *t, const char *filename, const char *stage, struct pl_err *err)
{
    char names[PL_CLI_STAGES_TEXT];
    int r = pl_cli_spec_read(t->c, filename, false, &t->file, err);

    if (r < 0)
        return r;
    r = stage ? pl_cli_spec_find_stage(t->c, &t->file, stage, err) : 0;
    if (r < 0)
        return r;
    t->spec = t->file.spec;
    t->stage = stage ? pl_spec_stage(t->spec, stage) : t->spec->n_stages == 1 ? &t->spec->stages[0] : NULL;
    if (!t->stage)
        return pl_err_set(err, PL_EUSAGE, "try which stage? Pipeline %s has %s", t->spec->pipeline,
                          pl_cli_spec_stages(t->spec, names));
    return 0;
}

static int find_stage(struct trial *t, struct pl_err *err)
{
    const char *filename = pl_cli_value(t->c, "file"), *stage = t->c->n_args ? t->c->args[0] : NULL;
    _cleanup_free_ char *whole = NULL;
    int r;

    if (!filename && !stage)
        return pl_err_set(err, PL_EUSAGE, "try what? Give -f SPEC STAGE, or STAGE --at RUN");
    r = filename ? read_file(t, filename, stage, err) : 0;
    if (r < 0 || (filename && !pl_cli_flag(t->c, "at")))
        return r;
    if (filename && asprintf(&whole, "%s/%s", t->spec->project, t->stage->name) < 0)
        return pl_err_nomem(err);
    r = find_job(t, filename ? whole : stage, err);
    return r < 0 || filename ? r : ask_stage(t, err);
}

/* ---- the datum and its files ---- */

static int choose(struct trial *t, struct pl_err *err)
{
    char text[PL_ERR_MSG_BYTES];
    int r = pl_cli_try_inputs_plan(&t->inputs, NULL, &t->names, err);

    r = r < 0 ? r : pl_cli_datum_choose(t->names, pl_cli_value(t->c, "datum"), &t->number, err);
    if (r < 0)
        return r;
    t->n_datums = t->names->n_datums;
    if (!t->c->quiet && !t->c->json)
        fprintf(stderr, "stage %s, datum %zu of %zu: %s%s\n", t->stage->name, t->number, t->n_datums,
                pl_plan_datum_text(t->names, t->number, text, sizeof text),
                t->n_datums > 1 && !pl_cli_flag(t->c, "datum") ? " (--datum chooses another)" : "");
    return 0;
}

static int take_code(struct trial *t, struct pl_err *err)
{
    _cleanup_free_ char *folder = NULL;
    int r;

    if (!t->stage->code || t->told) /* without -f, the code comes from the daemon's store */
        return 0;
    folder = pl_cli_spec_code_path(&t->file, t->stage);
    r = folder ? pl_cli_try_folder_take_code(&t->folder, t->spec->project, t->stage, folder, &t->request.code_root, err)
               : pl_err_nomem(err);
    return r < 0 ? pl_err_wrap(err, r, "stage %s", t->stage->name) : 0;
}

/* Stores the files of the datum, then plans again from the contents of the files. Only this plan gives the
 * datum the same key, and thus the same seed, as in a job. */
static int take(struct trial *t, struct pl_err *err)
{
    struct pl_hash code;
    int r = pl_cli_try_folder_make(t->spec->project, &t->folder, err);

    r = r < 0 ? r : pl_cli_try_folder_take(&t->folder, &t->inputs, t->names, t->number, err);
    r = r < 0 ? r : take_code(t, err);
    if (r < 0)
        return r;
    pl_stage_code_identity(t->stage, pl_hash_is_zero(&t->request.code_root) ? NULL : &t->request.code_root, &code);
    r = pl_cli_try_inputs_plan(&t->inputs, &code, &t->plan, err);
    return r < 0 ? r : pl_cli_datum_same(t->plan, t->names, t->number, &t->request.datum, err);
}

/* ---- devices, secrets and sandbox ---- */

/* Chooses the GPUs to use: those that --gpus lists, or else the first ones of this machine, as many as the
 * stage requires. */
static int find_gpus(struct trial *t, struct pl_err *err)
{
    const char *given = pl_cli_value(t->c, "gpus");
    uint32_t want = given ? 0 : t->stage->gpu.count;
    char device[32];

    t->request.gpus = json_array();
    for (const char *p = given && !pl_streq(given, "none") ? given : ""; *p;) {
        char *end;
        unsigned long n = strtoul(p, &end, 10);

        if (end == p || (*end && *end != ',') || n > 255)
            return pl_err_set(err, PL_EUSAGE, "--gpus %.60s: give numbers of /dev/nvidiaN, separated by commas, or none", given);
        json_array_append_new(t->request.gpus, json_integer((json_int_t)n));
        p = end + (*end == ',');
    }
    for (unsigned n = 0; n < PL_GPUS_MAX && json_array_size(t->request.gpus) < want; n++) {
        snprintf(device, sizeof device, "/dev/nvidia%u", n);
        if (access(device, F_OK) == 0)
            json_array_append_new(t->request.gpus, json_integer((json_int_t)n));
    }
    if (json_array_size(t->request.gpus) >= want)
        return 0;
    if (t->stage->gpu.required) {
        pl_err_set(err, PL_EUNAVAILABLE, "stage %s needs %u GPU%s, this machine has %zu", t->stage->name, want,
                   want == 1 ? "" : "s", json_array_size(t->request.gpus));
        return pl_err_hint(err, PL_EUNAVAILABLE, "Try it on the CPU with --gpus none.");
    }
    json_array_clear(t->request.gpus);
    return 0;
}

/* Finds the project's secrets in the data folder of a daemon on this machine. Only the daemon's user can read
 * them. */
static int find_secrets(struct trial *t, struct pl_err *err)
{
    _cleanup_free_ char *folder = t->stage->n_secrets ? pl_cli_folder(t->c) : NULL;

    if (!t->stage->n_secrets)
        return 0;
    if (!folder || asprintf(&t->secrets, "%s/secrets/%s", folder, t->spec->project) < 0)
        return pl_err_nomem(err);
    if (access(t->secrets, R_OK) == 0)
        return 0;
    pl_err_set(err, PL_EUNAVAILABLE, "stage %s uses secrets, but those of project %s cannot be read here (%s)", t->stage->name,
               t->spec->project, t->secrets);
    return pl_err_hint(err, PL_EUNAVAILABLE,
                       "Give --data DIR, the data folder of a daemon on this machine, and run as that daemon's user.");
}

static int find_sandbox(struct trial *t, struct pl_err *err)
{
    const char *mode = pl_cli_value(t->c, "sandbox");

    t->request.sandbox = mode ? mode : "bwrap";
    if (mode && !pl_streq(mode, "bwrap") && !pl_streq(mode, "none"))
        return pl_err_set(err, PL_EUSAGE, "--sandbox %.60s: give bwrap or none", mode);
    return 0;
}

static int fill_request(struct trial *t, struct pl_err *err)
{
    struct pl_cli_try *q = &t->request;
    int r = find_gpus(t, err);

    r = r < 0 ? r : find_sandbox(t, err);
    r = r < 0 ? r : find_secrets(t, err);
    r = r < 0 ? r : pl_cli_try_sandbox(t->c, pl_cli_value(t->c, "config"), t->request.sandbox, t->podman, err);
    if (r == 0 && (t->inputs.asks_daemon || t->told))
        r = pl_cli_server_address(t->c, &t->url, &t->token, err);
    q->c = t->c;
    q->podman = t->podman;
    q->stage = t->stage;
    q->pipeline = t->spec->pipeline;
    q->project = t->spec->project;
    q->run = t->job ? pl_show_text_at(t->job, "run") : NO_RUN;
    q->folder = &t->folder;
    q->inputs = &t->inputs;
    q->plan = t->plan;
    q->out = pl_cli_value(t->c, "output");
    q->secrets = t->secrets;
    q->shell = pl_cli_flag(t->c, "shell");
    q->url = t->url;
    q->token = t->token;
    return r;
}

/* Resolves symbolic links in `path`, or in its nearest parent folder that exists. */
static char *real_above(const char *path)
{
    _cleanup_free_ char *at = strdup(path);
    char *real = NULL;

    while (at && !(real = realpath(at, NULL)) && errno == ENOENT) {
        char *slash = strrchr(at, '/');

        if (!slash || slash == at)
            return realpath(slash ? "/" : ".", NULL);
        *slash = '\0';
    }
    return real;
}

/* Checks, before the command runs, that the output can be written: `out` is a folder or can be created, and
 * files can be created in it. `real` is what real_above returned. A folder is made there and removed again: permissions alone
 * do not tell. */
static int check_writable(const char *out, const char *real, struct pl_err *err)
{
    _cleanup_free_ char *made = NULL;
    struct stat st;

    if (!*out)
        return pl_err_set(err, PL_EUSAGE, "-o is empty: give a folder, or a path that does not exist yet");
    if (!real)
        return pl_err_errno(err, errno, "-o %s", out);
    if (lstat(out, &st) == 0 && S_ISLNK(st.st_mode) && stat(out, &st) < 0)
        return pl_err_errno(err, errno, "-o %s: where this link leads", out);
    if (stat(real, &st) < 0)
        return pl_err_errno(err, errno, "-o %s: %s", out, real);
    if (!S_ISDIR(st.st_mode))
        return pl_err_set(err, PL_EUSAGE, "-o %s: %s is not a folder: give a folder, or a path that does not exist yet", out,
                          real);
    if (asprintf(&made, "%s/.pipelined-try-XXXXXX", real) < 0)
        return pl_err_nomem(err);
    if (!mkdtemp(made) || rmdir(made) < 0)
        return pl_err_errno(err, errno, "-o %s: cannot write to %s", out, real);
    return 0;
}

/* Refuses an output folder that cannot be written, and one inside an input folder, because the next try would
 * read the output as input. */
static int check_out(const struct trial *t, struct pl_err *err)
{
    const char *out = pl_cli_value(t->c, "output");
    _cleanup_free_ char *real = out ? real_above(out) : NULL;
    int r = out ? check_writable(out, real, err) : 0;

    if (r < 0)
        return r;

    for (size_t i = 0; real && i < t->inputs.folders.n; i++) {
        const char *dir = t->inputs.folders.items[i].dir;
        _cleanup_free_ char *input = realpath(dir, NULL);
        size_t len = input ? strlen(input) : 0;

        if (input && strncmp(real, input, len) == 0 && (real[len] == '/' || !real[len] || len == 1))
            return pl_err_set(err, PL_EUSAGE,
                              "-o %s lies in the input folder %s and would be read the next time: give another folder", out, dir);
    }
    return 0;
}

/* ---- result ---- */

static void say_before_shell(const struct trial *t)
{
    const struct pl_stage *s = t->stage;

    if (t->c->quiet || !isatty(STDIN_FILENO))
        return;
    fputs("shell in the datum's sandbox: inputs are in /pfs, output goes to /pfs/out, exit leaves it; the stage's command is",
          stderr);
    for (size_t i = 0; i < s->n_run; i++)
        fprintf(stderr, " %s", s->run[i]);
    fputs(s->script ? " /pl/script\n" : "\n", stderr);
}

static void say_output(const struct trial *t, const json_t *answer)
{
    const json_t *paths = json_object_get(answer, "paths"), *one;
    long long files = pl_show_int_at(answer, "files");
    char text[PL_SHOW_TEXT_MAX], size[32];
    size_t i;

    json_array_foreach(paths, i, one)
    {
        if (i < PATHS_SHOWN)
            fprintf(stderr, "  /%s  %s\n", pl_show_clean(pl_show_text_at(one, "path"), text, sizeof text),
                    pl_size_text((uint64_t)pl_show_int_at(one, "size"), size));
    }
    if (files > (long long)PATHS_SHOWN)
        fprintf(stderr, "  … and %lld more\n", files - (long long)PATHS_SHOWN);
    if (files && t->request.out)
        fprintf(stderr, "written to %s; nothing was committed\n", t->request.out);
    else if (files)
        fputs("the output was discarded: -o DIR writes it to a folder\n", stderr);
}

/* Formats the first paths of the output for a message, like "/model.npy, /metrics.json and 3 more". */
static void text_of_output(const json_t *answer, struct pl_buf *out)
{
    const json_t *paths = json_object_get(answer, "paths"), *one;
    long long files = pl_show_int_at(answer, "files");
    char text[PL_SHOW_TEXT_MAX];
    size_t i;

    json_array_foreach(paths, i, one)
    {
        if (i < EXPECT_SHOWN)
            (void)!pl_buf_addf(out, NULL, "%s/%s", i ? ", " : "", pl_show_clean(pl_show_text_at(one, "path"), text, sizeof text));
    }
    if (files > (long long)EXPECT_SHOWN)
        (void)!pl_buf_addf(out, NULL, " and %lld more", files - (long long)EXPECT_SHOWN);
}

/* Judges a successful datum by output.expect, which holds for the output of the whole job. The only datum of a
 * stage fails if it wrote nothing that matches; one of several gets a warning, because the others may write
 * it. */
static int judge_expect(const struct trial *t, const json_t *answer, struct pl_err *err)
{
    const char *glob = json_string_value(json_array_get(json_object_get(answer, "unmet"), 0));
    _cleanup_(pl_buf_finish) struct pl_buf wrote = {0};

    if (!glob)
        return 0;
    text_of_output(answer, &wrote);
    if (t->n_datums == 1)
        return pl_err_set(err, PL_ESTAGE, "stage %s succeeded but wrote nothing matching %s; it wrote %s", t->stage->name, glob,
                          wrote.len ? pl_buf_str(&wrote) : "nothing at all");
    if (!t->c->quiet)
        fprintf(stderr,
                "datum %zu of %zu wrote nothing matching %s of output.expect: a job fails if no other datum does (warning)\n",
                t->number, t->n_datums, glob);
    return 0;
}

static int say_success(const struct trial *t, const json_t *answer, struct pl_err *err)
{
    char took[32], size[32];

    if (t->c->json || t->c->quiet)
        return judge_expect(t, answer, err);
    fprintf(stderr, "success in %s: %lld file%s, %s\n", pl_duration_text(pl_show_int_at(answer, "ms.compute"), took),
            (long long)pl_show_int_at(answer, "files"), pl_show_int_at(answer, "files") == 1 ? "" : "s",
            pl_size_text((uint64_t)pl_show_int_at(answer, "bytes.out"), size));
    say_output(t, answer);
    return judge_expect(t, answer, err);
}

static int judge(const struct trial *t, const json_t *answer, struct pl_err *err)
{
    char text[PL_ERR_MSG_BYTES];

    if (json_is_true(json_object_get(answer, "success")))
        return say_success(t, answer, err);
    if (json_is_true(json_object_get(answer, "gave_back")))
        return pl_err_set(err, PL_ECANCELED, "interrupted");
    pl_err_set(err, PL_ESTAGE, "stage %s: datum %s: %s", t->stage->name,
               pl_plan_datum_text(t->names, t->number, text, sizeof text), pl_show_text_at(answer, "reason"));
    return pl_err_hint(err, PL_ESTAGE, "Repeat the command with --shell to look around in the sandbox.");
}

static int print_json(const struct trial *t, json_t *answer, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];
    struct pl_hash id;

    pl_plan_datum_id(t->names, t->number, &id);
    json_object_set_new(answer, "stage", json_string(t->stage->name));
    json_object_set_new(answer, "datum", json_integer((json_int_t)t->number));
    json_object_set_new(answer, "datums", json_integer((json_int_t)t->n_datums));
    json_object_set_new(answer, "id", json_string(pl_hash_hex(&id, hex)));
    return pl_show_json(answer, err);
}

static int try_datum(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(trial_finish) struct trial t = {.c = c};
    _cleanup_(json_decrefp) json_t *answer = NULL;
    int r;

    /* record interrupts instead of ending at once, so that the temporary folder is always removed */
    pl_cli_note_interrupt();
    r = find_stage(&t, err);
    r = r < 0 ? r : pl_cli_try_inputs_bind(&t.inputs, c, t.stage, t.job, err);
    r = r < 0 ? r : check_out(&t, err);
    r = r < 0 ? r : choose(&t, err);
    r = r < 0 ? r : take(&t, err);
    r = r < 0 ? r : fill_request(&t, err);
    if (r < 0)
        return r;
    if (t.request.shell)
        say_before_shell(&t);
    r = pl_cli_try_run(&t.request, &answer, err);
    r = r < 0 || !c->json ? r : print_json(&t, answer, err);
    return r < 0 ? r : judge(&t, answer, err);
}

static const struct pl_option options[] = {
    {"file", 'f', "SPEC", "the spec, with its code folder as it is on disk (else spec and code of the stage's job)"},
    {"input", 'i', "REPO=DIR", "read the folder DIR instead of the repo; may be repeated"},
    {"at", 0, "RUN", "read what the stage read in this run: an id, the start of one, or REPO@REF"},
    {"datum", 0, "N|ID|PATH", "which datum: its number in `plan`, its id, or one of its paths (else the first)"},
    {"output", 'o', "DIR", "folder for the output, laid out as in the stage's repo (else it is discarded)"},
    {"shell", 0, NULL, "start a shell instead of the command"},
    {"sandbox", 0, "MODE", "bwrap (default) or none"},
    {"config", 0, "FILE",
     "the daemon's configuration, for its sandbox_read_only and podman (else a daemon on this machine is asked)"},
    {"gpus", 0, "N,…", "GPUs to use: the N of /dev/nvidiaN, or none (else the first ones, as many as the stage needs)"},
    {0},
};

static const struct pl_verb verbs[] = {
    {"try",
     NULL,
     "[-f SPEC] STAGE [--input REPO=DIR … | --at RUN] [--datum N|ID|PATH] [-o DIR] [--shell]",
     0,
     1,
     options,
     try_datum,
     "Runs one datum of a stage on this machine, in a worker's sandbox, and commits nothing.",
     {"try -f pipelines/digits/pipeline.json prepare --input digits=pipelines/digits/data -o out/prepare",
      "try train --at 9ab2f1c4 --datum 1f0c2b7a90c1", "try -f spec.json train --at digits@master --shell"}},
};
PL_CLI_TABLE(try, verbs);
