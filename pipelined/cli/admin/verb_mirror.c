/* mirror: copies to a target store all data of a source store that the target lacks; for backups, moves and
 * repairs. */
#include "pipelined/cli/local/store_url.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/progress.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/db/writer/sql.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/dataset/mirror/mirror.h"

#include <stdio.h>

#define LINE_EACH_MS 100
#define FINDINGS_MAX 1000

struct mirroring {
    struct pl_cli *cli;
    struct pl_object_store *from, *to;
    char *from_name, *to_name;
    /* damaged objects of the source, at most FINDINGS_MAX */
    json_t *findings;
    /* time at which the last progress line was printed; 0 = none yet */
    int64_t shown_ms;
};

static void mirroring_finish(struct mirroring *m)
{
    pl_object_close(m->from);
    pl_object_close(m->to);
    free(m->from_name);
    free(m->to_name);
    json_decref(m->findings);
}

static int on_finding(void *self, const char *key, const char *what, struct pl_err *err)
{
    struct mirroring *m = self;

    if (json_array_size(m->findings) >= FINDINGS_MAX)
        return 0;
    return pl_json_add(m->findings, json_pack("{s:s, s:s}", "object", key, "what", what), err);
}

static void on_progress(void *self, const struct pl_mirror_progress *p)
{
    struct mirroring *m = self;
    int64_t now = pl_clock_mono_ms();
    char size[32];

    if (!pl_cli_progress_seen(m->cli) || now - m->shown_ms < LINE_EACH_MS)
        return;
    m->shown_ms = now;
    fprintf(stderr, "\r\033[K%s: %llu, %s copied", p->stage, (unsigned long long)p->done, pl_size_text(p->bytes, size));
}

static bool is_interrupted(void *self)
{
    (void)self;
    return pl_cli_interrupted();
}

static int say(const struct mirroring *m, const json_t *out, struct pl_err *err)
{
    static const struct pl_column columns[] = {{"OBJECT", "object", NULL}, {"WHAT", "what", NULL}};
    const struct pl_cli *c = m->cli;
    char size[32], took[32];

    if (c->json)
        return pl_show_json(out, err);
    pl_show_say(c, "%lld packs, %lld log objects, %lld checkpoints copied (%s) in %s; %lld packs were there already",
                (long long)pl_show_int_at(out, "packs"), (long long)pl_show_int_at(out, "log_objects"),
                (long long)pl_show_int_at(out, "checkpoints"), pl_size_text((uint64_t)pl_show_int_at(out, "bytes"), size),
                pl_duration_text(pl_show_int_at(out, "ms"), took), (long long)pl_show_int_at(out, "there"));
    if (pl_show_int_at(out, "replaced"))
        pl_show_say(c, ", %lld of them damaged and replaced", (long long)pl_show_int_at(out, "replaced"));
    pl_show_say(c, "\n%s has the log up to %lld\n", m->to_name, (long long)pl_show_int_at(out, "log_seq"));
    return json_array_size(m->findings) ? pl_show_table(m->findings, columns, PL_ARRAY_SIZE(columns), true, err) : 0;
}

/* Prints the report. Returns PL_ECORRUPT if objects of the source are damaged. */
static int conclude(const struct mirroring *m, const struct pl_mirror_report *sum, int64_t ms, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *out =
        json_pack("{s:b, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:I}", "ok", sum->findings == 0, "from",
                  m->from_name, "to", m->to_name, "packs", (json_int_t)sum->packs, "bytes", (json_int_t)sum->bytes, "there",
                  (json_int_t)sum->there, "replaced", (json_int_t)sum->replaced, "log_objects", (json_int_t)sum->log_objects,
                  "log_seq", (json_int_t)sum->log_seq, "checkpoints", (json_int_t)sum->checkpoints, "found",
                  (json_int_t)sum->findings, "findings", m->findings, "ms", (json_int_t)ms);
    int r = out ? say(m, out, err) : pl_err_nomem(err);

    if (r < 0 || sum->findings == 0)
        return r;
    pl_err_set(err, PL_ECORRUPT, "%llu objects of the source are damaged and were not copied", (unsigned long long)sum->findings);
    return pl_err_hint(err, PL_ECORRUPT,
                       "Everything else was copied. pipelinectl fsck --full --store %s names the damaged files.", m->from_name);
}

static int mirror(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(mirroring_finish) struct mirroring m = {.cli = c, .findings = json_array()};
    const char *temp = getenv("TMPDIR");
    struct pl_mirror_options o = {.full = pl_cli_flag(c, "full"),
                                  .temp_dir = temp && *temp ? temp : "/tmp",
                                  .finding = on_finding,
                                  .progress = on_progress,
                                  .stop = is_interrupted,
                                  .self = &m};
    struct pl_mirror_report sum = {0};
    int64_t began = pl_clock_mono_ms();
    int r = m.findings ? 0 : pl_err_nomem(err);

    r = r < 0 ? r : pl_cli_store_open(c, c->args[0], "from-", &m.from, &m.from_name, err);
    r = r < 0 ? r : pl_cli_store_make(c, c->args[1], "to-", &m.to, &m.to_name, err);
    if (r == 0 && pl_streq(m.from_name, m.to_name) && strncmp(m.from_name, "file://", 7) == 0)
        r = pl_err_set(err, PL_EINVAL, "source and target are both %s", m.from_name);
    if (r < 0)
        return r;
    pl_cli_note_interrupt();
    r = pl_mirror(m.from, m.to, &o, &sum, err);
    if (m.shown_ms)
        fputs("\r\033[K", stderr);
    if (r == PL_ECANCELED)
        fprintf(stderr, "pipelinectl: run the same command again to continue\n");
    return r < 0 ? r : conclude(&m, &sum, pl_clock_mono_ms() - began, err);
}

static const struct pl_option options[] = {{"full", 0, NULL, "also read what the target has, and replace what is damaged there"},
                                           PL_CLI_STORE_OPTIONS("from-"),
                                           PL_CLI_STORE_OPTIONS("to-"),
                                           {0}};

static const struct pl_verb verbs[] = {
    {"mirror",
     NULL,
     "FROM TO [--full]",
     2,
     2,
     options,
     mirror,
     "Copies everything that store TO lacks of store FROM, and verifies it: a backup, or a move. FROM may be in use.",
     {"mirror file:///srv/pipelined/store file:///mnt/backup/store", "mirror file:///srv/pipelined/store s3://bucket/prefix",
      "mirror s3://bucket/prefix file:///srv/store --from-endpoint http://10.0.0.9:9000"}},
};
PL_CLI_TABLE(mirror, verbs);
