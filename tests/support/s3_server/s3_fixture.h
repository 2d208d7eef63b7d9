/* s3_place: a strict mock of a bucket's server, and the driver's store in it. */
#pragma once

#include "tests/support/fixtures/store_fixture.h"

#include "storage/object/object.h"
#include "tests/support/s3_server/s3_mock.h"

static char *dir;
static int64_t stall_ms = 10000; /* only a test of that waits for it */

static UNUSED int setup(void **state)
{
    (void)state;
    dir = fixture_dir();
    return 0;
}

static UNUSED int teardown(void **state)
{
    (void)state;
    fixture_remove(dir);
    return 0;
}

/* A mock and the store in it. */
struct place {
    struct s3_mock *mock;
    struct pl_object_store *store;
};

static UNUSED struct pl_object_config config_of(const struct s3_mock *mock)
{
    return (struct pl_object_config){.url = "s3://" S3_MOCK_BUCKET "/some/prefix",
                                     .endpoint = s3_mock_url(mock),
                                     .region = S3_MOCK_REGION,
                                     .access_key = S3_MOCK_KEY,
                                     .secret_key = S3_MOCK_SECRET,
                                     .tmp_dir = dir,
                                     .cache_dir = fixture_path(dir, "cache"),
                                     .pause_ms = 1,
                                     .stall_ms = stall_ms,
                                     .deadline_ms = 20000};
}

static UNUSED void place_open(struct place *p, const struct s3_mock_config *mock, struct pl_object_config *changed)
{
    struct pl_object_config config;
    struct pl_err err;

    p->mock = s3_mock_start(mock);
    config = config_of(p->mock);
    if (changed != NULL) {
        config.ca = mock->tls ? s3_mock_ca(p->mock) : NULL;
        config.style = changed->style;
        config.exclusive = changed->exclusive;
        config.probe = changed->probe;
        config.url = changed->url != NULL ? changed->url : config.url;
    }
    assert_ok(pl_object_open(&config, &p->store, &err), &err);
}

static UNUSED void place_close(struct place *p)
{
    p->store = pl_object_close(p->store);
    if (s3_mock_violations(p->mock) != 0)
        fail_msg("%s", s3_mock_violation(p->mock));
    s3_mock_stop(p->mock);
}
