/* curl_library: dlopen of libcurl under the names it has on Linux distributions, once per process. */
#include "storage/http/curl_library.h"

#include <dlfcn.h>
#include <pthread.h>

static struct pl_curl library;
static bool there;

static bool load_symbol(void *handle, void *member, const char *name)
{
    void *found = dlsym(handle, name);

    memcpy(member, &found, sizeof found);
    return found != NULL;
}

static void load(void)
{
    static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4", "libcurl-nss.so.4"};
    void *handle = NULL;

    for (size_t i = 0; i < PL_ARRAY_SIZE(names) && !handle; i++)
        handle = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    there = handle != NULL;
#define LOAD(member, symbol) there = there && load_symbol(handle, &library.member, #symbol);
    PL_CURL_SYMBOLS(LOAD)
#undef LOAD
    there = there && library.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

const struct pl_curl *pl_curl_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return there ? &library : NULL;
}
