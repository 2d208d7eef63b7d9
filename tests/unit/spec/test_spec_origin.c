// link: pipelined/spec
/* Where the fields of an effective spec come from: the stage, the spec's defaults, those of the project and the cluster, the language. */
#include "pipelined/text/json_text.h"
#include "tests/support/fixtures/effective.h"

/* The defaults of a context: first the cluster's, then the project's. */
struct defaults {
    const char *texts[3];
};

static const char *const *give(void *self, const char *project)
{
    (void)project;
    return ((struct defaults *)self)->texts;
}

static const char *origin_of(const json_t *origins, const char *path)
{
    return pl_json_str(origins, path);
}

/* "" if the origins are those of `want`, "PATH=ORIGIN …", else what is not. */
static void check(const char *spec, const json_t *origins, const char *want)
{
    char text[1024], *save = NULL;

    snprintf(text, sizeof text, "%s", want);
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *is = strchr(word, '=');

        *is++ = '\0';
        if (strcmp(origin_of(origins, word), is) != 0) {
            char *all = json_dumps(origins, JSON_SORT_KEYS);

            fail_msg("%s: %s is \"%s\", not \"%s\": %s", spec, word, origin_of(origins, word), is, all);
        }
    }
}

/* A spec of one stage "s"; `whole`: the text is the whole spec. */
static const struct {
    const char *cluster, *project, *defaults, *stage, *want;
} rows[] = {
    {"{}", "{}", "{}", "'workers':2", "name=stage workers=stage run=stage cache=language datum.tries=language on_new=language"},
    {"{}", "{}", "{}", "", "input.repo=stage input.name=language input.glob=language workers=language"},
    {"{}", "{}", "{'workers':3}", "", "workers=spec"},
    {"{}", "{}", "{'workers':3}", "'workers':2", "workers=stage"},
    {"{'workers':5}", "{}", "{}", "", "workers=cluster"},
    {"{'workers':5}", "{'workers':4}", "{}", "", "workers=project"},
    {"{'workers':5}", "{'workers':4}", "{'workers':3}", "", "workers=spec"},
    /* objects are merged field by field */
    {"{'resources':{'memory':'1Gi','cpu':1}}", "{'resources':{'cpu':2}}", "{'resources':{'disk':'1Gi'}}",
     "'resources':{'shm':'1Gi'}", "resources.memory=cluster resources.cpu=project resources.disk=spec resources.shm=stage"},
    {"{'env':{'A':'1'}}", "{'env':{'B':'1'}}", "{'env':{'A':'2'}}", "", "env.A=spec env.B=project"},
    /* null removes what lies below */
    {"{'workers':5}", "{'workers':null}", "{}", "", "workers=language"},
    {"{'workers':5}", "{}", "{'workers':null}", "", "workers=language"},
    {"{'workers':5}", "{}", "{}", "'workers':null", "workers=language"},
    {"{'env':{'A':'1'}}", "{'env':null}", "{}", "'env':{'B':'1'}", "env.B=stage"},
    /* a short form stands for the whole object */
    {"{}", "{}", "{}", "'gpu':2", "gpu.count=stage"},
    {"{}", "{}", "{'gpu':2}", "", "gpu.count=spec gpu.required=spec"},
    {"{'gpu':1}", "{}", "{}", "", "gpu.count=cluster"},
    {"{'gpu':1}", "{}", "{}", "'gpu':{'count':2}", "gpu.count=stage gpu.required=language"},
    {"{'gpu':{'count':1,'required':false}}", "{}", "{}", "'gpu':{'count':2}", "gpu.count=stage gpu.required=cluster"},
    {"{'gpu':{'count':1,'required':false}}", "{}", "{'gpu':1}", "'gpu':{'count':2}", "gpu.count=stage gpu.required=language"},
    /* lists are one field, except inputs */
    {"{'accept_codes':[3]}", "{}", "{}", "", "accept_codes=cluster"},
    {"{}", "{}", "{}", "'input':{'cross':[{'repo':'r'},{'repo':'q','glob':'/*'},{'params':{'a':[1]}}]}",
     "input.cross[0].repo=stage input.cross[0].glob=language input.cross[1].glob=stage input.cross[2].params=stage"},
    {"{}", "{}", "{}", "'input':{'pfs':{'repo':'r','glob':'/*'}}", "input.repo=stage input.glob=stage input.name=language"},
    /* an input is not completed by another layer's list */
    {"{}", "{}", "{'input':{'cross':[{'repo':'r','glob':'/*'}]}}", "'input':{'cross':[{'repo':'r'}]}",
     "input.cross[0].glob=language"},
    {"{}", "{'placement':{'pod_spec':{'a':1}}}", "{}", "", "placement.pod_spec=project"},
    {"{}", "{'placement':{'node_selector':{'a':'b'}}}", "{}", "", "placement.node_selector.a=project"},
};

static void a_field_comes_from_the_highest_layer_that_has_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        char text[2048], cluster[512], project[512], json[2048];
        json_t *spec, *outside = NULL, *origins = NULL, *stages;
        struct defaults d = {.texts = {cluster, project}};
        struct pl_err err = {0};
        const struct pl_spec_context ctx = {.self = &d, .defaults = give};

        quoted(rows[i].cluster, cluster, sizeof cluster);
        quoted(rows[i].project, project, sizeof project);
        snprintf(text, sizeof text, "{'pipeline':'p','defaults':%s,'stages':[{'name':'s','run':['x']%s%s%s}]}", rows[i].defaults,
                 strstr(rows[i].stage, "'input'") || strstr(rows[i].defaults, "'input'") ? "" : ",'input':{'repo':'r'}",
                 *rows[i].stage ? "," : "", rows[i].stage);
        spec = effective_in(text, &ctx);
        quoted(text, json, sizeof json);
        stages = json_pack("{s:O}", "s", json_array_get(json_object_get(spec, "stages"), 0));
        assert_int_equal(pl_spec_default_paths(cluster, project, &outside, &err), 0);
        assert_int_equal(pl_spec_origins(json, strlen(json), stages, outside, &origins, &err), 0);
        check(text, json_object_get(origins, "s"), rows[i].want);
        json_decref(spec);
        json_decref(stages);
        json_decref(outside);
        json_decref(origins);
    }
}

/* Every field of the effective spec has an origin, and each is one of the words of the header. */
static void every_field_has_an_origin(void **state)
{
    static const char text[] = "{\"pipeline\":\"p\",\"stages\":[{\"name\":\"s\",\"run\":[\"x\"],\"input\":{\"repo\":\"r\"}},"
                               "{\"name\":\"t\",\"run\":[\"x\"],\"input\":{\"repo\":\"s\"},\"gpu\":1}]}";
    json_t *spec = effective(text), *stages = json_object(), *origins = NULL, *one, *value;
    struct pl_err err = {0};
    const char *key;
    size_t i;

    (void)state;
    json_array_foreach(json_object_get(spec, "stages"), i, one)
    {
        json_object_set(stages, pl_json_str(one, "name"), one);
    }
    assert_int_equal(pl_spec_origins(text, strlen(text), stages, NULL, &origins, &err), 0);
    assert_int_equal(json_object_size(origins), 2);
    json_array_foreach(json_object_get(spec, "stages"), i, one)
    {
        const json_t *of = json_object_get(origins, pl_json_str(one, "name"));

        json_object_foreach(one, key, value)
        {
            const char *origin = pl_json_str(of, key);

            if (json_object_size(value) == 0)
                assert_true(strcmp(origin, "stage") == 0 || strcmp(origin, "unknown") == 0);
        }
    }
    /* without a record of the defaults outside, what is not written may come from there */
    assert_string_equal(origin_of(json_object_get(origins, "s"), "workers"), "unknown");
    assert_string_equal(origin_of(json_object_get(origins, "t"), "gpu.count"), "stage");
    json_decref(spec);
    json_decref(stages);
    json_decref(origins);
}

static void defaults_of_pachyderms_form_are_the_languages(void **state)
{
    static const struct {
        const char *text, *want;
    } specs[] = {
        {"{'pipeline':{'name':'s'},'transform':{'cmd':['x']},'input':{'pfs':{'repo':'r','glob':'/*'}}}",
         "name=stage run=stage input.glob=stage input.repo=stage datum.tries=language on_new=language "
         "output.copy_links=language"},
        {"{'pipeline':{'name':'s'},'transform':{'cmd':['x']},'datumTries':5,'input':{'pfs':{'repo':'r','glob':'/*'}}}",
         "datum.tries=stage"},
    };
    json_t *outside = json_object();

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(specs); i++) {
        json_t *spec = effective(specs[i].text), *origins = NULL,
               *stages = json_pack("{s:O}", "s", json_array_get(json_object_get(spec, "stages"), 0));
        struct pl_err err = {0};
        char json[1024];

        quoted(specs[i].text, json, sizeof json);
        assert_int_equal(pl_spec_origins(json, strlen(json), stages, outside, &origins, &err), 0);
        check(specs[i].text, json_object_get(origins, "s"), specs[i].want);
        json_decref(spec);
        json_decref(stages);
        json_decref(origins);
    }
    json_decref(outside);
}

static void the_paths_of_defaults_are_bounded(void **state)
{
    json_t *env = json_object(), *many = json_pack("{s:o}", "env", env), *outside = NULL, *origins = NULL, *stages, *spec;
    static const char text[] = "{\"pipeline\":\"p\",\"stages\":[{\"name\":\"s\",\"run\":[\"x\"],\"input\":{\"repo\":\"r\"}}]}";
    struct pl_err err = {0};
    char *json, key[16];

    (void)state;
    for (unsigned i = 0; i < PL_SPEC_DEFAULT_PATHS_MAX + 1; i++) {
        snprintf(key, sizeof key, "V%u", i);
        json_object_set_new(env, key, json_string("1"));
    }
    json = json_dumps(many, 0);
    assert_int_equal(pl_spec_default_paths(json, "{}", &outside, &err), 0);
    assert_int_equal(json_array_size(json_object_get(outside, "cluster")), PL_SPEC_DEFAULT_PATHS_MAX);
    assert_true(json_is_true(json_object_get(outside, "cut")));
    /* what is not listed may have been left out */
    spec = effective(text);
    stages = json_pack("{s:O}", "s", json_array_get(json_object_get(spec, "stages"), 0));
    assert_int_equal(pl_spec_origins(text, strlen(text), stages, outside, &origins, &err), 0);
    assert_string_equal(origin_of(json_object_get(origins, "s"), "workers"), "unknown");
    json_decref(outside);
    outside = NULL;
    assert_int_equal(pl_spec_default_paths("{}", "{}", &outside, &err), 0);
    assert_null(json_object_get(outside, "cut"));
    free(json);
    json_decref(spec);
    json_decref(stages);
    json_decref(origins);
    json_decref(many);
    json_decref(outside);
}

static void a_text_that_is_no_json_has_no_origins(void **state)
{
    json_t *stages = json_object(), *origins = NULL;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_spec_origins("{", 1, stages, NULL, &origins, &err), PL_ESPEC);
    assert_null(origins);
    json_decref(stages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_comes_from_the_highest_layer_that_has_it),
        cmocka_unit_test(every_field_has_an_origin),
        cmocka_unit_test(defaults_of_pachyderms_form_are_the_languages),
        cmocka_unit_test(the_paths_of_defaults_are_bounded),
        cmocka_unit_test(a_text_that_is_no_json_has_no_origins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
