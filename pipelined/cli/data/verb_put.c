/* put file: sends a single small file in one request. Reads all other input, splits it into chunks and packs
 * them on this machine, with all cores; then uploads the packs and sends an ops stream that makes the
 * commit. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/progress.h"
#include "pipelined/cli/support/push_ops.h"
#include "pipelined/cli/support/run_wait.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"

#include "pipelined/net/remote/remote.h"
#include "pipelined/net/remote/retrying_sink.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/system/io.h"
#include <fcntl.h>
#include <stdio.h>

#define SMALL_BYTES (256u << 10) /* files up to this size are sent in one request */

struct put {
    struct pl_cli *c;
    struct pl_cli_push push;
    /* the local files and folders to put; `n` is their number */
    struct pl_ingest_source *sources;
    size_t n;
    /* the destination of each source: a path in the repo */
    char (*dests)[PL_PATH_MAX_BYTES + 1];
    bool folders; /* at least one of the sources is a folder */
    /* the only source is standard input */
    bool stdin_;
    struct pl_buf head; /* first bytes of the input, which are read to find out whether the input is small */
    /* number of bytes of `head` that read_stdin has already returned */
    size_t head_used;
    struct pl_ingest_progress read; /* what has been found, then what has been read */
    struct pl_ingest_size size;     /* of the sources; zero for standard input */
    /* the server's reply to the push */
    json_t *answer;
};

static void put_finish(struct put *p)
{
    free(p->sources);
    free(p->dests);
    pl_buf_finish(&p->head);
    json_decref(p->answer);
}

/* ---- sources and destinations ---- */

static const char *last_segment(const char *local, size_t *ret_len)
{
    size_t end = strlen(local), start;

    while (end > 1 && local[end - 1] == '/')
        end--;
    for (start = end; start > 0 && local[start - 1] != '/'; start--)
        ;
    *ret_len = end - start;
    return local + start;
}

/* Sets the destination of source number i. With `below`, a file is stored under its own name in the folder
 * that the target path names; without it, the target path is the file's new path. The content of a folder
 * goes into the target path. */
static int set_dest(struct put *p, size_t i, bool folder, bool below, struct pl_err *err)
{
    const char *path = p->push.to.path, *name;
    char *dest = p->dests[i];
    size_t len;
    int n;

    if (folder || !below) {
        snprintf(dest, sizeof p->dests[i], "%s", path);
        return 0;
    }
    name = last_segment(p->sources[i].local, &len);
    if (len == 0 || (len <= 2 && strncmp(name, "..", len) == 0))
        return pl_err_set(err, PL_EUSAGE, "%s has no file name: give one in the target, as in REPO@BRANCH:/PATH",
                          p->sources[i].local);
    n = snprintf(dest, sizeof p->dests[i], "%s%s%.*s", path, *path ? "/" : "", (int)len, name);
    return n < (int)sizeof p->dests[i] ? 0 : pl_err_set(err, PL_EPATH, "/%s/%.*s is too long", path, (int)PL_MIN(len, 255), name);
}

static int add_source(struct put *p, const char *local, bool below, struct pl_err *err)
{
    size_t i = p->n++;
    struct stat st;

    p->sources[i] = (struct pl_ingest_source){.local = local, .dest = p->dests[i]};
    if (pl_streq(local, "-")) {
        p->stdin_ = true;
        snprintf(p->dests[i], sizeof p->dests[i], "%s", p->push.to.path);
        return 0;
    }
    if (stat(local, &st) < 0)
        return pl_err_errno(err, errno, "%s", local);
    if (S_ISDIR(st.st_mode) && !pl_cli_flag(p->c, "recursive"))
        return pl_err_set(err, PL_EUSAGE, "%s is a folder: give -r", local);
    p->folders |= S_ISDIR(st.st_mode);
    return set_dest(p, i, S_ISDIR(st.st_mode), below, err);
}

/* Collects the sources from the --file options and the arguments. A file is stored below the target path if
 * that path is empty or ends with '/', or if there are several sources. */
static int read_sources(struct put *p, struct pl_err *err)
{
    struct pl_cli *c = p->c;
    size_t n_options = pl_cli_value_count(c, "file"), n = n_options + c->n_args - 1;
    const char *target = c->args[0], *path = strchr(target, ':');
    bool below = !*p->push.to.path || target[strlen(target) - 1] == '/' || n > 1;
    int r = 0;

    if (n == 0)
        return pl_err_set(err, PL_EUSAGE, "put what? Give -f FILE, -r -f FOLDER, or -f - for standard input");
    p->sources = calloc(n, sizeof *p->sources);
    p->dests = calloc(n, sizeof *p->dests);
    if (!p->sources || !p->dests)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n && r == 0; i++)
        r = add_source(p, i < n_options ? pl_cli_value_at(c, "file", i) : c->args[1 + i - n_options], below, err);
    if (r == 0 && p->stdin_ && (n > 1 || below))
        r = pl_err_set(err, PL_EUSAGE, "standard input is one file and needs a name: put file %.*s:/PATH -f -",
                       (int)(path ? path - target : (long)strlen(target)), target);
    return r;
}

/* ---- one small file ---- */

/* Reads at most SMALL_BYTES + 1 bytes of a file. Returns 1 if that was the whole file, 0 if the file is
 * larger, or a negative error code. */
static int read_small(int fd, const char *what, struct pl_buf *out, struct pl_err *err)
{
    ssize_t n;
    int r = pl_buf_reserve(out, SMALL_BYTES + 1, err);

    if (r < 0)
        return r;
    n = pl_io_read(fd, out->data, SMALL_BYTES + 1, what, err);
    if (n < 0)
        return (int)n;
    out->len = (size_t)n;
    return n <= (ssize_t)SMALL_BYTES;
}

/* Sends a request and repeats it after lost connections. A push may be repeated, because the second one
 * changes nothing. A push with --base is not repeated: if the first attempt succeeded, the second one would
 * conflict with it. */
static int call_patiently(struct put *p, struct pl_http_client *client, struct pl_http_call *call, struct pl_err *err)
{
    struct pl_retrying_sink patient;
    unsigned pause_ms = 0;
    struct pl_err why;

    pl_cli_push_retry_policy(p->c, &patient);
    do {
        why = (struct pl_err){0};
        pl_buf_clear(call->out);
        why.code = pl_http_client_call(client, call, NULL, &why);
    } while (why.code < 0 && !p->push.base && pl_retrying_sink_retry(&patient, &why, &pause_ms));
    if (why.code < 0 && err)
        *err = why;
    return why.code;
}

static int send_small(struct put *p, const struct pl_buf *bytes, bool exec, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf url = {0}, out = {0};
    struct pl_http_call call = {.method = "PUT", .upload = PL_UPLOAD_BYTES, .bytes = bytes->data, .len = bytes->len, .out = &out};
    struct pl_http_client *client;
    int r = pl_cli_client(p->c, &client, err);

    r = r < 0 ? r : pl_cli_push_url(&p->push, p->sources[0].dest, &url, err);
    r = r < 0 || !exec ? r : pl_buf_add_str(&url, "&exec=1", err);
    if (r < 0)
        return r;
    call.path = pl_buf_str(&url);
    if (!call.path)
        return pl_err_nomem(err);
    r = call_patiently(p, client, &call, err);
    if (r < 0)
        return r;
    p->answer = json_loadb((const char *)out.data, out.len, 0, NULL);
    return p->answer ? 0 : pl_err_set(err, PL_EPROTO, "the server's answer to a push is not JSON");
}

static bool unchanged(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Tries to send a single small file in one request. Returns 1 if the file was sent, 0 if it is not small or
 * changed while it was read (the caller then calls put_long), or a negative error code. */
static int put_small(struct put *p, struct pl_err *err)
{
    const char *local = p->sources[0].local;
    _cleanup_close_ int fd = -1;
    struct stat before, after;
    int r;

    if (p->stdin_) {
        r = read_small(STDIN_FILENO, "standard input", &p->head, err);
        if (r <= 0)
            return r;
        r = send_small(p, &p->head, false, err);
        return r < 0 ? r : 1;
    }
    fd = open(local, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &before) < 0)
        return pl_err_errno(err, errno, "%s", local);
    if (!S_ISREG(before.st_mode) || before.st_size > SMALL_BYTES)
        return 0;
    r = read_small(fd, local, &p->head, err);
    if (r <= 0)
        return r;
    if (fstat(fd, &after) < 0 || !unchanged(&before, &after) || after.st_size != (off_t)p->head.len)
        return 0;
    r = send_small(p, &p->head, before.st_mode & 0111, err);
    return r < 0 ? r : 1;
}

/* ---- all other input ---- */

static ssize_t read_stdin(void *self, void *out, size_t n, struct pl_err *err)
{
    struct put *p = self;
    size_t left = p->head.len - p->head_used;
    ssize_t got = (ssize_t)PL_MIN(n, left);

    if (left) {
        memcpy(out, p->head.data + p->head_used, (size_t)got);
        p->head_used += (size_t)got;
    } else {
        got = pl_io_read(STDIN_FILENO, out, n, "standard input", err);
    }
    if (got > 0)
        atomic_fetch_add(&p->read.bytes, (uint64_t)got);
    return got;
}

static int ingest_stdin(struct put *p, struct pl_pack_builder *session, struct pl_buf *ops, struct pl_err *err)
{
    _cleanup_(pl_tree_ops_writer_finish) struct pl_tree_ops_writer writer = {0};
    struct pl_cli_progress line = {0};
    const char *dest = p->sources[0].dest;
    struct pl_entry entry;
    int r;

    pl_cli_progress_start(p->c, &line, "read", NULL, &p->read.bytes);
    r = pl_file_write_stream(session, PL_KIND_FILE, read_stdin, p, &entry, err);
    pl_cli_progress_stop(&line);
    r = r < 0 ? r : pl_tree_ops_writer_init(&writer, ops, err);
    r = r < 0 ? r : pl_tree_ops_writer_put(&writer, dest, strlen(dest), &entry, err);
    return r < 0 ? r : pl_tree_ops_writer_end(&writer, err);
}

/* Opens the cache of file states, which tells which files are unchanged and need not be read. Returns NULL if
 * the cache is switched off or cannot be opened; then every file is read. */
static struct pl_stat_cache *open_cache(const struct put *p, const struct pl_remote *remote)
{
    _cleanup_free_ char *dir = NULL;
    struct pl_stat_cache *cache = NULL;

    if (pl_cli_flag(p->c, "no-cache") || !*pl_remote_store_id(remote) || pl_stat_cache_default_dir(&dir, NULL) < 0 ||
        pl_stat_cache_open(dir, pl_remote_store_id(remote), p->push.to.project, &cache, NULL) < 0)
        return NULL;
    return cache;
}

static int ingest_files(struct put *p, struct pl_pack_builder *session, const struct pl_pack_sink *sink,
                        struct pl_stat_cache *cache, struct pl_buf *ops, struct pl_err *err)
{
    struct pl_cli_progress line = {.total_files = p->size.files, .total_bytes = p->size.bytes};
    struct pl_ingest_options options = {
        .mirror = pl_cli_flag(p->c, "mirror"), .stat_cache = cache, .sink = sink, .progress = &p->read};
    uint64_t threads = 0;
    int r = pl_cli_number(p->c, "threads", PL_INGEST_THREADS_MAX, &threads, err);

    if (r < 0)
        return r;
    options.threads = (unsigned)threads;
    p->read = (struct pl_ingest_progress){0};
    pl_cli_progress_start(p->c, &line, "read", &p->read.files, &p->read.bytes);
    r = pl_ingest_tree(session, p->sources, p->n, &options, ops, NULL, err);
    pl_cli_progress_stop(&line);
    return r;
}

/* Sends the ops stream of a push, and repeats it under the same conditions as call_patiently. */
static int push_patiently(struct put *p, struct pl_retrying_sink *patient, const struct pl_buf *ops, struct pl_err *err)
{
    unsigned pause_ms = 0;
    struct pl_err why;

    do {
        why = (struct pl_err){0};
        why.code = pl_cli_push_ops(p->c, &p->push, ops->data, ops->len, &p->answer, &why);
    } while (why.code < 0 && !p->push.base && pl_retrying_sink_retry(patient, &why, &pause_ms));
    if (why.code < 0 && err)
        *err = why;
    return why.code;
}

/* Opens the remote, and with `session` an upload session for `bytes` bytes. */
static int open_patiently(struct put *p, struct pl_http_client *client, struct pl_remote **ret, bool session, uint64_t bytes,
                          struct pl_err *err)
{
    struct pl_retrying_sink patient;
    unsigned pause_ms = 0;
    struct pl_err why;

    pl_cli_push_retry_policy(p->c, &patient);
    do {
        why = (struct pl_err){0};
        why.code = *ret ? 0 : pl_remote_open(client, p->push.to.project, ret, &why);
        why.code = why.code < 0 || !session ? why.code : pl_remote_session_for(*ret, bytes, &why);
    } while (why.code < 0 && pl_retrying_sink_retry(&patient, &why, &pause_ms));
    if (why.code < 0 && err)
        *err = why;
    return why.code;
}

/* Adds up the sizes of the sources, without reading them. */
static int measure(struct put *p, struct pl_stat_cache *cache, struct pl_err *err)
{
    struct pl_ingest_options options = {.stat_cache = cache, .progress = &p->read};
    struct pl_cli_progress line = {0};
    int r;

    p->read = (struct pl_ingest_progress){0};
    pl_cli_progress_start(p->c, &line, "found", &p->read.files, &p->read.bytes);
    r = pl_ingest_measure(p->sources, p->n, &options, &p->size, err);
    pl_cli_progress_stop(&line);
    return r;
}

/* Returns the size of what the branch has, which the sources perhaps have, too; 0 if that is not known. */
static uint64_t branch_bytes(struct put *p)
{
    _cleanup_free_ char *path =
        pl_http_path_make("/api/v1/repos/%s/%s/commits/%s", p->push.to.project, p->push.to.repo, p->push.to.name);
    _cleanup_(json_decrefp) json_t *commit = NULL;

    if (!path || pl_cli_call(p->c, "GET", path, NULL, &commit, NULL) < 0)
        return 0;
    return (uint64_t)PL_MAX(pl_show_int_at(commit, "bytes"), (json_int_t)0);
}

/* Opens an upload session, which the daemon refuses if its disk has no space for what the sources bring: then nothing is sent.
 * Their size is the most that they may need. If that does not fit, it is assumed that they bring again all that the branch has.
 * Without a size, or with --no-space-check, packs are sent until the disk has only its reserve left. */
static int open_for_sources(struct put *p, struct pl_http_client *client, struct pl_remote **remote, struct pl_err *err)
{
    uint64_t bytes = pl_cli_flag(p->c, "no-space-check") ? 0 : p->size.new_bytes, there;
    struct pl_err full = {0};
    int r = open_patiently(p, client, remote, true, bytes, err);

    if (r != PL_ENOSPC || bytes == 0)
        return r;
    there = branch_bytes(p);
    if (there)
        r = open_patiently(p, client, remote, true, bytes > there ? bytes - there : 0, err);
    if (r != PL_ENOSPC)
        return r;
    /* a full disk takes nothing, whatever is not checked */
    if (open_patiently(p, client, remote, true, 0, &full) == PL_ENOSPC)
        return pl_err_hint(err, r, "Free space there; nothing was sent.");
    pl_remote_end_session(*remote);
    return pl_err_hint(err, r,
                       "Free space there, or put less; nothing was sent. If the data compresses well, or the "
                       "store has most of it already, --no-space-check puts it as far as there is space.");
}

/* Ingests the sources in an upload session, then sends the resulting operations as a push. */
static int put_long(struct put *p, struct pl_err *err)
{
    _cleanup_(pl_remote_closep) struct pl_remote *remote = NULL;
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    _cleanup_(pl_stat_cache_closep) struct pl_stat_cache *cache = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf ops = {0};
    struct pl_retrying_sink patient;
    struct pl_http_client *client;
    struct pl_pack_sink sink;
    int r = pl_cli_client(p->c, &client, err);

    r = r < 0 ? r : open_patiently(p, client, &remote, false, 0, err);
    if (r < 0)
        return r;
    cache = open_cache(p, remote);
    /* the sizes are for the check and for the progress line */
    if (!p->stdin_ && (!pl_cli_flag(p->c, "no-space-check") || pl_cli_progress_seen(p->c)))
        r = measure(p, cache, err);
    r = r < 0 ? r : open_for_sources(p, client, &remote, err);
    if (r < 0)
        return r;
    pl_retrying_sink_init(&patient, remote, client, p->push.to.project);
    patient.lost = pl_cli_push_print_lost;
    patient.arg = p->c;
    sink = pl_retrying_sink(&patient);
    r = pl_pack_builder_open(&sink, p->push.to.project, &session, err);
    if (r == 0)
        r = p->stdin_ ? ingest_stdin(p, session, &ops, err) : ingest_files(p, session, &sink, cache, &ops, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    if (r < 0)
        return r;
    p->push.session = pl_remote_session_id(remote);
    r = push_patiently(p, &patient, &ops, err);
    p->push.session = NULL;
    if (r == 0)
        pl_remote_end_session(remote);
    if (r == 0 && cache && pl_stat_cache_save(cache, NULL) < 0)
        return 0; /* ignore the error: without a saved cache the next put only takes longer */
    return r;
}

static int put_once(struct put *p, struct pl_err *err)
{
    bool small = p->n == 1 && !p->folders && !pl_cli_flag(p->c, "mirror") && p->head.len == 0;
    int r = small ? put_small(p, err) : 0;

    return r != 0 ? PL_MIN(r, 0) : put_long(p, err);
}

static int put_file(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(put_finish) struct put p = {.c = c,
                                          .push = {.message = pl_cli_value(c, "message"), .base = pl_cli_value(c, "base")},
                                          .head = {.max = SMALL_BYTES + 1}};
    int r = pl_cli_push_target(c, c->args[0], &p.push, err), tries = PL_CLI_PUSH_TRIES;

    r = r < 0 ? r : read_sources(&p, err);
    if (r < 0)
        return r;
    do {
        pl_buf_clear(&p.head);
        r = put_once(&p, err);
        /* garbage collection has deleted data that this push relies on: send everything again */
    } while (r == PL_ERETRY && --tries > 0 && !p.stdin_);
    return r < 0 ? r : pl_cli_push_print(c, &p.push, p.answer, err);
}

static const struct pl_option options[] = {
    {"file", 'f', "LOCAL", "file or folder to put, - for standard input; may be repeated"},
    {"recursive", 'r', NULL, "put folders: their content goes below PATH"},
    {"message", 'm', "TEXT", "message of the commit"},
    {"mirror", 0, NULL, "delete what is below PATH and not in LOCAL"},
    {"base", 0, "REF", "refuse if one of these paths has changed since that commit"},
    {"no-cache", 0, NULL, "read every file, even if it looks unchanged"},
    {"no-space-check", 0, NULL, "put even if the files are larger than the free space of the store"},
    {"threads", 0, "N", "number of reading threads (one per core)"},
    PL_CLI_WAIT,
    {0},
};

static const struct pl_verb verbs[] = {
    {"put",
     "file",
     "REPO@BRANCH[:/PATH] -f LOCAL [-r]",
     1,
     PL_CLI_ANY,
     options,
     put_file,
     "Puts files onto a branch, as one commit that starts a run of the stages that read it; or into an open commit.",
     {"put file digits@master:/train/b8.csv -f b8.csv", "put file digits@master:/ -r -f data",
      "ls | pipelinectl put file logs@master:/ls.txt -f -"}},
};
PL_CLI_TABLE(put, verbs);
