/* get file: streams a file to standard output, or writes files and folders to disk with several threads. */
#include "pipelined/cli/data/local_space.h"
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/progress.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/net/remote/remote.h"
#include "storage/dataset/checkout/checkout.h"
#include "storage/system/io.h"
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

struct get {
    struct pl_cli *c;
    struct pl_commit_ref ref;
    /* the part of the ref that names the commit, as the server's API expects it */
    char commit[PL_NAME_MAX_BYTES + 16];
    struct pl_http_client *client;
};

/* ---- to stdout ---- */

static int to_stdout(void *self, const void *data, size_t n, struct pl_err *err)
{
    _Atomic uint64_t *written = self;
    int r = pl_io_write(STDOUT_FILENO, data, n, "stdout", err);

    if (r == 0)
        atomic_fetch_add_explicit(written, n, memory_order_relaxed);
    return r;
}

/* Returns the size of the file; 0 if it is not known. */
static uint64_t file_bytes(struct get *g)
{
    _cleanup_free_ char *path =
        pl_http_path_make("/api/v1/repos/%s/%s/refs/%s/files/%p", g->ref.project, g->ref.repo, g->commit, g->ref.path);
    struct pl_http_call call = {.method = "HEAD", .path = path};
    struct pl_http_answer answer = {0};

    return path && pl_http_client_call(g->client, &call, &answer, NULL) == 0 ? strtoull(answer.content_length, NULL, 10) : 0;
}

static int get_to_stdout(struct get *g, struct pl_err *err)
{
    _cleanup_free_ char *path =
        pl_http_path_make("/api/v1/repos/%s/%s/refs/%s/files/%p", g->ref.project, g->ref.repo, g->commit, g->ref.path);
    _Atomic uint64_t written = 0;
    struct pl_cli_progress line = {0};
    struct pl_http_call call = {.method = "GET", .path = path, .write = to_stdout, .write_self = &written, .may_stall = true};
    int r;

    if (!path)
        return pl_err_nomem(err);
    if (!isatty(STDOUT_FILENO) && pl_cli_progress_seen(g->c)) { /* on a terminal the line would stand in the middle of the file */
        line.total_bytes = file_bytes(g);
        line.total_files = 1;
        pl_cli_progress_start(g->c, &line, "wrote", NULL, &written);
    }
    r = pl_http_client_call(g->client, &call, NULL, err);
    pl_cli_progress_stop(&line);
    return r;
}

/* ---- to a folder or file ---- */

/* entries whose chunks are located in one request, before the first of them is written */
#define LOCATE_AHEAD 4096u
#define NAMES_MAX    ((size_t)16 << 20) /* most bytes of the list of file names that --files-from gives */

/* An entry source that reads the server's ops stream. Before it returns an entry, it has requested the
 * locations of that entry's chunks. If `name` is set, the stream's single entry is returned under that name. */
struct renamed {
    /* reader of all entries of the stream */
    struct pl_entry_source all;
    const char *name; /* name that the single file gets; NULL = all entries keep their names */
    struct pl_remote *remote;
    /* a second reader of the same stream, which reads ahead of `all` to request the locations of the entries'
     * chunks */
    struct pl_tree_ops_reader ahead;
    size_t located; /* number of entries that `ahead` has read and `all` has not */
};

/* Locates the chunks of the next LOCATE_AHEAD entries. */
static int locate_ahead(struct renamed *s, struct pl_err *err)
{
    _cleanup_free_ struct pl_hash *ids = malloc(LOCATE_AHEAD * sizeof *ids);
    struct pl_tree_op op;
    size_t n = 0;
    int r = 1;

    if (!ids)
        return pl_err_nomem(err);
    while (s->located < LOCATE_AHEAD && (r = pl_tree_ops_reader_next(&s->ahead, &op, err)) > 0) {
        s->located++;
        if (op.op == PL_TREE_PUT && (op.entry.content == PL_CONTENT_CHUNK || op.entry.content == PL_CONTENT_LIST))
            ids[n++] = op.entry.id;
    }
    return r < 0 ? r : pl_remote_will_read(s->remote, ids, n, err);
}

static int next_renamed(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err)
{
    struct renamed *s = self;
    int r = pl_cli_interrupted() ? pl_err_set(err, PL_ECANCELED, "interrupted") : 0;

    if (r == 0 && s->located == 0)
        r = locate_ahead(s, err);
    r = r < 0 ? r : s->all.next(s->all.self, ret_path, ret_len, ret, err);
    s->located -= r > 0;
    if (r > 0 && s->name) {
        *ret_path = s->name;
        *ret_len = strlen(s->name);
    }
    return r;
}

static int to_buf(void *self, const void *data, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, data, n, err);
}

/* Reads the file that --files-from names ("-" = standard input) and drops its empty lines. */
static int read_names(const char *from, struct pl_buf *names, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = NAMES_MAX};
    bool stdin_ = pl_streq(from, "-");
    _cleanup_close_ int fd = stdin_ ? -1 : open(from, O_RDONLY | O_CLOEXEC);
    ssize_t n = 1;
    int r = 0;

    if (!stdin_ && fd < 0)
        return pl_err_errno(err, errno, "%s", from);
    while (n > 0 && (r = pl_buf_reserve(&text, 64 << 10, err)) == 0) {
        n = pl_io_read(stdin_ ? STDIN_FILENO : fd, text.data + text.len, 64 << 10, from, err);
        r = (int)PL_MIN(n, (ssize_t)0);
        text.len += (size_t)PL_MAX(n, (ssize_t)0);
    }
    for (size_t i = 0; r == 0 && i < text.len; i++)
        if (text.data[i] != '\n' || (names->len && names->data[names->len - 1] != '\n'))
            r = pl_buf_add_u8(names, text.data[i], err);
    return r;
}

/* Requests the entries below the path, or only those that --files-from names, as an ops stream. */
static int fetch_entries(struct get *g, struct pl_remote *remote, struct pl_buf *ops, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *commit = NULL;
    _cleanup_free_ char *path =
        pl_http_path_make("/api/v1/repos/%s/%s/commits/%s?pack=1", g->ref.project, g->ref.repo, g->commit);
    _cleanup_(pl_buf_finish) struct pl_buf names = {0};
    const char *from = pl_cli_value(g->c, "files-from");
    struct pl_hash root;
    int r = from ? read_names(from, &names, err) : 0;

    r = r < 0 ? r : pl_cli_call(g->c, "GET", path, NULL, &commit, err);
    r = r < 0 ? r : pl_hash_parse(pl_show_text_at(commit, "root"), &root, err);
    if (r == 0 && pl_hash_is_zero(&root))
        r = pl_err_set(err, PL_ENOTFOUND, "commit %s of %s is empty", g->commit, g->ref.repo);
    if (from)
        return r < 0 ? r : pl_remote_named_entries(remote, &root, g->ref.path, &names, ops, err);
    return r < 0 ? r : pl_remote_entries(remote, &root, g->ref.path, NULL, to_buf, ops, err);
}

/* Sets `*ret` to true if the requested path is a single file: then the stream has exactly one entry, and its
 * name is the last segment of the path. */
static int is_single(const struct get *g, const struct pl_buf *ops, bool *ret, struct pl_err *err)
{
    const char *slash = strrchr(g->ref.path, '/'), *name = slash ? slash + 1 : g->ref.path;
    struct pl_tree_ops_reader reader;
    struct pl_tree_op first, second;
    int r = pl_tree_ops_reader_init(&reader, ops->data, ops->len, err), more;

    r = r < 0 ? r : pl_tree_ops_reader_next(&reader, &first, err);
    more = r > 0 ? pl_tree_ops_reader_next(&reader, &second, err) : r;
    if (r < 0 || more < 0)
        return PL_MIN(r, more);
    *ret = r > 0 && more == 0 && first.path_len == strlen(name) && memcmp(first.path, name, first.path_len) == 0 &&
           first.entry.kind != PL_KIND_DIR && *g->ref.path;
    return 0;
}

/* The entries of a stream that are to be written to a folder. */
struct entries {
    const struct pl_buf *ops;
    const char *dest;
    uint64_t files, bytes;
};

/* Adds up the entries. */
static int entries_measure(struct entries *e, struct pl_err *err)
{
    struct pl_tree_ops_reader reader;
    struct pl_tree_op op;
    int r = pl_tree_ops_reader_init(&reader, e->ops->data, e->ops->len, err);

    r = r < 0 ? r : 1;
    while (r > 0 && (r = pl_tree_ops_reader_next(&reader, &op, err)) > 0) {
        if (op.op != PL_TREE_PUT || op.entry.kind == PL_KIND_DIR)
            continue;
        e->files++;
        e->bytes += op.entry.size;
    }
    return r;
}

/* Returns the space of the files that the entries replace. */
static uint64_t entries_replaced(void *self)
{
    const struct entries *e = self;
    struct pl_tree_ops_reader reader;
    char path[PATH_MAX];
    struct pl_tree_op op;
    uint64_t bytes = 0;
    struct stat st;

    if (pl_tree_ops_reader_init(&reader, e->ops->data, e->ops->len, NULL) < 0)
        return 0;
    while (pl_tree_ops_reader_next(&reader, &op, NULL) > 0)
        if (op.op == PL_TREE_PUT &&
            snprintf(path, sizeof path, "%s/%.*s", e->dest, (int)op.path_len, op.path) < (int)sizeof path &&
            lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
            bytes += (uint64_t)st.st_blocks * 512;
    return bytes;
}

/* Writes the entries of the stream below `dest`; its single entry, if `name` is set, under that name. */
static int run_checkout(struct get *g, struct pl_remote *remote, const struct pl_buf *ops, const char *dest, const char *name,
                        struct pl_checkout_stats *stats, struct pl_err *err)
{
    struct entries sum = {.ops = ops, .dest = dest};
    struct pl_chunk_reader chunks = pl_remote_reader(remote);
    struct pl_checkout_progress progress = {0};
    struct pl_checkout_options options = {.replace = true, .own = true, .progress = &progress, .canceled = pl_cli_interrupted};
    struct pl_cli_progress line = {0};
    struct renamed names = {.name = name, .remote = remote};
    struct pl_entry_source entries = {&names, next_renamed};
    struct pl_tree_ops_reader reader;
    int r = pl_tree_ops_reader_init(&reader, ops->data, ops->len, err);

    r = r < 0 ? r : pl_tree_ops_reader_init(&names.ahead, ops->data, ops->len, err);
    r = r < 0 ? r : entries_measure(&sum, err);
    /* a single file is written beside the one that it replaces */
    if (r == 0 && !pl_cli_flag(g->c, "no-space-check"))
        r = pl_local_space_check(dest, sum.files, sum.bytes, name ? NULL : entries_replaced, &sum, err);
    if (r < 0)
        return r;
    line.total_files = sum.files;
    line.total_bytes = sum.bytes;
    names.all = pl_entry_source_ops(&reader);
    pl_cli_progress_start(g->c, &line, "wrote", &progress.files, &progress.bytes);
    r = pl_checkout(&entries, &chunks, dest, &options, stats, err);
    pl_cli_progress_stop(&line);
    return r;
}

/* Writes a single file under a temporary name in the target's folder, then renames it to its final name. */
static int get_single(struct get *g, struct pl_remote *remote, const struct pl_buf *ops, const char *local,
                      struct pl_checkout_stats *stats, struct pl_err *err)
{
    const char *slash = strrchr(local, '/');
    char folder[PATH_MAX], name[64], temp[PATH_MAX];
    int r;

    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - local) : 1, slash ? local : ".");
    if (slash == local)
        snprintf(folder, sizeof folder, "/");
    snprintf(name, sizeof name, ".pipelinectl-%d", (int)getpid());
    if (snprintf(temp, sizeof temp, "%s/%s", folder, name) >= (int)sizeof temp)
        return pl_err_set(err, PL_EPATH, "the path %s is too long", local);
    pl_cli_remove_on_interrupt(temp);
    r = run_checkout(g, remote, ops, folder, name, stats, err);
    r = r < 0 ? r : pl_io_rename(temp, local, err);
    if (r < 0)
        unlink(temp);
    pl_cli_remove_on_interrupt(NULL);
    return r;
}

/* Sets the local path to which a single file is written. If the value of -o is a folder, the file keeps its
 * name in that folder; else the value is the path itself. */
static int local_name(const struct get *g, const char *out, char ret[PATH_MAX], struct pl_err *err)
{
    const char *slash = strrchr(g->ref.path, '/'), *name = slash ? slash + 1 : g->ref.path;
    struct stat st;
    size_t len = strlen(out);
    bool folder = len && (out[len - 1] == '/' || (stat(out, &st) == 0 && S_ISDIR(st.st_mode)));
    int n = folder ? snprintf(ret, PATH_MAX, "%s%s%s", out, out[len - 1] == '/' ? "" : "/", name)
                   : snprintf(ret, PATH_MAX, "%s", out);

    return n < PATH_MAX ? 0 : pl_err_set(err, PL_EPATH, "the path %s is too long", out);
}

static int get_to_disk(struct get *g, const char *out, struct pl_err *err)
{
    _cleanup_(pl_remote_closep) struct pl_remote *remote = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {.max = (size_t)4 << 30};
    struct pl_checkout_stats stats = {0};
    char local[PATH_MAX], size[32];
    bool single = false, named = pl_cli_value(g->c, "files-from");
    int r = pl_remote_open(g->client, g->ref.project, &remote, err);

    r = r < 0 ? r : fetch_entries(g, remote, &ops, err);
    if (r == 0 && !named)
        r = is_single(g, &ops, &single, err);
    if (r < 0)
        return r;
    if (!single && !named && !pl_cli_flag(g->c, "recursive"))
        return pl_err_set(err, PL_EUSAGE, "/%s is a folder: give -r", g->ref.path);
    if (single) {
        r = local_name(g, out, local, err);
        r = r < 0 ? r : get_single(g, remote, &ops, local, &stats, err);
    } else {
        pl_cli_note_interrupt();
        snprintf(local, sizeof local, "%s", out);
        r = run_checkout(g, remote, &ops, out, NULL, &stats, err);
    }
    if (r < 0)
        return r;
    if (g->c->json)
        printf("{\"files\": %llu, \"bytes\": %llu}\n", (unsigned long long)stats.files, (unsigned long long)stats.bytes);
    pl_show_say(g->c, "%llu file%s, %s, in %s\n", (unsigned long long)stats.files, stats.files == 1 ? "" : "s",
                pl_size_text(stats.bytes, size), local);
    return 0;
}

static int get_file(struct pl_cli *c, struct pl_err *err)
{
    const char *out = pl_cli_value(c, "output");
    bool recursive = pl_cli_flag(c, "recursive") || pl_cli_value(c, "files-from");
    struct get g = {.c = c};
    int r = pl_cli_ref(c, c->args[0], &g.ref, err);

    r = r < 0 ? r : pl_cli_client(c, &g.client, err);
    if (r < 0)
        return r;
    pl_cli_ref_text(&g.ref, g.commit);
    if (recursive && (!out || pl_streq(out, "-")))
        return pl_err_set(err, PL_EUSAGE, "a folder cannot go to stdout: give -o FOLDER");
    if (!*g.ref.path && !recursive)
        return pl_err_set(err, PL_EUSAGE, "get what? Give %s:/PATH, or -r -o FOLDER for all files", c->args[0]);
    return !out || pl_streq(out, "-") ? get_to_stdout(&g, err) : get_to_disk(&g, out, err);
}

static const struct pl_option options[] = {
    {"output", 'o', "LOCAL", "file or folder to write, replacing existing files; - for stdout (default)"},
    {"recursive", 'r', NULL, "get a folder with everything in it"},
    {"files-from", 0, "FILE", "get only the files of a folder that FILE names, one per line (- for stdin)"},
    {"no-space-check", 0, NULL, "write even if the files are larger than the free space of the disk"},
    {0},
};

static const struct pl_verb verbs[] = {
    {"get",
     "file",
     "REPO@REF:/PATH [-r | --files-from FILE] [-o LOCAL]",
     1,
     1,
     options,
     get_file,
     "Gets a file, or with -r a folder.",
     {"get file report@master:/confusion.png -o confusion.png", "get file digits@master^:/train -r -o train",
      "get file images@master:/ --files-from chosen.txt -o images"}},
};
PL_CLI_TABLE(get, verbs);
