// link: pipelined/spec pipelined/text
/* Any bytes as a spec: the scanner gives jansson's verdict, positions lie in the text, an accepted spec reads as itself when written. */
#include "pipelined/spec/spec.h"
#include "pipelined/text/json_position.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static unsigned depth(const json_t *v)
{
    unsigned deepest = 0, below;
    const char *key;
    json_t *member;
    size_t i;

    if (!json_is_object(v) && !json_is_array(v))
        return 0;
    json_array_foreach(v, i, member)
    {
        below = depth(member); /* once: a macro would do it twice, at each level */
        deepest = PL_MAX(deepest, below);
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        below = depth(member);
        deepest = PL_MAX(deepest, below);
    }
    return deepest + 1;
}

static void compare_verdicts(const char *text, size_t n)
{
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    bool theirs = v != NULL && depth(v) <= PL_JSON_DEPTH_MAX && memchr(text, '\0', n) == NULL;

    json_decref(v);
    if ((pl_json_check(text, n, NULL, NULL) == 0) != theirs)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct pl_spec_errors errs;
    struct pl_spec *spec = NULL, *again = NULL;
    struct pl_buf once = {0}, twice = {0};
    const char *text = n > 0 ? (const char *)data : "";

    compare_verdicts(text, n);
    if (pl_spec_parse(text, n, "fuzz.json", NULL, &spec, &errs, NULL) < 0) {
        if (errs.n_errors == 0)
            abort(); /* refused without a reason */
        return 0;
    }
    if (pl_spec_effective_json(spec, &once, NULL) < 0 ||
        pl_spec_parse((const char *)once.data, once.len, "again.json", NULL, &again, &errs, NULL) < 0 ||
        pl_spec_effective_json(again, &twice, NULL) < 0 || once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
        abort();
    pl_buf_finish(&once);
    pl_buf_finish(&twice);
    pl_spec_destroy(spec);
    pl_spec_destroy(again);
    return 0;
}
