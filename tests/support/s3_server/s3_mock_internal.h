/* What the mock's own files share: objects, answers, and the operations on them (s3_mock_ops.c). All under the lock. */
#pragma once

#include "tests/support/s3_server/s3_mock.h"

#include <microhttpd.h>
#include <pthread.h>

#define S3_MOCK_FAULTS_MAX 64
#define S3_MOCK_LATE_MAX   64
#define S3_MOCK_RECENT     32

struct s3_mock_stored {
    char *key;
    unsigned char *bytes;
    size_t len;
    char etag[40];
};

struct s3_mock_answer {
    unsigned status;
    char *body; /* malloc'ed */
    size_t len;
    char content_type[32], etag[48], content_range[96], region[64], location[512];
};

struct s3_mock_late {
    char *key;
    unsigned char *bytes;
    size_t len;
    bool condition, remove;
    unsigned due; /* number of the request before which it comes */
};

struct s3_mock {
    struct s3_mock_config config;
    struct MHD_Daemon *daemon;
    char url[64], host[80], ca[64];
    char *cert, *private_key;
    pthread_mutex_t lock;
    pthread_cond_t ending_set;
    bool ending;
    char access_key[64], secret[128], token[256], region[64], redirect[256];
    int64_t ahead_s;
    struct s3_mock_stored *objects; /* sorted by key */
    size_t n, cap;
    struct s3_fault faults[S3_MOCK_FAULTS_MAX];
    size_t n_faults;
    uint64_t random;
    unsigned percent;
    struct s3_mock_late late[S3_MOCK_LATE_MAX];
    size_t n_late;
    unsigned requests, gets, puts, heads, deletes, posts, running, at_once, violations, connections;
    char violation[512];
    char recent[S3_MOCK_RECENT][160]; /* the last requests, in a ring */
};

struct s3_mock_call {
    struct s3_mock *m;
    struct MHD_Connection *connection;
    const char *method, *uri;
    char key[2048]; /* "" = the bucket */
    const unsigned char *body;
    size_t len;
    bool presigned;
    bool whole;     /* answers a range with 200 and all of it */
    bool slower;    /* removes none of many */
    size_t further; /* ... with what lies so far behind it */
};

struct s3_mock_stored *s3_mock_find(struct s3_mock *m, const char *key);
void s3_mock_put_bytes(struct s3_mock *m, const char *key, const void *bytes, size_t n);
void s3_mock_remove_key(struct s3_mock *m, const char *key);
void s3_mock_answer_text(struct s3_mock_answer *a, unsigned status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void s3_mock_answer_error(struct s3_mock_answer *a, unsigned status, const char *code, const char *message, const char *region);
/* Counts what no client of S3 may do. */
void s3_mock_violated(struct s3_mock *m, const char *method, const char *uri, const char *what);
const char *s3_mock_header(const struct s3_mock_call *c, const char *name);
/* The operation itself, of a request that may be made. */
void s3_mock_carry_out(struct s3_mock_call *c, struct s3_mock_answer *a);
