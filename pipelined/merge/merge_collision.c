/* Describes the two datums by the inputs in which they differ, and suggests a prefix that separates all
 * datums. */
#include "pipelined/merge/merge_collision.h"

#include "pipelined/text/template.h"

#include <stdio.h>

#define COLLISION_PATH_SHOWN 160
#define COLLISION_DATUM_TEXT 200

/* Formats "test=/test/b1.csv": the inputs in which the datum differs from the other; all inputs if there is
 * no difference. */
static char *collision_datum_text(const struct pl_plan *p, size_t datum, size_t other, char out[COLLISION_DATUM_TEXT])
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < p->n_leaves && n < COLLISION_DATUM_TEXT; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(p, datum, i);

        if (m == NULL || m == pl_plan_match_of(p, other, i))
            continue;
        if (n > 0)
            n += (size_t)snprintf(out + n, COLLISION_DATUM_TEXT - n, ", ");
        if (n < COLLISION_DATUM_TEXT)
            n += (size_t)pl_plan_match_text(p, i, m, out + n, COLLISION_DATUM_TEXT - n);
    }
    return n > 0 ? pl_utf8_trim(out) : pl_plan_datum_text(p, datum, out, COLLISION_DATUM_TEXT);
}

struct stem {
    const char *text;
    size_t len;
};

static int stem_compare(const void *a, const void *b)
{
    const struct stem *x = a, *y = b;

    return pl_key_cmp(x->text, x->len, y->text, y->len);
}

/* True if all matches of the input have different stems. False also if memory for the comparison is
 * lacking. */
static bool collision_stems_differ(const struct pl_plan_leaf *leaf)
{
    _cleanup_free_ struct stem *stems = calloc(leaf->n, sizeof(*stems));

    if (stems == NULL)
        return false;
    for (size_t i = 0; i < leaf->n; i++)
        stems[i].text = pl_path_stem(leaf->matches[i].path, leaf->matches[i].path_len, &stems[i].len);
    qsort(stems, leaf->n, sizeof(*stems), stem_compare);
    for (size_t i = 1; i < leaf->n; i++)
        if (stem_compare(&stems[i - 1], &stems[i]) == 0)
            return false;
    return true;
}

static bool collision_has_union(const struct pl_input *tree)
{
    bool has = tree->kind == PL_INPUT_UNION;

    for (size_t i = 0; i < tree->n_children && !has; i++)
        has = collision_has_union(&tree->children[i]);
    return has;
}

/* Makes an output prefix that differs for all datums: it has a variable for every input with more than one
 * match, ${INPUT.stem} if the stems differ. Empty if there is none, or if the stage already has that
 * prefix and uses ${datum}. */
static int collision_remedy(const struct pl_plan *p, struct pl_buf *out, struct pl_err *err)
{
    bool unions = collision_has_union(p->stage->input); /* no variable tells the branches of a union apart */
    int r = 0;

    for (size_t i = 0; i < p->n_leaves && !unions && r == 0; i++) {
        const struct pl_input *in = p->stage->leaves[i];

        for (size_t k = 0; k < in->n_params && p->leaves[i].n > 1 && r == 0; k++)
            r = pl_buf_addf(out, err, "%s=${params.%s}/", in->param_names[k], in->param_names[k]);
        if (p->leaves[i].n > 1 && pl_input_reads(in))
            r = pl_buf_addf(out, err, "${%s.%s}/", in->name, collision_stems_differ(&p->leaves[i]) ? "stem" : "path");
    }
    if (r < 0 || pl_buf_str(out) == NULL)
        return pl_err_nomem(err);
    if (out->len == 0 || pl_streq((const char *)out->data, p->stage->output.prefix)) {
        pl_buf_clear(out);
        if (strstr(p->stage->output.prefix, "${datum}") == NULL)
            r = pl_buf_add_str(out, "${datum}/", err);
    }
    return r;
}

int pl_merge_collision(const struct pl_plan *plan, enum pl_merge_collision kind, const char *path, size_t a, size_t b,
                       struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf remedy = {0};
    char first[COLLISION_DATUM_TEXT], second[COLLISION_DATUM_TEXT];
    char how[2 * COLLISION_DATUM_TEXT + 80];
    int r;

    r = collision_remedy(plan, &remedy, err);
    if (r < 0 || pl_buf_str(&remedy) == NULL)
        return pl_err_nomem(err);
    collision_datum_text(plan, a, b, first);
    collision_datum_text(plan, b, a, second);
    if (a == b)
        (void)snprintf(how, sizeof(how), "was written twice by one datum (%s)", first);
    else if (kind == MERGE_SAME_PATH)
        (void)snprintf(how, sizeof(how), "was written by two datums (%s, %s)", first, second);
    else
        (void)snprintf(how, sizeof(how), "is a file of one datum (%s) and a folder of another (%s)", first, second);
    if (remedy.len == 0 || a == b)
        return pl_err_set(err, PL_ECOLLISION, "/%.*s%s %s: let the command write each file once", COLLISION_PATH_SHOWN, path,
                          strlen(path) > COLLISION_PATH_SHOWN ? "…" : "", how);
    return pl_err_set(err, PL_ECOLLISION, "/%.*s%s %s: give each a folder with \"output\": {\"prefix\": \"%s\"}",
                      COLLISION_PATH_SHOWN, path, strlen(path) > COLLISION_PATH_SHOWN ? "…" : "", how, (const char *)remedy.data);
}
