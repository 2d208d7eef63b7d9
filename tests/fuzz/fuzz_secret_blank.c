// link: pipelined/kube/pod
/* What an API server answers of secrets, less its values: what was JSON still is, with the same keys; no string below "data", "stringData" or
 * "annotations" is left, and any other is as it was or gone. */
#include "pipelined/kube/pod/secret_object.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static bool hides(const char *key)
{
    return strcmp(key, "data") == 0 || strcmp(key, "stringData") == 0 || strcmp(key, "annotations") == 0;
}

static bool is_blank(const json_t *text)
{
    const size_t n = json_string_length(text);

    return strspn(json_string_value(text), "*") == n;
}

static void compare(const json_t *was, const json_t *is, bool hidden)
{
    const char *key;
    json_t *one;
    size_t i;

    must(json_typeof(was) == json_typeof(is));
    if (json_is_string(was)) {
        must(is_blank(is) || (!hidden && json_equal(was, is)));
    } else if (json_is_object(was)) {
        must(json_object_size(was) == json_object_size(is));
        json_object_foreach((json_t *)(uintptr_t)was, key, one)
        {
            must(json_object_get(is, key) != NULL);
            compare(one, json_object_get(is, key), hidden || hides(key));
        }
    } else if (json_is_array(was)) {
        json_array_foreach(was, i, one) compare(one, json_array_get(is, i), hidden);
    } else {
        must(json_equal(was, is));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = malloc(n + 1);
    json_t *was, *is;

    must(text != NULL);
    memcpy(text, data, n);
    was = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    pl_secret_object_blank(text, n);
    is = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    if (was != NULL && is != NULL)
        compare(was, is, false);
    else
        must(was == NULL || memchr(text, '*', n) != NULL); /* nested too deeply */
    json_decref(was);
    json_decref(is);
    free(text);
    return 0;
}
