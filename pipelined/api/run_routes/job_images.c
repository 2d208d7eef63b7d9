/* Reads image ids from the details of kept attempts, and compares them with those of the stage's previous
 * job. */
#include "pipelined/api/run_routes/job_images.h"

#include "storage/base/path.h"

#include <stdio.h>

#define IMAGES_MAX 8 /* images listed per job */
/* number of earlier jobs of the stage that are searched for an image; a job that ran nothing has none */
#define JOBS_BACK 20

static int images_of(struct pl_conn *c, int64_t job, json_t *list, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT json_extract(detail, '$.image_id') AS image FROM attempt WHERE job = ?1 AND image IS NOT NULL"
                         " GROUP BY image ORDER BY min(finished_us), image LIMIT ?2",
                         "ii", job, (int64_t)IMAGES_MAX);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = pl_json_add(list, json_string(pl_col_text(&rows, 0)), err);
    return r;
}

/* Finds the stage's most recent earlier job that ran the image `image`: the name written in the spec, "" for
 * the default image. Returns 1, or 0 if there is no such job. */
static int job_before(struct pl_conn *c, int64_t job, const char *image, int64_t *ret, char ret_run[PL_ID_HEX + 1],
                      struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT b.id, b.run FROM (SELECT p.id, p.run, p.version FROM job j JOIN job p ON p.project = j.project"
                         " AND p.stage = j.stage AND p.id < j.id WHERE j.id = ?1 ORDER BY p.id DESC LIMIT ?3) b"
                         " JOIN stage s ON s.id = b.version WHERE coalesce(json_extract(s.spec, '$.image'), '') = ?2 AND EXISTS"
                         " (SELECT 1 FROM attempt a WHERE a.job = b.id AND json_extract(a.detail, '$.image_id') IS NOT NULL)"
                         " ORDER BY b.id DESC LIMIT 1",
                         "isi", job, image, (int64_t)JOBS_BACK);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    *ret = pl_col_int(&rows, 0);
    snprintf(ret_run, PL_ID_HEX + 1, "%s", pl_col_text(&rows, 1));
    return 1;
}

/* Returns the digest "sha256:…" that follows the image's name, or NULL if the container runtime reported no
 * digest. */
static const char *digest_of(const json_t *image)
{
    const char *at = json_is_string(image) ? strrchr(json_string_value(image), '@') : NULL;

    return at ? at + 1 : NULL;
}

/* Returns true if both digests are known and differ. */
static bool differ(const json_t *a, const json_t *b)
{
    return digest_of(a) && digest_of(b) && !pl_streq(digest_of(a), digest_of(b));
}

/* Returns the first image of `list` whose digest differs from that of `image`, or NULL. */
static const json_t *other_than(const json_t *list, const json_t *image)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (differ(one, image))
            return one;
    }
    return NULL;
}

#define DIGEST_SHOWN "%.19s" /* shows "sha256:" and 12 digits of a digest */

/* Adds the warning that `image` had the two digests of `a` and `b`. In the warning, the text `where_a`
 * follows the first digest, and `where_b` the second. */
static int add_warning(json_t *warnings, const char *image, const json_t *a, const char *where_a, const json_t *b,
                       const char *where_b, struct pl_err *err)
{
    char text[400];

    snprintf(text, sizeof text, "%s%.100s: " DIGEST_SHOWN "%s " DIGEST_SHOWN "%s: %s; use a digest in the spec to pin it",
             *image ? "image " : "the default image", image, digest_of(a), where_a, digest_of(b), where_b,
             *image ? "its tag was moved" : "its tag was moved, or the default was changed");
    /* snprintf may have cut the text inside a UTF-8 character */
    return pl_json_add(warnings, json_string(pl_utf8_clean(text)), err);
}

/* Adds a warning if the name `image` had a digest other than that of `now` in the last attempt of the
 * previous job (job_before). */
static int warn_of_before(struct pl_conn *c, int64_t job, const char *image, const json_t *now, json_t *warnings,
                          struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = json_array();
    char run[PL_ID_HEX + 1], where[32];
    const json_t *before;
    int64_t id = 0;
    int r = job_before(c, job, image, &id, run, err);

    r = r <= 0 ? r : images_of(c, id, list, err);
    before = json_array_get(list, json_array_size(list) - 1);
    if (r < 0 || !differ(before, now))
        return r;
    snprintf(where, sizeof where, " in run %.8s,", run);
    return add_warning(warnings, image, before, where, now, " in this one", err);
}

/* Adds a warning if the image name `image` stood for two digests; at most one warning. `list` has the images
 * of the job, at least one. */
static int warn_of_tag(struct pl_conn *c, int64_t job, const char *image, const json_t *list, json_t *warnings,
                       struct pl_err *err)
{
    const json_t *first = json_array_get(list, 0), *other = other_than(list, first);

    if (strchr(image, '@'))
        return 0;
    return other ? add_warning(warnings, image, first, " and", other, " in this job", err)
                 : warn_of_before(c, job, image, first, warnings, err);
}

int pl_job_images_add(struct pl_conn *c, int64_t job, json_t *out, struct pl_err *err)
{
    _cleanup_free_ char *image = NULL;
    json_t *list = json_array();
    int r;

    if (json_object_set_new(out, "images", list) < 0)
        return pl_err_nomem(err);
    r = images_of(c, job, list, err);
    if (r < 0 || json_array_size(list) == 0)
        return r;
    r = pl_sql_text(
        c, err, &image,
        "SELECT coalesce(json_extract(s.spec, '$.image'), '') FROM job j JOIN stage s ON s.id = j.version WHERE j.id = ?", "i",
        job);
    if (r < 0)
        return r == PL_ENOTFOUND ? 0 : r; /* the job's pipeline was deleted, and its spec with it */
    return warn_of_tag(c, job, image, list, json_object_get(out, "warnings"), err);
}

int pl_job_image_of(struct pl_conn *c, int64_t job, const struct pl_hash *datum, char **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = json_array();
    int r = pl_sql_text(c, err, ret,
                        "SELECT json_extract(detail, '$.image_id') AS image FROM attempt WHERE job = ? AND datum = ?"
                        " AND state = 'success' AND image IS NOT NULL ORDER BY attempt DESC LIMIT 1",
                        "ib", job, datum->b, (size_t)PL_HASH_BYTES);

    if (r != PL_ENOTFOUND)
        return r;
    *ret = NULL;
    r = images_of(c, job, list, err);
    if (r < 0 || json_array_size(list) != 1)
        return r;
    *ret = strdup(json_string_value(json_array_get(list, 0)));
    return *ret ? 0 : pl_err_nomem(err);
}
