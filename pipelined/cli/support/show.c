/* Output of pipelinectl: formats values; prints tables, objects and paged lists. Text that the server sent is
 * freed of control characters before it reaches a terminal. */
#include "pipelined/cli/support/show.h"

#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/system/io.h"
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

#define PAGE_LIMIT 1000u

/* ---- values ---- */

const json_t *pl_show_at(const json_t *item, const char *key)
{
    while (item && *key) {
        size_t len = strcspn(key, ".");

        item = json_object_getn(item, key, len);
        key += len + (key[len] == '.');
    }
    return item;
}

const char *pl_show_text_at(const json_t *item, const char *key)
{
    const char *text = json_string_value(pl_show_at(item, key));

    return text ? text : "";
}

const char *pl_show_project_of(const json_t *item, const char *project, char out[PL_SHOW_PROJECT_MAX])
{
    const char *of = pl_show_text_at(item, "project");

    snprintf(out, PL_SHOW_PROJECT_MAX, "%.51s%s", *of && !pl_streq(of, project) ? of : "",
             *of && !pl_streq(of, project) ? "/" : "");
    return out;
}

json_int_t pl_show_int_at(const json_t *item, const char *key)
{
    return json_integer_value(pl_show_at(item, key));
}

char *pl_show_clean(const char *text, char *out, size_t size)
{
    size_t n = 0;

    for (; *text && n + 1 < size; text++) {
        unsigned char b = (unsigned char)*text, next = (unsigned char)text[1];

        /* terminals obey the characters U+0080 to U+009F like sequences that begin with ESC */
        if (b == 0xc2 && next >= 0x80 && next <= 0x9f) {
            out[n++] = '?';
            text++;
        } else if (b == '\n' || b == '\t') {
            out[n++] = ' ';
        } else {
            out[n++] = b < 0x20 || b == 0x7f ? '?' : (char)b;
        }
    }
    /* remove a UTF-8 character that the cut has left incomplete */
    while (n && *text && (out[n - 1] & 0xc0) == 0x80)
        n--;
    out[n] = '\0';
    return out;
}

/* A state machine over bytes. `held` keeps a CR or a byte 0xC2 until the next byte shows what it means;
 * `rest` counts the continuation bytes that the current UTF-8 character still needs. */
size_t pl_show_clean_bytes(struct pl_show_text *t, const void *data, size_t n, char *out)
{
    const uint8_t *in = data;
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        const uint8_t b = in[i], held = t->held;
        const bool follows = (b & 0xc0) == 0x80;

        t->held = 0;
        if (held == '\r') {
            out[len++] = '\n';
            if (b == '\n')
                continue;
        } else if (held && b >= 0x80 && b <= 0x9f) {
            out[len++] = '?';
            continue;
        } else if (held) {
            out[len++] = (char)held;
            t->rest = 1;
        }
        /* a terminal that does not use UTF-8 would obey a lone continuation byte as a control character */
        if (follows) {
            out[len++] = t->rest ? (char)b : '?';
            t->rest -= t->rest > 0;
            continue;
        }
        t->rest = b >= 0xf0 ? 3 : b >= 0xe0 ? 2 : b >= 0xc0 ? 1 : 0;
        if (b == '\r' || b == 0xc2)
            t->held = b;
        else
            out[len++] = (b < 0x20 && b != '\n' && b != '\t') || b == 0x7f ? '?' : (char)b;
    }
    return len;
}

int pl_show_write(struct pl_show_text *t, const void *data, size_t n, struct pl_err *err)
{
    _cleanup_free_ char *clean = NULL;

    if (!isatty(STDOUT_FILENO))
        return pl_io_write(STDOUT_FILENO, data, n, "stdout", err);
    clean = malloc(n + 1);
    return clean ? pl_io_write(STDOUT_FILENO, clean, pl_show_clean_bytes(t, data, n, clean), "stdout", err) : pl_err_nomem(err);
}

static void print_clean(FILE *to, const char *fmt, va_list args) PL_PRINTF(2, 0);
static void print_clean(FILE *to, const char *fmt, va_list args)
{
    _cleanup_free_ char *text = NULL, *clean = NULL;
    struct pl_show_text t = {0};
    int n = vasprintf(&text, fmt, args);

    if (n < 0)
        text = NULL;
    else if (!isatty(fileno(to)))
        fwrite(text, 1, (size_t)n, to);
    else if ((clean = malloc((size_t)n + 1)) != NULL)
        fwrite(clean, 1, pl_show_clean_bytes(&t, text, (size_t)n, clean), to);
}

void pl_show_print(FILE *to, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_clean(to, fmt, args);
    va_end(args);
}

static void show_plain(const json_t *value, char out[PL_SHOW_TEXT_MAX])
{
    if (json_is_string(value))
        pl_show_clean(json_string_value(value), out, PL_SHOW_TEXT_MAX);
    else if (json_is_integer(value))
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        snprintf(out, PL_SHOW_TEXT_MAX, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_array(value)) {
        size_t n = 0, i;
        const json_t *one;

        *out = '\0';
        json_array_foreach(value, i, one)
        {
            char text[PL_SHOW_TEXT_MAX];

            if (json_is_string(one) && n < PL_SHOW_TEXT_MAX)
                n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%s", i ? ", " : "",
                                      pl_show_clean(json_string_value(one), text, sizeof text));
        }
    } else {
        *out = '\0';
    }
}

void pl_show_id(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.8s", json_is_string(value) ? json_string_value(value) : "");
}

void pl_show_size(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    *out = '\0';
    if (json_is_integer(value))
        pl_size_text((uint64_t)json_integer_value(value), out);
}

void pl_show_time(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    time_t at = (time_t)(json_integer_value(value) / 1000000);
    struct tm tm;

    (void)item;
    *out = '\0';
    if (json_is_integer(value) && localtime_r(&at, &tm))
        strftime(out, PL_SHOW_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &tm);
}

void pl_show_ago(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    int64_t s = (pl_clock_wall_us() - json_integer_value(value)) / 1000000;

    (void)item;
    *out = '\0';
    if (!json_is_integer(value) || json_integer_value(value) == 0)
        return;
    if (s < 120)
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld s ago", (long long)PL_MAX(s, 0));
    else if (s < 7200)
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld min ago", (long long)s / 60);
    else if (s < 172800)
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld h ago", (long long)s / 3600);
    else
        snprintf(out, PL_SHOW_TEXT_MAX, "%lld days ago", (long long)s / 86400);
}

void pl_show_keep(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *name;
    json_t *number;
    size_t n = 0;

    (void)item;
    snprintf(out, PL_SHOW_TEXT_MAX, "%s", json_is_object(value) ? "all" : "");
    json_object_foreach((json_t *)value, name, number)
    {
        n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%.40s=%lld", n ? "," : "", name,
                              (long long)json_integer_value(number));
        if (n > PL_SHOW_TEXT_MAX / 2)
            break;
    }
}

void pl_show_ms(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    (void)item;
    *out = '\0';
    if (json_is_integer(value))
        pl_duration_text(json_integer_value(value), out);
}

void pl_show_origin(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *message = pl_show_text_at(value, "message");

    (void)item;
    *out = '\0';
    if (!value)
        return;
    snprintf(out, PL_SHOW_TEXT_MAX, "%.12s of source %s, %s: %.*s (%s)", pl_show_text_at(value, "commit"),
             pl_show_text_at(value, "source"), pl_show_text_at(value, "path"), (int)strcspn(message, "\n"), message,
             pl_show_text_at(value, "author"));
}

void pl_show_took(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    json_int_t from = pl_show_int_at(item, "started_us"), to = pl_show_int_at(item, "finished_us");

    (void)value;
    if (from == 0)
        from = pl_show_int_at(item, "created_us");
    if (to == 0)
        to = pl_clock_wall_us();
    pl_duration_text(PL_MAX(to - from, 0) / 1000, out);
}

void pl_show_job_state(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    const char *state = json_string_value(value);
    json_int_t failed = pl_show_int_at(item, "datums.failed") + pl_show_int_at(item, "datums.recovered");

    if (state && pl_streq(state, "success") && failed)
        snprintf(out, PL_SHOW_TEXT_MAX, "success (%lld failed)", (long long)failed);
    else
        snprintf(out, PL_SHOW_TEXT_MAX, "%s", state ? state : "");
}

void pl_show_datums(const json_t *value, const json_t *item, char out[PL_SHOW_TEXT_MAX])
{
    static const struct {
        const char *key, *word;
    } parts[] = {
        {"reused", "reused"}, {"failed", "failed"}, {"recovered", "recovered"}, {"leased", "running"}, {"waiting", "waiting"}};
    size_t n = (size_t)snprintf(out, PL_SHOW_TEXT_MAX, "%lld", (long long)pl_show_int_at(value, "total")), shown = 0;

    (void)item;
    for (size_t i = 0; i < PL_ARRAY_SIZE(parts); i++) {
        json_int_t k = pl_show_int_at(value, parts[i].key);

        if (k)
            n += (size_t)snprintf(out + n, PL_SHOW_TEXT_MAX - n, "%s%lld %s", shown++ ? ", " : " (", (long long)k, parts[i].word);
    }
    if (shown)
        snprintf(out + n, PL_SHOW_TEXT_MAX - n, ")");
}

static void cell_text(const json_t *item, const struct pl_column *column, char out[PL_SHOW_TEXT_MAX])
{
    const json_t *value = pl_show_at(item, column->key);

    if (column->text) {
        column->text(value, item, out);
        /* the text may come from another user: print it without control characters */
        pl_show_clean(out, out, PL_SHOW_TEXT_MAX);
    } else {
        show_plain(value, out);
    }
}

/* ---- terminal ---- */

static size_t terminal_width(void)
{
    struct winsize size;

    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return SIZE_MAX;
    return size.ws_col;
}

static bool coloured(void)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");

    return isatty(STDOUT_FILENO) && (!no || !*no) && term && !pl_streq(term, "dumb");
}

static const char *colour_of(const char *text)
{
    static const struct {
        const char *word, *colour;
    } words[] = {{"success", "\033[32m"}, {"failure", "\033[31m"},   {"failed", "\033[31m"},
                 {"killed", "\033[35m"},  {"running", "\033[33m"},   {"starting", "\033[33m"},
                 {"created", "\033[33m"}, {"finishing", "\033[33m"}, {"unrunnable", "\033[31m"}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(words); i++)
        if (pl_streq(words[i].word, text))
            return words[i].colour;
    return NULL;
}

/* Returns the number of terminal columns of a text: one for each character. Wide characters would need two,
 * but names of repos and stages have none. */
static size_t text_width(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void print_padded(const char *text, size_t width, size_t room, bool last, bool colour)
{
    const char *on = colour ? colour_of(text) : NULL;
    size_t shown = 0;
    const char *end = text;

    for (; *end && (shown < room || ((unsigned char)*end & 0xc0) == 0x80); end++)
        shown += ((unsigned char)*end & 0xc0) != 0x80;
    printf("%s%.*s%s", on ? on : "", (int)(end - text), text, on ? "\033[0m" : "");
    for (; !last && shown < width && shown < room; shown++)
        putchar(' ');
}

/* ---- tables ---- */

struct table {
    char **cells; /* texts of the cells, row by row, `n` to a row */
    size_t rows, n;
    size_t *widths;
};

static void table_finish(struct table *t)
{
    for (size_t i = 0; t->cells && i < t->rows * t->n; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t->widths);
}

static void print_row(const struct table *t, size_t row, const struct pl_column *titles, size_t width, bool colour)
{
    size_t used = 0, last = 0;

    for (size_t k = 0; k < t->n; k++)
        if (titles ? *titles[k].title : *t->cells[row * t->n + k])
            last = k;
    for (size_t k = 0; k <= last && used < width; k++) {
        print_padded(titles ? titles[k].title : t->cells[row * t->n + k], t->widths[k], width - used, k == last,
                     colour && !titles);
        used += t->widths[k];
        if (k < last && used + 2 < width)
            fputs("  ", stdout);
        used += 2;
    }
    putchar('\n');
}

/* Formats all cells first, which gives the width of each column, then prints the rows. */
int pl_show_table(const json_t *items, const struct pl_column *columns, size_t n, bool with_titles, struct pl_err *err)
{
    _cleanup_(table_finish) struct table t = {.rows = json_array_size(items), .n = n};
    char text[PL_SHOW_TEXT_MAX];
    bool colour = coloured();
    size_t width = terminal_width();

    t.cells = calloc(t.rows * n + 1, sizeof *t.cells);
    t.widths = calloc(n + 1, sizeof *t.widths);
    if (!t.cells || !t.widths)
        return pl_err_nomem(err);
    for (size_t k = 0; k < n; k++)
        t.widths[k] = with_titles ? text_width(columns[k].title) : 0;
    for (size_t i = 0; i < t.rows; i++) {
        for (size_t k = 0; k < n; k++) {
            cell_text(json_array_get(items, i), &columns[k], text);
            t.cells[i * n + k] = strdup(text);
            if (!t.cells[i * n + k])
                return pl_err_nomem(err);
            t.widths[k] = PL_MAX(t.widths[k], text_width(text));
        }
    }
    if (with_titles)
        print_row(&t, 0, columns, width, false);
    for (size_t i = 0; i < t.rows; i++)
        print_row(&t, i, NULL, width, colour);
    return 0;
}

size_t pl_show_json_flags(FILE *to)
{
    return isatty(fileno(to)) ? JSON_ENSURE_ASCII : 0;
}

int pl_show_json(const json_t *value, struct pl_err *err)
{
    size_t flags = JSON_ENCODE_ANY | pl_show_json_flags(stdout) | (isatty(STDOUT_FILENO) ? JSON_INDENT(2) : 0);

    if (json_dumpf(value, stdout, flags) < 0 || putchar('\n') == EOF)
        return pl_err_errno(err, errno, "write to stdout");
    return 0;
}

int pl_show_object(const struct pl_cli *c, const json_t *item, const struct pl_column *columns, size_t n, struct pl_err *err)
{
    char text[PL_SHOW_TEXT_MAX];
    size_t width = 0;

    if (c->json)
        return pl_show_json(item, err);
    for (size_t k = 0; k < n; k++)
        width = PL_MAX(width, text_width(columns[k].title));
    for (size_t k = 0; k < n; k++) {
        cell_text(item, &columns[k], text);
        if (!*text)
            continue;
        print_padded(columns[k].title, width + 2, SIZE_MAX, false, false);
        print_padded(text, 0, SIZE_MAX, true, coloured());
        putchar('\n');
    }
    return 0;
}

/* ---- lists ---- */

struct listing {
    struct pl_cli *c;
    const char *path, *key, *empty;
    const struct pl_column *columns;
    size_t n;
    uint64_t limit, shown;
    bool begun; /* at least one page of the list has been printed */
    bool more;  /* the limit ended the list, and there is more */
    char *after;
};

static int ask_page(struct listing *l, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf url = {0};
    uint64_t want = l->limit ? PL_MIN(l->limit - l->shown, PAGE_LIMIT) : PAGE_LIMIT;
    int r = pl_buf_addf(&url, err, "%s%climit=%llu", l->path, strchr(l->path, '?') ? '&' : '?', (unsigned long long)want);

    if (r == 0 && l->after) {
        r = pl_buf_add_str(&url, "&after=", err);
        r = r < 0 ? r : pl_http_escape(&url, l->after, false, err);
    }
    return r < 0 ? r : pl_cli_call(l->c, "GET", pl_buf_str(&url), NULL, ret, err);
}

static int print_json_items(struct listing *l, const json_t *items, struct pl_err *err)
{
    const json_t *one;
    size_t i;

    if (!l->begun)
        printf("{\"%s\": [", l->key);
    json_array_foreach(items, i, one)
    {
        fputs(l->shown + i ? ",\n" : "\n", stdout);
        if (json_dumpf(one, stdout, JSON_COMPACT | pl_show_json_flags(stdout)) < 0)
            return pl_err_errno(err, errno, "write to stdout");
    }
    return 0;
}

static int show_page(struct listing *l, const json_t *page, struct pl_err *err)
{
    const json_t *items = json_object_get(page, l->key);
    const char *next = json_string_value(json_object_get(page, "next"));
    int r;

    if (!json_is_array(items))
        return pl_err_set(err, PL_EPROTO, "the server's answer has no list \"%s\"", l->key);
    if (l->c->json)
        r = print_json_items(l, items, err);
    else
        r = json_array_size(items) ? pl_show_table(items, l->columns, l->n, l->shown == 0, err) : 0;
    l->begun = true;
    l->shown += json_array_size(items);
    free(l->after);
    l->more = next && l->limit && l->shown >= l->limit;
    l->after = next && !l->more ? strdup(next) : NULL;
    return r;
}

/* Tells the user who gave no limit that the list goes on: on stderr, which pipes do not take for an item. */
static void say_more(const struct listing *l)
{
    const struct pl_option *o = l->c->verb->options;

    if (!l->more || l->c->quiet || pl_cli_value(l->c, "limit"))
        return;
    while (o && o->name && strcmp(o->name, "all") != 0)
        o++;
    fprintf(stderr, "there are more than these %llu: --limit N lists N of them%s\n", (unsigned long long)l->shown,
            o && o->name ? ", --all lists all" : "");
}

int pl_show_list(struct pl_cli *c, const char *path, const char *key, const struct pl_column *columns, size_t n, uint64_t limit,
                 const char *empty, struct pl_err *err)
{
    struct listing l = {.c = c, .path = path, .key = key, .columns = columns, .n = n, .limit = limit};
    int r = path ? 0 : pl_err_nomem(err);

    do {
        _cleanup_(json_decrefp) json_t *page = NULL;

        r = r < 0 ? r : ask_page(&l, &page, err);
        r = r < 0 ? r : show_page(&l, page, err);
    } while (r == 0 && l.after);
    free(l.after);
    if (r == 0 && c->json)
        puts(l.shown ? "\n]}" : "]}");
    else if (r == 0 && l.shown == 0 && empty && !c->quiet)
        fprintf(stderr, "%s\n", empty);
    if (r == 0)
        say_more(&l);
    return r;
}

/* ---- messages ---- */

void pl_show_say(const struct pl_cli *c, const char *fmt, ...)
{
    va_list args;

    if (c->quiet || c->json)
        return;
    va_start(args, fmt);
    print_clean(stdout, fmt, args);
    va_end(args);
}

int pl_show_delete(struct pl_cli *c, const char *path, const char *kind, const char *name, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *done = NULL;
    int r = pl_cli_call(c, "DELETE", path, NULL, NULL, err);

    if (r < 0)
        return r;
    pl_show_say(c, "%s %s deleted\n", kind, name);
    done = json_pack("{s:s++}", "deleted", kind, " ", name);
    return c->json ? pl_show_json(done, err) : 0;
}

int pl_show_flush(struct pl_err *err)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return pl_err_errno(err, errno ? errno : EIO, "write to stdout");
    return 0;
}
