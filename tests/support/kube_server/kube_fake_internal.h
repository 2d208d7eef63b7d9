/* What the fake API server's parts share. All under the server's lock. */
#pragma once

#include "storage/base/buf.h"
#include "tests/support/kube_server/kube_fake.h"
#include <pthread.h>

struct request {
    const char *method, *path, *query, *token, *body;
    size_t body_len;
};

struct conn {
    struct kube_fake *fake;
    int fd;
    struct pl_buf in, out;
    size_t out_at;
    bool chunked, watching, following, silent, metadata_only; /* the last: of its request */
    size_t cut_after;                                         /* SIZE_MAX = not */
    const struct kube_fake_fault *then;
    char *collection, *labels, *fields; /* of a watch */
    struct conn *next;
};

/* One state of an object. */
struct state {
    unsigned refs;
    unsigned long version;
    uint64_t asked; /* number of the selectors that it was asked for last */
    bool matched;   /* their answer */
    size_t len;
    char text[];
};

struct stored {
    char *path;        /* whole */
    size_t collection; /* so much of it is the collection's */
    struct state *now;
};

struct event {
    char *path;
    size_t collection;
    struct state *was, *is; /* NULL = it was not, or is not, there; `is` of a deletion: its last */
    bool gone;
};

struct kube_fake {
    char url[64];
    int listener, epoll, wake;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
    struct conn *conns, *dead;
    unsigned n_conns;
    unsigned long n_watches;
    struct kube_fake_view view;
    struct kube_fake_fault faults[32];
    uint32_t fault_left[32];
    size_t n_faults;
    char *log, *log_path, *token;
    bool log_over;
    const char *denied;
    const char *counted_method, *counted_part;
    /* The store. */
    struct stored *objects; /* by path */
    size_t n, cap;
    unsigned long version, oldest; /* watches may begin at `oldest` */
    struct event history[KUBE_FAKE_HISTORY];
    unsigned long n_events; /* ever */
};

void kube_fake_close(struct conn *c);
void kube_fake_stream(struct conn *c, const void *data, size_t n);
void kube_fake_stream_end(struct conn *c);
void kube_fake_answer(struct conn *c, unsigned status, const char *body, size_t n, unsigned retry_after_s);
void kube_fake_answer_json(struct conn *c, unsigned status, json_t *object /* taken over */);
/* What of an object the request wants; takes it over. */
json_t *kube_fake_shown(struct conn *c, json_t *object);
void kube_fake_refuse(struct conn *c, unsigned code, const char *reason, const char *message);
/* The value of a query's parameter, decoded, malloc'ed; NULL = not there. */
char *kube_fake_param(const char *query, const char *name);

/* kube_fake_store.c: any other request than a watch or a log; what happened since `version` to a new watch; the end. */
void kube_fake_do(struct kube_fake *f, struct conn *c, const struct request *q);
void kube_fake_replay(struct kube_fake *f, struct conn *c, unsigned long version);
void kube_fake_store_finish(struct kube_fake *f);
