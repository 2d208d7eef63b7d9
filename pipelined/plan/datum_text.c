/* datum_text: reads the text from left to right. After each input's name its path goes on up to the name of a later input, or
 * to the end; the shortest path is tried first. */
#include "pipelined/plan/datum_text.h"

#include "pipelined/plan/datum_identity.h"

struct reading {
    const struct pl_stage *stage;
    const struct pl_hash *id;
    struct pl_datum_text_part *parts;
    size_t n;
    unsigned left; /* readings that may still be tried */
};

/* Returns the length of "name=/" (of `params` "params=") at the text, 0 if the text does not begin so. */
static size_t begins(const struct pl_input *leaf, const char *text)
{
    const size_t len = strlen(leaf->name), slash = pl_input_reads(leaf);

    return strncmp(text, leaf->name, len) == 0 && text[len] == '=' && (!slash || text[len + 1] == '/') ? len + 1 + slash : 0;
}

/* Compares the id of the complete reading. */
static bool has_id(struct reading *r)
{
    struct pl_datum_leaf leaves[PL_SPEC_LEAVES_MAX];
    struct pl_hash id;

    for (size_t i = 0; i < r->n; i++)
        leaves[i] =
            (struct pl_datum_leaf){.input = r->parts[i].input, .path = r->parts[i].path, .path_len = r->parts[i].path_len};
    r->left--;
    pl_datum_id(leaves, r->n, &id);
    return pl_hash_eq(&id, r->id);
}

/* Reads the rest of the text, whose inputs are at `from` or later in the spec. */
static bool read_rest(struct reading *r, const char *text, size_t from)
{
    for (size_t leaf = from; leaf < r->stage->n_leaves; leaf++) {
        const size_t head = begins(r->stage->leaves[leaf], text);
        struct pl_datum_text_part *part = &r->parts[r->n];
        const char *end;

        if (!head)
            continue;
        *part = (struct pl_datum_text_part){.input = r->stage->leaves[leaf], .path = text + head};
        r->n++;
        for (end = strstr(part->path, ", "); end && r->left > 0; end = strstr(end + 1, ", ")) {
            part->path_len = (size_t)(end - part->path);
            if (read_rest(r, end + 2, leaf + 1))
                return true;
        }
        part->path_len = strlen(part->path);
        if (r->left > 0 && has_id(r))
            return true;
        r->n--;
    }
    return false;
}

int pl_datum_text_parse(const struct pl_stage *stage, const char *text, const struct pl_hash *id,
                        struct pl_datum_text_part ret[PL_SPEC_LEAVES_MAX], struct pl_err *err)
{
    struct reading r = {.stage = stage, .id = id, .parts = ret, .left = PL_DATUM_TEXT_READINGS_MAX};

    if (read_rest(&r, text, 0))
        return (int)r.n;
    return pl_err_set(err, PL_ENOTFOUND, "the inputs of the datum cannot be told from \"%.200s\"", text);
}
