/* s3_mock_verify: what a request must look like on the wire, by the mock's own reading of Amazon's definition. */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct s3_mock_keys {
    const char *access_key, *secret, *token, *region;
    int64_t now_s;
    bool tls;
};
struct s3_mock_wire {
    struct MHD_Connection *connection;
    const char *method, *uri; /* as sent */
    const void *body;
    size_t body_len;
    bool loose_ranges, loose_hashes; /* presigned: do not care */
};
struct s3_mock_refusal {
    unsigned status;
    char code[48], message[256], region[64];
    bool violation; /* no client of S3 should do this; else it may be meant */
};

/* True when the request is signed by these keys, for what it is. `*ret_presigned`. */
bool s3_mock_verify(const struct s3_mock_wire *w, const struct s3_mock_keys *k, bool *ret_presigned, struct s3_mock_refusal *ret);
/* 64 hex digits of the SHA-256. */
void s3_mock_sha256(const void *data, size_t n, char out[65]);
/* A parameter of the query as sent, decoded into `out`; false when it is not there. */
bool s3_mock_parameter(const char *uri, const char *name, char *out, size_t size);
/* Percent-decoding; false when it is not canonical. `end` = first byte behind. */
bool s3_mock_decode(const char *text, const char *end, bool keep_slash, char *out, size_t size);
