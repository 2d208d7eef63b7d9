/* stage_changes: one line for each stage. */
#include "pipelined/cli/runs/stage_changes.h"

#include "pipelined/text/quantity.h"

#include <stdio.h>

#define FILES_TEXT_MAX 120u /* bytes of the text that names changed files */

/* Writes an estimate of the update's cost, such as ", ~310 GPU-hours at the last job's rate"; "" if it is
 * unknown. */
static void price_text(const json_t *again, char out[64])
{
    json_int_t gpu_s = pl_show_int_at(again, "gpu_s"), s = gpu_s ? gpu_s : pl_show_int_at(again, "worker_s");
    const char *unit = s < 60 ? "seconds" : s < 3600 ? "minutes" : "hours";
    double n = (double)s / (s < 60 ? 1 : s < 3600 ? 60 : 3600);

    *out = '\0';
    if (s)
        snprintf(out, 64, ", ~%.*f %s-%s at the last job's rate", n < 10 && s >= 60, n, gpu_s ? "GPU" : "worker", unit);
}

/* Writes how many datums of a stage the update runs again; "" if the stage is new. */
static void again_text(const json_t *change, char out[PL_SHOW_TEXT_MAX])
{
    const json_t *again = pl_show_at(change, "again");
    json_int_t n = pl_show_int_at(again, "datums"), of = pl_show_int_at(again, "of");
    char some[32], all[32], price[64];

    price_text(again, price);
    if (!again)
        *out = '\0';
    else if (n == 0)
        snprintf(out, PL_SHOW_TEXT_MAX, ": nothing to run again");
    else if (json_is_true(pl_show_at(again, "estimated"))) /* the total is as uncertain, so it is not said */
        snprintf(out, PL_SHOW_TEXT_MAX, ": about %s datum%s to run%s", pl_quantity_count_text(n, some), n == 1 ? "" : "s", price);
    else
        snprintf(out, PL_SHOW_TEXT_MAX, ": %s%s of %s datum%s to run%s",
                 json_is_true(pl_show_at(again, "at_most")) ? "up to " : "", pl_quantity_count_text(n, some),
                 pl_quantity_count_text(of, all), of == 1 ? "" : "s", price);
}

void pl_cli_changed_files(const json_t *files, char out[PL_SHOW_TEXT_MAX])
{
    const json_t *one;
    const json_int_t count = pl_show_int_at(files, "count");
    size_t i, n = 0, len = 0;

    *out = '\0';
    json_array_foreach(pl_show_at(files, "changed"), i, one)
    {
        if (len + json_string_length(one) + 32 > FILES_TEXT_MAX)
            break;
        len += (size_t)snprintf(out + len, PL_SHOW_TEXT_MAX - len, "%s%s", n++ ? ", " : " (", json_string_value(one));
    }
    if (n > 0 && (json_int_t)n < count)
        len += (size_t)snprintf(out + len, PL_SHOW_TEXT_MAX - len, " and %lld more", (long long)count - (long long)n);
    else if (count > 0 && n == 0)
        len += (size_t)snprintf(out + len, PL_SHOW_TEXT_MAX - len, " (%lld file%s", (long long)count, count == 1 ? "" : "s");
    if (count > 0)
        snprintf(out + len, PL_SHOW_TEXT_MAX - len, ")");
}

void pl_cli_stage_changes(const struct pl_cli *c, const json_t *stages)
{
    const json_t *one;
    size_t i;

    json_array_foreach(stages, i, one)
    {
        const char *what = pl_show_text_at(one, "what");
        char again[PL_SHOW_TEXT_MAX], files[PL_SHOW_TEXT_MAX];

        again_text(one, again);
        pl_cli_changed_files(pl_show_at(one, "files"), files);
        pl_show_say(c, "  %-20s %s%s%s\n", pl_show_text_at(one, "stage"), *what ? what : pl_show_text_at(one, "change"), files,
                    again);
    }
}

/* Writes the name of a stage, with its project and its pipeline if they are not those of `first`: "end", "end (second)",
 * "other/end (second)". */
static void name_text(const json_t *price, const json_t *first, char out[PL_SHOW_TEXT_MAX])
{
    const char *project = pl_show_text_at(price, "project"), *pipeline = pl_show_text_at(price, "pipeline");
    const bool near = pl_streq(project, pl_show_text_at(first, "project"));
    const bool same = near && pl_streq(pipeline, pl_show_text_at(first, "pipeline"));

    snprintf(out, PL_SHOW_TEXT_MAX, "%s%s%s%s%s%s", near ? "" : project, near ? "" : "/", pl_show_text_at(price, "stage"),
             same ? "" : " (", same ? "" : pipeline, same ? "" : ")");
}

void pl_cli_stage_price(const struct pl_cli *c, const json_t *price, const json_t *first)
{
    const json_t *again = pl_show_at(price, "again");
    const json_int_t n = pl_show_int_at(again, "datums"), reused = pl_show_int_at(again, "of") - n;
    const bool at_most = json_is_true(pl_show_at(again, "at_most"));
    char text[PL_SHOW_TEXT_MAX], name[PL_SHOW_TEXT_MAX], some[32] = "";

    again_text(price, text);
    if (again && reused > 0 && !at_most)
        snprintf(some, sizeof some, ", %lld reused", (long long)reused);
    name_text(price, first, name);
    pl_show_say(c, "  %-20s %s%s\n", name, again ? text + strlen(": ") : "it has never run: its datums are not known",
                again ? some : "");
}
