/* Expands PL_RECORD_MAP of log_record.h to an array of record kinds. */
#include "storage/dataset/log/log_record.h"

#include <string.h>

struct record_row {
    uint16_t kind;
    const char *name, *fields, *meaning;
};

static const struct record_row rows[] = {
#define PL_RECORD_ROW(name, number, wire, fields, meaning) {number, wire, fields, meaning},
    PL_RECORD_MAP(PL_RECORD_ROW)
#undef PL_RECORD_ROW
};

static const struct record_row *row_of(uint16_t kind)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        if (rows[i].kind == kind)
            return &rows[i];
    return NULL;
}

const char *pl_record_name(uint16_t kind)
{
    const struct record_row *row = row_of(kind);

    return row ? row->name : NULL;
}

const char *pl_record_fields(uint16_t kind)
{
    const struct record_row *row = row_of(kind);

    return row ? row->fields : NULL;
}

/* Formats "a b?" as "`a`, `b` (may be absent)". */
static int add_fields(struct pl_buf *out, const char *fields, struct pl_err *err)
{
    int r = 0;

    for (const char *p = fields; r == 0 && *p;) {
        size_t len = strcspn(p, " ");
        bool optional = p[len - 1] == '?';

        r = pl_buf_addf(out, err, "%s`%.*s`%s", p == fields ? "" : ", ", (int)(len - optional), p,
                        optional ? " (may be absent)" : "");
        p += len + (p[len] == ' ');
    }
    return r;
}

int pl_record_markdown(struct pl_buf *out, struct pl_err *err)
{
    int r = pl_buf_add_str(out, "| kind | name | fields | meaning |\n|---|---|---|---|\n", err);

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(rows); i++) {
        r = pl_buf_addf(out, err, "| %u | `%s` | ", rows[i].kind, rows[i].name);
        r = r < 0 ? r : add_fields(out, rows[i].fields, err);
        r = r < 0 ? r : pl_buf_addf(out, err, "%s| %s |\n", *rows[i].fields ? " " : "", rows[i].meaning);
    }
    return r;
}
