/* Chooses a local folder or a commit of a daemon for each input of a stage, and finds the datum to try. */
#include "pipelined/cli/try/try_inputs.h"

#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "storage/pack/pack_format.h"
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define ID_START_MIN 4u
#define NUMBER_MAX   8u /* a text of at most this many digits is a datum's number; a longer one is an id */

/* ---- sources of inputs ---- */

/* The daemon's store of one project. */
struct pl_cli_try_store {
    struct pl_cli_try_store *next;
    char project[PL_NAME_MAX_BYTES + 1];
    struct pl_remote *remote;
    struct pl_chunk_reader reader; /* reads records through `remote` */
};

static int node_of_remote(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    const struct pl_chunk_reader *reader = self;

    return reader->get(reader->self, id, PL_REC_NODE, ret, err);
}

static int open_store(struct pl_cli_try_inputs *in, const char *project, struct pl_cli_try_store **ret, struct pl_err *err)
{
    struct pl_cli_try_store *s = in->stores;
    struct pl_http_client *client;
    int r;

    while (s && !pl_streq(s->project, project))
        s = s->next;
    *ret = s;
    if (s)
        return 0;
    s = calloc(1, sizeof *s);
    if (!s)
        return pl_err_nomem(err);
    snprintf(s->project, sizeof s->project, "%s", project);
    r = pl_cli_client(in->c, &client, err);
    r = r < 0 ? r : pl_remote_open(client, project, &s->remote, err);
    if (r < 0) {
        free(s);
        return r;
    }
    s->reader = pl_remote_reader(s->remote);
    s->next = in->stores;
    *ret = in->stores = s;
    return 0;
}

/* Uses the commit that the job read for this input. Returns 1, or 0 if the job has no such input. */
static int bind_to_job(const struct pl_cli_try_inputs *in, const struct pl_input *leaf, struct pl_cli_try_leaf *ret,
                       struct pl_err *err)
{
    const json_t *one;
    size_t i;

    json_array_foreach(json_object_get(in->job, "inputs"), i, one)
    {
        if (!pl_streq(pl_show_text_at(one, "project"), leaf->project) || !pl_streq(pl_show_text_at(one, "repo"), leaf->repo) ||
            !pl_streq(pl_show_text_at(one, "branch"), leaf->branch))
            continue;
        snprintf(ret->commit, sizeof ret->commit, "%s", pl_show_text_at(one, "commit"));
        return pl_hash_parse(pl_show_text_at(one, "root"), &ret->root, err) < 0 ? PL_EPROTO : 1;
    }
    return 0;
}

/* Uses the newest commit of the input's branch. A branch without a commit gives an empty tree. */
static int bind_to_head(struct pl_cli_try_inputs *in, const struct pl_input *leaf, struct pl_cli_try_leaf *ret,
                        struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *commit = NULL;
    _cleanup_free_ char *path = pl_http_path_make("/api/v1/repos/%s/%s/commits/%s", leaf->project, leaf->repo, leaf->branch);
    int r = pl_cli_call(in->c, "GET", path, NULL, &commit, err);

    if (r < 0)
        return r;
    snprintf(ret->commit, sizeof ret->commit, "%s", pl_show_text_at(commit, "id"));
    return pl_hash_parse(pl_show_text_at(commit, "root"), &ret->root, err);
}

static int bind_leaf(struct pl_cli_try_inputs *in, size_t i, struct pl_err *err)
{
    const struct pl_input *leaf = in->stage->leaves[i];
    struct pl_cli_try_leaf *to = &in->leaves[i];
    struct pl_cli_try_store *store = NULL;
    int r;

    if (!pl_input_reads(leaf))
        return 0;
    to->folder = pl_cli_input_option_of(&in->folders, leaf);
    if (to->folder) {
        to->root = to->folder->tree.root;
        to->source = pl_name_tree_source(&to->folder->tree);
        return 0;
    }
    /* if no input is read from the daemon, a `previous` input is empty, as in the first job of a stage */
    if (leaf->previous && !in->asks_daemon && !in->job)
        return 0;
    in->asks_daemon = true;
    r = open_store(in, leaf->project, &store, err);
    r = r < 0 ? r : bind_to_job(in, leaf, to, err);
    if (r == 0)
        r = bind_to_head(in, leaf, to, err);
    if (r >= 0) {
        to->source = (struct pl_node_source){.self = &store->reader, .get = node_of_remote};
        return 0;
    }
    pl_err_wrap(err, r, "input %s", leaf->name);
    if (leaf->environment && (r == PL_ENET || r == PL_ENOTFOUND))
        return pl_err_hint(err, r,
                           "It is the stage's environment. Make it with: pipelinectl try -f SPEC %s -o DIR, and give it with: "
                           "--input %s=DIR",
                           leaf->repo, leaf->repo);
    return r == PL_ENET
               ? pl_err_hint(err, r, "To work without a server, give --input %s=DIR, a local folder to read instead of the repo.",
                             leaf->repo)
               : r;
}

int pl_cli_try_inputs_bind(struct pl_cli_try_inputs *in, struct pl_cli *c, const struct pl_stage *stage, json_t *job,
                           struct pl_err *err)
{
    char reader[PL_NAME_MAX_BYTES + 16];
    int r;

    in->c = c;
    in->stage = stage;
    in->job = job;
    r = pl_cli_input_options_read(c, &in->folders, err);
    for (size_t i = 0; r == 0 && i < stage->n_leaves; i++)
        r = stage->leaves[i]->previous ? 0 : bind_leaf(in, i, err);
    /* bind the `previous` inputs last: they are read from the daemon only if another input is */
    for (size_t i = 0; r == 0 && i < stage->n_leaves; i++)
        r = stage->leaves[i]->previous ? bind_leaf(in, i, err) : 0;
    snprintf(reader, sizeof reader, "stage %s", stage->name);
    return r < 0 ? r : pl_cli_input_options_check_used(&in->folders, reader, err);
}

void pl_cli_try_inputs_finish(struct pl_cli_try_inputs *in)
{
    pl_cli_input_options_finish(&in->folders);
    for (struct pl_cli_try_store *s = in->stores, *next; s; s = next) {
        next = s->next;
        pl_remote_close(s->remote);
        free(s);
    }
}

int pl_cli_try_inputs_plan(const struct pl_cli_try_inputs *in, const struct pl_hash *code_identity, struct pl_plan **ret,
                           struct pl_err *err)
{
    struct pl_plan_input inputs[PL_SPEC_LEAVES_MAX];
    struct pl_plan_request request = {.stage = in->stage, .inputs = inputs};

    if (code_identity)
        request.code_identity = *code_identity;
    for (size_t i = 0; i < in->stage->n_leaves; i++)
        inputs[i] = (struct pl_plan_input){.root = in->leaves[i].root, .source = &in->leaves[i].source};
    return pl_plan_create(&request, ret, err);
}

/* ---- choice of the datum ---- */

/* Sets PL_ENOTFOUND; the message names the first input whose glob matches nothing. */
static int no_datum(const struct pl_plan *plan, struct pl_err *err)
{
    for (size_t i = 0; i < plan->n_leaves; i++)
        if (plan->leaves[i].n == 0)
            return pl_err_set(err, PL_ENOTFOUND, "stage %s has no datum: nothing in %s matches \"%s\"", plan->stage->name,
                              plan->stage->leaves[i]->repo, plan->stage->leaves[i]->glob);
    return pl_err_set(err, PL_ENOTFOUND, "stage %s has no datum", plan->stage->name);
}

/* True if `text` is the path of one of the datum's inputs, or the text of all its paths. */
static bool has_path(const struct pl_plan *plan, size_t datum, const char *text)
{
    char all[PL_ERR_MSG_BYTES];

    for (size_t i = 0; i < plan->n_leaves; i++) {
        const struct pl_plan_match *m = pl_plan_match_of(plan, datum, i);

        if (m && pl_streq(m->path, text + (*text == '/')))
            return true;
    }
    return pl_streq(pl_plan_datum_text(plan, datum, all, sizeof all), text);
}

static bool starts_id(const char *text)
{
    size_t n = strspn(text, "0123456789abcdefABCDEF");

    return !text[n] && n >= ID_START_MIN && n <= PL_HASH_HEX;
}

/* Finds the datum whose id starts with `text`. Returns 1 if there is exactly one, 0 if there is none, or an
 * error. */
static int by_id(const struct pl_plan *plan, const char *text, size_t *ret, struct pl_err *err)
{
    size_t found = 0, n = strlen(text);
    char hex[PL_HASH_HEX + 1];
    struct pl_hash id;

    for (size_t d = 0; d < plan->n_datums; d++) {
        pl_plan_datum_id(plan, d, &id);
        if (strncasecmp(pl_hash_hex(&id, hex), text, n) != 0)
            continue;
        if (found++)
            return pl_err_set(err, PL_EUSAGE, "--datum %s: several ids start like this: give more digits", text);
        *ret = d;
    }
    return found > 0;
}

int pl_cli_datum_choose(const struct pl_plan *plan, const char *text, size_t *ret, struct pl_err *err)
{
    size_t digits = text ? strspn(text, "0123456789") : 0;
    int r = 0;

    if (plan->n_datums == 0)
        return no_datum(plan, err);
    if (!text) {
        *ret = 0;
        return 0;
    }
    if (digits && !text[digits] && digits <= NUMBER_MAX && strtoul(text, NULL, 10) < plan->n_datums) {
        *ret = strtoul(text, NULL, 10);
        return 0;
    }
    if (starts_id(text))
        r = by_id(plan, text, ret, err);
    for (size_t d = 0; r == 0 && d < plan->n_datums; d++)
        if (has_path(plan, d, text)) {
            *ret = d;
            return 0;
        }
    if (r == 0)
        r = pl_err_set(err, PL_ENOTFOUND,
                       "--datum %.200s: stage %s has %zu datum%s, none with this number, id or path: pipelinectl plan lists them",
                       text, plan->stage->name, plan->n_datums, plan->n_datums == 1 ? "" : "s");
    return PL_MIN(r, 0);
}

static bool same_match(const struct pl_plan_match *a, const struct pl_plan_match *b)
{
    return a && b ? pl_streq(a->path, b->path) : a == b;
}

int pl_cli_datum_same(const struct pl_plan *plan, const struct pl_plan *other, size_t datum, size_t *ret, struct pl_err *err)
{
    for (size_t d = 0; d < plan->n_datums; d++) {
        size_t same = 0;

        for (size_t i = 0; i < plan->n_leaves; i++)
            same += same_match(pl_plan_match_of(plan, d, i), pl_plan_match_of(other, datum, i));
        if (same == plan->n_leaves) {
            *ret = d;
            return 0;
        }
    }
    return pl_err_set(err, PL_ECHANGED, "the datum's files changed while they were read: try again");
}
