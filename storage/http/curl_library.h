/* curl_library: loads libcurl when the first request is made. libcurl depends on some thirty libraries, which
 * take about 12 ms to load; programs and subcommands that contact no server are spared that time. Its symbols
 * are versioned, so a second copy in the process does no harm. */
#pragma once

#include "storage/base/base.h"
#include <curl/curl.h>

/* X(member of struct pl_curl, symbol of libcurl) */
#define PL_CURL_SYMBOLS(X)                                                                                                       \
    X(global_init, curl_global_init)                                                                                             \
    X(easy_init, curl_easy_init)                                                                                                 \
    X(easy_cleanup, curl_easy_cleanup)                                                                                           \
    X(easy_reset, curl_easy_reset)                                                                                               \
    X(easy_setopt, curl_easy_setopt)                                                                                             \
    X(easy_getinfo, curl_easy_getinfo)                                                                                           \
    X(easy_strerror, curl_easy_strerror)                                                                                         \
    X(multi_init, curl_multi_init)                                                                                               \
    X(multi_cleanup, curl_multi_cleanup)                                                                                         \
    X(multi_setopt, curl_multi_setopt)                                                                                           \
    X(multi_add_handle, curl_multi_add_handle)                                                                                   \
    X(multi_remove_handle, curl_multi_remove_handle)                                                                             \
    X(multi_perform, curl_multi_perform)                                                                                         \
    X(multi_poll, curl_multi_poll)                                                                                               \
    X(multi_wakeup, curl_multi_wakeup)                                                                                           \
    X(multi_info_read, curl_multi_info_read)                                                                                     \
    X(slist_append, curl_slist_append)                                                                                           \
    X(slist_free_all, curl_slist_free_all)

/* curl.h defines these as type-checking macros, which would replace the struct members below. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

struct pl_curl {
#define PL_CURL_MEMBER(member, symbol) __typeof__(symbol) *member;
    PL_CURL_SYMBOLS(PL_CURL_MEMBER)
#undef PL_CURL_MEMBER
};

/* Loads and initialises libcurl on the first call. Returns NULL if this machine has no libcurl, or one that
 * lacks a needed function. Any thread. */
const struct pl_curl *pl_curl_library(void);
