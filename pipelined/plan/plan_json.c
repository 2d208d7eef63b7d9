/* plan_json: makes the JSON of a datum's inputs, which workers read. */
#include "pipelined/plan/plan_json.h"

static const char *kind_name(uint8_t kind)
{
    switch (kind) {
    case PL_KIND_EXEC:
        return "exec";
    case PL_KIND_LINK:
        return "link";
    case PL_KIND_DIR:
        return "dir";
    default:
        return "file";
    }
}

/* Makes {"name": "params", "json": canonical JSON, "values": {name: text}}. */
static json_t *params_json(const struct pl_plan *p, size_t leaf, const struct pl_plan_match *m)
{
    const struct pl_input *in = p->stage->leaves[leaf];
    const struct pl_combination *combination = &in->combinations[m - p->leaves[leaf].matches];
    json_t *values = json_object();

    for (size_t i = 0; i < in->n_params; i++)
        json_object_set_new(values, in->param_names[i], json_string(combination->values[i]));
    return json_pack("{s:s, s:s, s:o}", "name", in->name, "json", combination->json, "values", values);
}

json_t *pl_plan_input_json(const struct pl_plan *p, size_t leaf, const struct pl_plan_match *m, const struct pl_hash *root,
                           const char *commit)
{
    const struct pl_input *in = p->stage->leaves[leaf];
    char hex[PL_HASH_HEX + 1];
    json_t *files, *out;

    if (!pl_input_reads(in))
        return params_json(p, leaf, m);
    files = json_array();
    for (size_t i = 0; i < in->n_files; i++)
        json_array_append_new(files, json_string(in->files[i]));
    out = json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s, s:b, s:o}", "name", in->name, "project", in->project, "path", m->path,
                    "root", pl_hash_hex(root, hex), "commit", commit[0] != '\0' ? commit : NULL, "kind", kind_name(m->kind),
                    "writable", (int)in->writable, "files", files);
    if (in->environment)
        json_object_set_new(out, "environment", json_true());
    return out;
}

json_t *pl_stage_writable_json(const struct pl_stage *stage)
{
    json_t *names = json_array();

    for (size_t i = 0; i < stage->n_leaves; i++)
        if (stage->leaves[i]->writable)
            json_array_append_new(names, json_string(stage->leaves[i]->name));
    return names;
}
