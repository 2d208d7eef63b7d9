/* Checks and error messages for paths, and the trail of prefixes of the current path. */
#include "storage/tree/path_conflict.h"

int pl_path_conflict_check_key(uint8_t tree, const char *key, size_t key_len, struct pl_err *err)
{
    if (tree == PL_TREE_PATHS)
        return pl_path_check(key, key_len, err);
    if (key_len == 0 || key_len > PL_ROW_KEY_MAX_BYTES)
        return pl_err_set(err, PL_EINVAL, "the key of a row has %zu bytes; accepted are 1 to %u", key_len, PL_ROW_KEY_MAX_BYTES);
    return 0;
}

int pl_path_conflict_collision(struct pl_err *err, const char *file, size_t file_len, const char *below, size_t below_len)
{
    return pl_err_set(err, PL_ECOLLISION, "\"%.*s\" and \"%.*s\": a path cannot be both a file and a folder",
                      (int)PL_MIN(file_len, 400u), file, (int)PL_MIN(below_len, 400u), below);
}

int pl_path_conflict_disorder(struct pl_err *err, const char *first, size_t first_len, const char *second, size_t second_len)
{
    return pl_err_set(err, PL_EINVAL, "the paths are not in ascending order: \"%.*s\" comes after \"%.*s\"",
                      (int)PL_MIN(second_len, 400u), second, (int)PL_MIN(first_len, 400u), first);
}

void pl_path_conflict_trail_finish(struct pl_path_conflict_trail *t)
{
    pl_buf_finish(&t->path);
    t->n = 0;
}

int pl_path_conflict_trail_go(struct pl_path_conflict_trail *t, const char *path, size_t path_len, struct pl_err *err)
{
    size_t common = pl_key_common(t->path.data, t->path.len, path, path_len);

    while (t->n > 0 && t->step[t->n - 1].len > common)
        t->n--;
    t->path.len = common;
    return pl_buf_add(&t->path, path + common, path_len - common, err);
}

void pl_path_conflict_trail_mark(struct pl_path_conflict_trail *t, uint32_t tag)
{
    /* this condition is always true: each step is longer than the step before it and at most as long as the
     * path, so there are at most PL_PATH_MAX_BYTES steps */
    if (t->n < PL_PATH_MAX_BYTES)
        t->step[t->n++] = (struct pl_path_conflict_step){(uint32_t)t->path.len, tag};
}

const struct pl_path_conflict_step *pl_path_conflict_trail_above(const struct pl_path_conflict_trail *t, uint32_t *i)
{
    while (*i < t->n) {
        const struct pl_path_conflict_step *step = &t->step[(*i)++];

        if (step->len < t->path.len && t->path.data[step->len] == '/')
            return step;
    }
    return NULL;
}
