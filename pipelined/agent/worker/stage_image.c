/* stage_image: podman's part is in sandbox_view/image. */
#include "pipelined/agent/worker/stage_image.h"

#include "pipelined/text/json_text.h"
#include <stdio.h>
#include <stdlib.h>

static const char *text_of(const json_t *request, const char *key)
{
    return json_string_value(json_object_get(request, key));
}

int pl_stage_image_get(const json_t *request, struct pl_image *ret, struct pl_err *err)
{
    const char *const run[] = {text_of(request, "run"), NULL};
    const struct pl_sandbox_stage stage = {.run = run,
                                           .script = text_of(request, "script"),
                                           .path = text_of(request, "path"),
                                           .environment = json_is_true(json_object_get(request, "environment"))};
    struct pl_image image = {0};
    const struct pl_sandbox_view view = {.image = &image};
    int r;

    if (!text_of(request, "podman") || !text_of(request, "name"))
        return pl_err_set(err, PL_EUSAGE, "image: \"podman\" and \"name\" must be texts");
    r = pl_image_get(text_of(request, "podman"), text_of(request, "name"), text_of(request, "locks"), &image, err);
    if (r < 0)
        return r;
    r = pl_image_enter(&image, err);
    if (r == 0) {
        r = pl_sandbox_view_stage(&view, &stage, err);
        r = r == PL_ENOTFOUND ? pl_err_wrap(err, PL_ESTAGE, "the stage cannot run") : r;
    }
    if (r < 0) {
        pl_image_finish(&image);
        return r;
    }
    *ret = image;
    return 0;
}

int pl_stage_image_print(const char *request)
{
    json_t *doc = json_loads(request, 0, NULL);
    struct pl_image image = {0};
    struct pl_err err = {0};
    int r = pl_stage_image_get(doc, &image, &err);

    json_decref(doc);
    if (r < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return r == PL_ESTAGE ? PL_IMAGE_EXIT_HOPELESS : 1;
    }
    r = json_dumpf(image.doc, stdout, JSON_COMPACT) < 0 || fflush(stdout) != 0;
    pl_image_finish(&image);
    return r;
}
