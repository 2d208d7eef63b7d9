/* The TLS certificate of the process: read from files and checked, replaced under a lock, and copied for each
 * handshake. */
#include "pipelined/net/server/tls.h"

#include "storage/base/buf.h"
#include "storage/base/clock.h"
#include "storage/system/io.h"
#include "storage/system/log_line.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#define FILE_MAX (1u << 20)

/* Identifies the version of a file that was read, to notice a change. */
struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec mtime;
};

struct identity {
    gnutls_x509_crt_t chain[PL_TLS_CHAIN_MAX];
    unsigned n;
    gnutls_x509_privkey_t key;
};

static struct {
    /* held during a check of the files, so that only one runs; guards the files' names and stamps; taken
     * before `lock` */
    pthread_mutex_t looking;
    char *cert_file, *key_file;
    struct stamp cert, key;
    unsigned failed;       /* checks in a row that could not read the files */
    pthread_rwlock_t lock; /* guards `now` */
    struct identity *now;
} tls = {.looking = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_RWLOCK_INITIALIZER};

#define FAILED_LOOKS 3u /* a failure that lasts for this many checks is logged once */

/* ---- reading ---- */

static struct identity *identity_free(struct identity *id)
{
    if (!id)
        return NULL;
    for (unsigned i = 0; i < id->n; i++)
        gnutls_x509_crt_deinit(id->chain[i]);
    if (id->key)
        gnutls_x509_privkey_deinit(id->key);
    free(id);
    return NULL;
}

static void identity_freep(struct identity **id)
{
    *id = identity_free(*id);
}

static int read_stamp(const char *file, struct stamp *ret, mode_t *ret_mode, struct pl_err *err)
{
    struct stat st;

    if (stat(file, &st) < 0)
        return pl_err_errno(err, errno, "%s", file);
    *ret = (struct stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
    *ret_mode = st.st_mode;
    return 0;
}

static bool same_stamp(const struct stamp *a, const struct stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime.tv_sec == b->mtime.tv_sec &&
           a->mtime.tv_nsec == b->mtime.tv_nsec;
}

static int read_chain(const char *file, struct identity *id, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = FILE_MAX};
    unsigned n = PL_TLS_CHAIN_MAX;
    gnutls_datum_t datum;
    int r = pl_io_read_file(file, &text, err), e;

    if (r < 0)
        return r;
    datum = (gnutls_datum_t){text.data, (unsigned)text.len};
    e = gnutls_x509_crt_list_import(id->chain, &n, &datum, GNUTLS_X509_FMT_PEM,
                                    GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED | GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    if (e < 0)
        return pl_err_set(err, PL_EINVAL, "%s holds no certificate in PEM, followed by its intermediate certificates: %s", file,
                          gnutls_strerror(e));
    id->n = n;
    return 0;
}

static int read_key(const char *file, struct identity *id, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = FILE_MAX};
    gnutls_datum_t datum;
    int r = pl_io_read_file(file, &text, err), e;

    if (r < 0)
        return r;
    datum = (gnutls_datum_t){text.data, (unsigned)text.len};
    e = gnutls_x509_privkey_init(&id->key);
    e = e < 0 ? e : gnutls_x509_privkey_import2(id->key, &datum, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(text.data, 0, text.len);
    return e < 0 ? pl_err_set(err, PL_EINVAL, "%s holds no key in PEM without a passphrase: %s", file, gnutls_strerror(e)) : 0;
}

static int check_pair(const char *cert_file, const char *key_file, const struct identity *id, struct pl_err *err)
{
    uint8_t of_cert[64], of_key[64];
    size_t n = sizeof of_cert, m = sizeof of_key;

    if (gnutls_x509_crt_get_key_id(id->chain[0], GNUTLS_KEYID_USE_SHA256, of_cert, &n) < 0 ||
        gnutls_x509_privkey_get_key_id(id->key, GNUTLS_KEYID_USE_SHA256, of_key, &m) < 0 || n != m ||
        memcmp(of_cert, of_key, n) != 0)
        return pl_err_set(err, PL_EINVAL, "the key in %s does not belong to the certificate in %s", key_file, cert_file);
    return 0;
}

static void tell_end(const char *cert_file, const struct identity *id)
{
    int64_t end_us = (int64_t)gnutls_x509_crt_get_expiration_time(id->chain[0]) * 1000000, now_us = pl_clock_wall_us();
    char text[32];

    if (end_us <= now_us + (int64_t)PL_TLS_SOON_DAYS * 86400 * 1000000)
        pl_log_warn("tls", "the certificate in %s %s %s", cert_file, end_us <= now_us ? "expired on" : "expires on",
                    pl_clock_text(end_us, text));
    else
        pl_log_info("tls", "certificate read from %s; it expires on %s", cert_file, pl_clock_text(end_us, text));
}

static int load(const char *cert_file, const char *key_file, struct identity **ret, struct pl_err *err)
{
    _cleanup_(identity_freep) struct identity *id = calloc(1, sizeof *id);
    int r = id ? read_chain(cert_file, id, err) : pl_err_nomem(err);

    r = r < 0 ? r : read_key(key_file, id, err);
    r = r < 0 ? r : check_pair(cert_file, key_file, id, err);
    if (r < 0)
        return r;
    tell_end(cert_file, id);
    *ret = TAKE_PTR(id);
    return 0;
}

static void show(struct identity *id)
{
    struct identity *before;

    pthread_rwlock_wrlock(&tls.lock);
    before = tls.now;
    tls.now = id;
    pthread_rwlock_unlock(&tls.lock);
    identity_free(before);
}

/* Reads the stamps of both files. Called before the files are read, so that a file that changes meanwhile is
 * read again. */
static int read_stamps(const char *cert_file, const char *key_file, struct stamp *cert, struct stamp *key, struct pl_err *err)
{
    mode_t mode;
    int r = read_stamp(cert_file, cert, &mode, err);

    r = r < 0 ? r : read_stamp(key_file, key, &mode, err);
    if (r == 0 && mode & 007)
        r = pl_err_hint(err, pl_err_set(err, PL_EINVAL, "all users of this machine can read the key in %s", key_file),
                        "chmod o= %.200s", key_file);
    return r;
}

int pl_tls_open(const char *cert_file, const char *key_file, struct pl_err *err)
{
    struct identity *id = NULL;
    struct stamp cert, key;
    int r = read_stamps(cert_file, key_file, &cert, &key, err);
    char *names[2];

    r = r < 0 ? r : load(cert_file, key_file, &id, err);
    if (r < 0)
        return r;
    names[0] = strdup(cert_file);
    names[1] = strdup(key_file);
    if (!names[0] || !names[1]) {
        free(names[0]);
        free(names[1]);
        identity_free(id);
        return pl_err_nomem(err);
    }
    pthread_mutex_lock(&tls.looking);
    free(tls.cert_file);
    free(tls.key_file);
    tls.cert_file = names[0];
    tls.key_file = names[1];
    tls.cert = cert;
    tls.key = key;
    show(id);
    pthread_mutex_unlock(&tls.looking);
    return 0;
}

/* Reads the files again if they have changed. The caller holds `looking`. */
static void look(void)
{
    struct identity *id = NULL;
    struct stamp cert, key;
    struct pl_err err = {0};
    int r = read_stamps(tls.cert_file, tls.key_file, &cert, &key, &err);

    if (r < 0) { /* a file may be missing for a moment while it is replaced: the next check reads it */
        if (++tls.failed == FAILED_LOOKS)
            pl_log_error("tls", "the old certificate stays in use: %s", err.msg);
        return;
    }
    tls.failed = 0;
    if (same_stamp(&cert, &tls.cert) && same_stamp(&key, &tls.key))
        return;
    tls.cert = cert;
    tls.key = key;
    if (load(tls.cert_file, tls.key_file, &id, &err) < 0)
        /* also logged when only one of the two files has been replaced so far */
        pl_log_error("tls", "the old certificate stays in use: %s", err.msg);
    else
        show(id);
}

void pl_tls_look(void)
{
    pthread_mutex_lock(&tls.looking);
    if (tls.cert_file)
        look();
    pthread_mutex_unlock(&tls.looking);
}

void pl_tls_close(void)
{
    pthread_mutex_lock(&tls.looking);
    free(TAKE_PTR(tls.cert_file));
    free(TAKE_PTR(tls.key_file));
    show(NULL);
    pthread_mutex_unlock(&tls.looking);
}

/* ---- a handshake ---- */

/* Copies the certificate and key for GnuTLS, which frees the copy: a handshake can outlive a change of the
 * files. */
static int copy_identity(const struct identity *id, gnutls_pcert_st **ret_chain, unsigned *ret_n, gnutls_privkey_t *ret_key)
{
    gnutls_pcert_st *chain = gnutls_calloc(id->n, sizeof *chain);
    gnutls_privkey_t key = NULL;
    unsigned n = 0;
    int e = chain ? gnutls_privkey_init(&key) : GNUTLS_E_MEMORY_ERROR;

    e = e < 0 ? e : gnutls_privkey_import_x509(key, id->key, GNUTLS_PRIVKEY_IMPORT_COPY);
    while (e >= 0 && n < id->n) {
        e = gnutls_pcert_import_x509(&chain[n], id->chain[n], 0);
        n += e >= 0;
    }
    if (e >= 0) {
        *ret_chain = chain;
        *ret_n = n;
        *ret_key = key;
        return 0;
    }
    while (n > 0)
        gnutls_pcert_deinit(&chain[--n]);
    gnutls_free(chain);
    if (key)
        gnutls_privkey_deinit(key);
    return e;
}

static int on_handshake(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **chain, unsigned *n,
                        gnutls_ocsp_data_st **ocsp, unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
    int e;

    (void)session;
    (void)info;
    (void)ocsp;
    *n_ocsp = 0;
    pthread_rwlock_rdlock(&tls.lock);
    e = tls.now ? copy_identity(tls.now, chain, n, key) : GNUTLS_E_NO_CERTIFICATE_FOUND;
    pthread_rwlock_unlock(&tls.lock);
    *flags = GNUTLS_CERT_RETR_DEINIT_ALL;
    return e < 0 ? -1 : 0;
}

void *pl_tls_callback(void)
{
    gnutls_certificate_retrieve_function3 *f = on_handshake;

    return (void *)f;
}
