/* Inputs from git repositories. A spec writes {"git": {"name", "url", "glob", …}}; the effective spec is that of the repo NAME,
 * {"repo": "PROJECT/NAME@master", "name", "glob", …, "git": {"url", "branch", …}}, which is also read. */
#include "pipelined/spec/spec_reader.h"

#include "pipelined/policy/project_secret.h"
#include "pipelined/text/git_address.h"
#include "storage/base/path.h"

#include <stdio.h>

/* Returns the form of a spec for that of an effective spec, a new reference; NULL if `value` is not of that form, or memory
 * runs out. */
static json_t *unfolded(struct spec_reader *r, const json_t *value)
{
    const char *repo = json_string_value(json_object_get(value, "repo")),
               *name = json_string_value(json_object_get(value, "name"));
    const json_t *git = json_object_get(value, "git");
    char own[3 * PL_NAME_MAX_BYTES + 8];
    json_t *out;

    if (repo == NULL || name == NULL || !json_is_object(git))
        return NULL;
    (void)snprintf(own, sizeof(own), "%s/%s@%s", r->spec->project, name, PL_DEFAULT_BRANCH);
    out = pl_streq(repo, own) ? json_copy((json_t *)(uintptr_t)value) : NULL;
    if (out == NULL || json_object_del(out, "repo") < 0 || json_object_del(out, "git") < 0 ||
        json_object_update_missing(out, (json_t *)(uintptr_t)git) < 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static void check_origin(struct spec_reader *r, const struct pl_input *input)
{
    struct pl_err err = {0};

    if (input->git_source == NULL && input->git_url == NULL)
        pl_spec_problem(r,
                        "\"url\" is missing: the address of the repository, or \"source\": the name of a source of the project");
    else if (input->git_source != NULL && input->git_url != NULL)
        pl_spec_problem(r, "both \"source\" and \"url\" are given: exactly one is accepted");
    else if (input->git_source != NULL && input->git_secret[0] != '\0')
        pl_spec_problem(r, "\"secret\" is only accepted with \"url\": with \"source\" that of the source is used");
    else if (input->git_secret[0] != '\0' && pl_secret_name_check(input->git_secret, &err) < 0)
        pl_spec_problem(r, "secret: %s", err.msg);
}

void pl_spec_read_git(struct spec_reader *r, json_t *value, struct pl_input *input)
{
    const size_t path_len = r->path.len, problems = r->n_problems;
    json_t *own = json_object_size(value) > 1 ? unfolded(r, value) : NULL;
    json_t *git = own != NULL ? own : json_object_get(value, "git");

    if (own == NULL && json_object_size(value) > 1)
        pl_spec_problem(r, "no other field may be beside \"git\": move the other fields into it");
    pl_spec_enter_key(r, "git");
    if (!json_is_object(git))
        pl_spec_problem_value(r, git, pl_spec_type_git.accepts);
    else
        pl_spec_read_object(r, &pl_spec_object_git, git, input);
    json_decref(own);
    if (r->n_problems == problems)
        check_origin(r, input);
    pl_spec_leave(r, path_len);
    input->project = r->spec->project;
    input->repo = input->name;
    input->branch = PL_DEFAULT_BRANCH;
}

/* ---- types of fields ---- */

/* Does nothing: pl_spec_read_git has parsed the field. */
static void read_git(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    (void)r;
    (void)field;
    (void)value;
    (void)object;
}

/* Writes where the files come from. */
static json_t *write_git(const struct spec_field *field, const void *object)
{
    const struct pl_input *input = object;

    (void)field;
    return pl_input_follows_git(input) ? pl_spec_git_json(input) : json_null();
}

static void read_url(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *text = json_string_value(value);
    struct pl_git_address address;
    struct pl_err err = {0};

    if (text == NULL)
        pl_spec_problem_value(r, value, field->type->accepts);
    else if (pl_git_address_parse(text, &address, &err) < 0)
        pl_spec_problem(r, "%s", err.msg);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, text);
}

static void read_branch(struct spec_reader *r, const struct spec_field *field, json_t *value, void *object)
{
    const char *text = json_string_value(value);
    struct pl_err err = {0};

    if (text == NULL)
        pl_spec_problem_value(r, value, field->type->accepts);
    else if (pl_git_branch_check(text, &err) < 0)
        pl_spec_problem(r, "%s", err.msg);
    else
        *(const char **)pl_spec_at(object, field) = pl_spec_strdup(r, text);
}

/* ---- checks with other inputs ---- */

json_t *pl_spec_git_json(const struct pl_input *leaf)
{
    return json_pack("{s:s*, s:s*, s:s*, s:s*}", "source", leaf->git_source, "url", leaf->git_url, "branch",
                     *leaf->git_branch ? leaf->git_branch : NULL, "secret", *leaf->git_secret ? leaf->git_secret : NULL);
}

/* True if both leaves, which follow git, have the same repository, branch and secret. */
static bool same_origin(const struct pl_input *a, const struct pl_input *b)
{
    return pl_streq(a->git_source ? a->git_source : "", b->git_source ? b->git_source : "") &&
           pl_streq(a->git_url ? a->git_url : "", b->git_url ? b->git_url : "") && pl_streq(a->git_branch, b->git_branch) &&
           pl_streq(a->git_secret, b->git_secret);
}

void pl_spec_check_git(struct spec_reader *r, size_t i, size_t j, const struct pl_stage *stage)
{
    const struct pl_input *leaf = r->spec->stages[i].leaves[j];

    pl_spec_enter_leaf(r, i, j, "name");
    if (stage != NULL)
        pl_spec_problem(r, "the stage stages[%zu] writes a repo of that name: rename one of them",
                        (size_t)(stage - r->spec->stages));
    for (size_t s = 0; s <= i; s++) /* the leaves of later stages are not known yet */
        for (size_t k = 0; k < (s < i ? r->spec->stages[s].n_leaves : j); k++) {
            const struct pl_input *other = r->spec->stages[s].leaves[k];

            if (!pl_input_follows_git(other) || other->name == NULL || leaf->name == NULL || !pl_streq(other->name, leaf->name) ||
                same_origin(other, leaf))
                continue;
            pl_spec_problem(r, "stages[%zu] has a git input \"%s\" of another repository or branch: rename one of them", s,
                            leaf->name);
            return;
        }
}

static bool fills(const struct pl_input *tree, const char *repo)
{
    bool found = tree->repo != NULL && pl_input_follows_git(tree) && pl_streq(tree->repo, repo);

    for (size_t i = 0; i < tree->n_children && !found; i++)
        found = fills(&tree->children[i], repo);
    return found;
}

bool pl_spec_git_fills(const struct pl_spec *spec, const char *project, const char *repo)
{
    bool found = false;

    for (size_t i = 0; i < spec->n_stages && !found && pl_streq(project, spec->project); i++)
        found = spec->stages[i].input != NULL && fills(spec->stages[i].input, repo);
    return found;
}

const struct spec_type pl_spec_type_git = {"an object with \"name\", and \"source\" or \"url\"", "{\"$ref\":\"#/$defs/git\"}",
                                           read_git, write_git};
const struct spec_type pl_spec_type_git_url = {"https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH or /FOLDER",
                                               "{\"type\":\"string\"}", read_url, pl_spec_write_text};
const struct spec_type pl_spec_type_git_branch = {"the name of a git branch", "{\"type\":\"string\"}", read_branch,
                                                  pl_spec_write_text};
