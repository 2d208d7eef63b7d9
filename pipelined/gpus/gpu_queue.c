/* gpu_queue.c: on a cluster finds free GPUs and holders among the report's rows; then makes the sentence from the numbers. */
#include "pipelined/gpus/gpu_queue.h"

#include "pipelined/text/json_text.h"
#include "storage/base/buf.h"

#include <fnmatch.h>
#include <stdio.h>

#define NAMED 3 /* holders that the sentence names */

/* ---- the nodes of a cluster ---- */

bool pl_gpu_queue_matches(const json_t *globs, const char *product)
{
    char label[128];
    json_t *glob;
    size_t i;

    snprintf(label, sizeof label, "%s", product);
    for (char *p = label; *p; p++)
        if (*p == ' ')
            *p = '-';
    json_array_foreach((json_t *)(uintptr_t)globs, i, glob)
    {
        const char *text = json_string_value(glob);

        if (text && (fnmatch(text, product, FNM_CASEFOLD) == 0 || fnmatch(text, label, FNM_CASEFOLD) == 0))
            return true;
    }
    return json_array_size(globs) == 0;
}

static bool is_wanted(const json_t *want, const json_t *row)
{
    return pl_streq(pl_json_str(row, "resource"), pl_json_str(want, "resource")) &&
           pl_gpu_queue_matches(json_object_get(want, "product"), pl_json_str(row, "product"));
}

static json_int_t left_of(const json_t *row)
{
    return PL_MAX(pl_json_int(row, "capacity") - pl_json_int(row, "allocated"), 0);
}

/* Returns the row of the node that lacks least to take a pod; NULL if none is large enough. */
static const json_t *best_node(const json_t *rows, const json_t *want)
{
    const json_t *best = NULL;
    json_t *row;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
    {
        if (is_wanted(want, row) && pl_json_int(row, "capacity") >= pl_json_int(want, "gpus") &&
            (!best || left_of(row) > left_of(best)))
            best = row;
    }
    return best;
}

static void add_holders(json_t *holders, const json_t *row)
{
    json_t *by;
    size_t i;

    json_array_foreach(json_object_get(row, "by"), i, by)
    {
        json_t *holder = json_copy(by);

        json_object_set_new(holder, "gpus", json_integer(pl_json_int(by, "count")));
        json_object_set(holder, "node", json_object_get(row, "node"));
        json_array_append_new(holders, holder);
    }
}

/* Counts the wanted GPUs of all nodes, and lists who holds them: of a pod that wants several, which must be on one node, on
 * the node that lacks least. */
static void look_at_nodes(json_t *entry, const json_t *rows)
{
    const json_t *want = json_object_get(entry, "want"), *best = best_node(rows, want);
    json_int_t free = 0, all = 0;
    json_t *holders = json_array(), *row;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
    {
        if (!is_wanted(want, row))
            continue;
        all += pl_json_int(row, "capacity");
        free += left_of(row);
        if (pl_json_int(want, "gpus") == 1 || row == best)
            add_holders(holders, row);
    }
    json_object_set_new(entry, "free", json_integer(free));
    json_object_set_new(entry, "of", json_integer(all));
    json_object_set_new(entry, "free_on_one_node", best ? json_integer(left_of(best)) : json_null());
    json_object_set_new(entry, "holders", holders);
}

/* ---- holders ---- */

/* Puts those that do nothing first, then those that hold more. */
static bool goes_before(const json_t *a, const json_t *b)
{
    const json_int_t x = pl_json_int(a, "idle_since_us"), y = pl_json_int(b, "idle_since_us");

    if ((x != 0) != (y != 0))
        return x != 0;
    return x != y ? x < y : pl_json_int(a, "gpus") > pl_json_int(b, "gpus");
}

/* Copies the fields of a holder that the reader may see. */
static json_t *seen_by(const json_t *holder, const struct pl_gpu_queue_reader *reader)
{
    static const char *const ours[] = {"project", "stage", "run", "node", "computing", "idle_since_us"}, *const others[] = {
                                                                                                             "namespace", "pod",
                                                                                                             "node",
                                                                                                             "idle_since_us"};
    const bool is_ours = *pl_json_str(holder, "stage") != '\0';
    const bool may =
        is_ours ? reader->may_see(reader->who, pl_json_str(holder, "project"), pl_json_str(holder, "stage")) : reader->sees_pods;
    json_t *o = json_pack("{s:I}", "gpus", pl_json_int(holder, "gpus"));

    for (size_t i = 0; may && i < (is_ours ? PL_ARRAY_SIZE(ours) : PL_ARRAY_SIZE(others)); i++) {
        const char *key = is_ours ? ours[i] : others[i];

        if (json_object_get(holder, key))
            json_object_set(o, key, json_object_get(holder, key));
    }
    return o;
}

/* Replaces the entry's holders by what the reader may see of them, in order, at most PL_GPU_QUEUE_HOLDERS_MAX. */
static void show_holders(json_t *entry, const struct pl_gpu_queue_reader *reader)
{
    json_t *all = json_incref(json_object_get(entry, "holders")), *list = json_array(), *holder;
    size_t i, k;

    json_array_foreach(all, i, holder)
    {
        json_t *seen = seen_by(holder, reader);

        for (k = 0; k < json_array_size(list) && !goes_before(seen, json_array_get(list, k));)
            k++;
        json_array_insert_new(list, k, seen);
        if (json_array_size(list) > PL_GPU_QUEUE_HOLDERS_MAX)
            json_array_remove(list, PL_GPU_QUEUE_HOLDERS_MAX);
    }
    json_object_set_new(entry, "holders", list);
    json_decref(all);
}

/* ---- the sentence ---- */

static int name_holder(struct pl_buf *out, const json_t *holder, struct pl_err *err)
{
    if (*pl_json_str(holder, "stage"))
        return *pl_json_str(holder, "run")
                   ? pl_buf_addf(out, err, "%.60s of run %.8s", pl_json_str(holder, "stage"), pl_json_str(holder, "run"))
                   : pl_buf_addf(out, err, "%.60s", pl_json_str(holder, "stage"));
    if (*pl_json_str(holder, "pod"))
        return pl_buf_addf(out, err, "pod %.63s/%.100s", pl_json_str(holder, "namespace"), pl_json_str(holder, "pod"));
    return pl_buf_add_str(out, "something that you may not see", err);
}

/* Writes the names of the first `n` holders, as "a, b or c". */
static int name_holders(struct pl_buf *out, const json_t *holders, size_t n, const char *word, struct pl_err *err)
{
    const size_t named = PL_MIN(n, (size_t)NAMED);
    int r = 0;

    for (size_t i = 0; r == 0 && i < named; i++) {
        const char *before = i == 0 ? "" : i + 1 == n ? word : ", ";

        r = pl_buf_add_str(out, before, err);
        r = r < 0 ? r : name_holder(out, json_array_get(holders, i), err);
    }
    return r < 0 || n <= named ? r : pl_buf_addf(out, err, "%s%zu others", word, n - named);
}

/* How many holders, from the first on, must end to give back `missing` GPUs; 0 = all together hold fewer. */
static size_t enough(const json_t *holders, json_int_t missing)
{
    json_int_t sum = 0;

    for (size_t i = 0; i < json_array_size(holders); i++) {
        sum += pl_json_int(json_array_get(holders, i), "gpus");
        if (sum >= missing)
            return i + 1;
    }
    return 0;
}

/* Returns the holders of which each alone holds enough, a new reference. */
static json_t *enough_alone(const json_t *holders, json_int_t missing)
{
    json_t *list = json_array(), *holder;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)holders, i, holder)
    {
        if (pl_json_int(holder, "gpus") >= missing)
            json_array_append(list, holder);
    }
    return list;
}

static int say_ends(struct pl_buf *out, const json_t *entry, json_int_t missing, struct pl_err *err)
{
    const json_t *holders = json_object_get(entry, "holders");
    _cleanup_(json_decrefp) json_t *alone = enough_alone(holders, missing);
    const size_t needed = enough(holders, missing);
    int r;

    if (json_array_size(alone) == 0 && needed == 0)
        return missing > 0 ? pl_buf_addf(out, err, "it starts when %lld more GPU%s given back", (long long)missing,
                                         missing == 1 ? " is" : "s are")
                           : pl_buf_add_str(out, "it starts when CPU or memory is given back", err);
    r = pl_buf_add_str(out, "it starts when ", err);
    if (json_array_size(alone) > 0)
        r = r < 0 ? r : name_holders(out, alone, json_array_size(alone), " or ", err);
    else
        r = r < 0 ? r : name_holders(out, holders, needed, " and ", err);
    return r < 0 ? r : pl_buf_add_str(out, json_array_size(alone) > 0 ? " ends" : " end", err);
}

/* Adds what holds its GPUs and does nothing: the first holder, if any is. */
static int say_idle(struct pl_buf *out, const json_t *entry, const struct pl_gpu_queue_reader *reader, struct pl_err *err)
{
    const json_t *first = json_array_get(json_object_get(entry, "holders"), 0);
    const int64_t minutes = (reader->now_us - pl_json_int(first, "idle_since_us")) / 60000000;
    int r;

    if (!json_object_get(first, "idle_since_us") || minutes < 1)
        return 0;
    r = pl_buf_add_str(out, "; ", err);
    r = r < 0 ? r : name_holder(out, first, err);
    return r < 0 ? r : pl_buf_addf(out, err, " has done nothing for %lld min", (long long)minutes);
}

static int say_ahead(struct pl_buf *out, json_int_t ahead, struct pl_err *err)
{
    return ahead == 0 ? 0
                      : pl_buf_addf(out, err, "; %lld %s before it", (long long)ahead, ahead == 1 ? "stage goes" : "stages go");
}

static int say_start(const json_t *entry, const struct pl_gpu_queue_reader *reader, struct pl_buf *out, struct pl_err *err)
{
    const char *what = pl_json_str(entry, "for");
    const json_int_t want = pl_json_int(json_object_get(entry, "want"), "gpus"), free = pl_json_int(entry, "free"),
                     ahead = pl_json_int(entry, "ahead");
    const json_t *on_one = json_object_get(entry, "free_on_one_node");
    const json_int_t most = on_one ? json_integer_value(on_one) : free;
    int r;

    if (pl_streq(what, "start"))
        return pl_buf_add_str(out, "it has a place: its workers are starting", err);
    if (pl_streq(what, "never") || (want > 0 && pl_json_int(entry, "of") < want) || json_is_null(on_one))
        return pl_buf_add_str(out, "it cannot start here: add what it wants, or ask for less in its spec", err);
    if (want == 0 && pl_streq(what, "pod"))
        r = pl_buf_add_str(out, "it starts when a node has room for its pod", err);
    else if (want > 0 && most >= want)
        r = pl_buf_add_str(out, ahead > 0 ? "it starts when it is its turn" : "it starts when there is CPU and memory for it",
                           err);
    else
        r = say_ends(out, entry, want > 0 ? want - most : 0, err);
    r = r < 0 ? r : say_idle(out, entry, reader, err);
    return r < 0 ? r : say_ahead(out, ahead, err);
}

int pl_gpu_queue_explain(json_t *entry, const json_t *report, const struct pl_gpu_queue_reader *reader, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    int r;

    if (pl_streq(pl_json_str(entry, "for"), "pod") && pl_json_int(json_object_get(entry, "want"), "gpus") > 0)
        look_at_nodes(entry, json_object_get(report, "nodes"));
    if (!json_object_get(entry, "holders"))
        json_object_set_new(entry, "holders", json_array());
    show_holders(entry, reader);
    r = say_start(entry, reader, &text, err);
    r = r < 0 ? r : pl_buf_add(&text, "", 1, err);
    if (r < 0)
        return r;
    return json_object_set_new(entry, "start", json_string((const char *)text.data)) < 0 ? pl_err_nomem(err) : 0;
}
