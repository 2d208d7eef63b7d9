/* Each poll opens the file again and continues at the last offset. A token bucket limits the lines. */
#include "pipelined/agent/outputs/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#define READ_BYTES 16384
/* maximum number of reads in one poll; if the file grows faster, the rest is read by later polls */
#define READS_MAX 64

void pl_metrics_start(struct pl_metrics *m, int dirfd, int64_t now_ms)
{
    *m = (struct pl_metrics){.dirfd = dirfd, .milli_tokens = PL_METRICS_BURST * 1000, .refilled_ms = now_ms};
}

/* Ends a line: appends it to `out`, unless it is too long or over the rate. */
static void finish_line(struct pl_metrics *m, struct pl_buf *out)
{
    size_t n = m->line_len;

    m->line_len = 0;
    if (n == 0 || n > PL_METRICS_LINE_MAX || m->milli_tokens < 1000)
        return;
    m->line[n] = '\n';
    if (pl_buf_add(out, m->line, n + 1, NULL) < 0)
        return;
    m->milli_tokens -= 1000;
    m->lines++;
}

static void take(struct pl_metrics *m, const char *data, size_t n, struct pl_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        if (data[i] == '\n')
            finish_line(m, out);
        else if (m->line_len++ < PL_METRICS_LINE_MAX)
            m->line[m->line_len - 1] = data[i];
    }
}

/* Opens a file of the output folder. -1: it is missing, or is no regular file. */
static int open_file(const struct pl_metrics *m, const char *name, struct stat *ret)
{
    int fd = openat(m->dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 || (fstat(fd, ret) == 0 && S_ISREG(ret->st_mode)))
        return fd;
    close(fd);
    return -1;
}

/* Takes metrics.json as one line: its line breaks, which are no part of any text in it, go with the indentation after
 * them. */
static void take_result(struct pl_metrics *m, struct pl_buf *out)
{
    char text[PL_METRICS_TEXT_MAX + 1];
    struct stat st;
    _cleanup_close_ int fd = open_file(m, PL_METRICS_RESULT, &st);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
    bool indented = false;
    size_t len = 0;

    if (n <= 0 || n == (ssize_t)sizeof(text))
        return;
    for (ssize_t i = 0; i < n; i++) {
        const bool end = text[i] == '\n' || text[i] == '\r';

        indented = end || (indented && (text[i] == ' ' || text[i] == '\t'));
        if (!indented)
            text[len++] = text[i];
    }
    if (len == 0 || text[0] != '{')
        return; /* not meant as figures */
    take(m, text, len, out);
    finish_line(m, out);
}

void pl_metrics_poll(struct pl_metrics *m, int64_t now_ms, bool end, struct pl_buf *out)
{
    _cleanup_close_ int fd = -1;
    char data[READ_BYTES];
    struct stat st;
    ssize_t n = 0;

    m->milli_tokens = PL_MIN(m->milli_tokens + (now_ms - m->refilled_ms) * PL_METRICS_RATE, PL_METRICS_BURST * 1000);
    m->refilled_ms = now_ms;
    fd = open_file(m, PL_METRICS_FILE, &st);
    if (fd < 0 && end && m->inode == 0)
        take_result(m, out);
    if (fd < 0)
        return;
    if (st.st_ino != m->inode || (uint64_t)st.st_size < m->offset) {
        m->inode = st.st_ino;
        m->offset = 0;
        m->line_len = 0;
    }
    for (int i = 0; i < READS_MAX; i++) {
        n = pread(fd, data, sizeof(data), (off_t)m->offset);
        if (n <= 0)
            break;
        take(m, data, (size_t)n, out);
        m->offset += (uint64_t)n;
    }
    if (end && n == 0)
        finish_line(m, out);
}
