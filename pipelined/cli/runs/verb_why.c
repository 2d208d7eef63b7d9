/* why: prints where a file comes from, as a tree of stages and inputs. */
#include "pipelined/cli/support/args.h"
#include "pipelined/cli/support/server_client.h"
#include "pipelined/cli/support/show.h"
#include "storage/base/map.h"
#include "storage/base/path.h"
#include <stdio.h>

#define INDENT_MAX 512

/* True if the server stopped before it had counted all files of the node. */
static bool has_more(const json_t *node)
{
    return json_is_true(pl_show_at(node, "more"));
}

/* `project`: that of the file that is asked about. */
static void print_head(const json_t *node, const char *project)
{
    char of[PL_SHOW_PROJECT_MAX], path[PL_SHOW_TEXT_MAX], size[32];
    const char *input = pl_show_text_at(node, "input"), *commit = pl_show_text_at(node, "commit");

    if (*input)
        pl_show_print(stdout, "%s = ", input);
    pl_show_clean(pl_show_text_at(node, "path"), path, sizeof path);
    if (!*pl_show_text_at(node, "repo")) { /* parameters of a datum */
        pl_show_print(stdout, "%s", path);
        return;
    }
    pl_show_print(stdout, "%s%s%s%.8s:%s%s", pl_show_project_of(node, project, of), pl_show_text_at(node, "repo"),
                  *commit ? "@" : "", commit, *path == '/' ? "" : "/", path);
    if (pl_show_at(node, "size"))
        printf("  %s", pl_size_text((uint64_t)pl_show_int_at(node, "size"), size));
    if (pl_show_at(node, "files"))
        printf("  %lld%s file%s", (long long)pl_show_int_at(node, "files"), has_more(node) ? "+" : "",
               pl_show_int_at(node, "files") == 1 ? "" : "s");
}

/* Prints the image in which the file was made: the image's digest, or else its name. */
static void print_image(const char *image)
{
    char text[PL_SHOW_TEXT_MAX];
    const char *at = strrchr(pl_show_clean(image, text, sizeof text), '@'), *colon = at ? strchr(at, ':') : NULL;

    if (colon)
        printf(", image %.*s%.12s", (int)(colon + 1 - text), text, colon + 1);
    else if (*text)
        printf(", image %s", text);
}

/* Completes the node's line: prints the stage that made the file, or the time at which the file was
 * pushed. */
static void print_maker(const json_t *node)
{
    const char *stage = pl_show_text_at(node, "stage");
    const char *head = pl_show_text_at(node, pl_show_at(node, "origin") ? "origin.commit" : "git.head");
    char when[PL_SHOW_TEXT_MAX], note[PL_SHOW_TEXT_MAX];

    if (*stage) {
        pl_show_print(stdout, "  made by %s in run %.8s%s, code %.8s", stage, pl_show_text_at(node, "run"),
                      json_is_true(pl_show_at(node, "reused")) ? " (reused)" : "", pl_show_text_at(node, "code"));
        if (*head)
            pl_show_print(stdout, " (git %.12s%s)", head, json_is_true(pl_show_at(node, "git.dirty")) ? ", changed since" : "");
        print_image(pl_show_text_at(node, "image_id"));
    } else if (pl_show_at(node, "created_us")) {
        pl_show_time(pl_show_at(node, "created_us"), node, when);
        printf("  pushed %s", when);
        if (*head)
            printf(" (git %.12s)", head);
    } else if (*head) { /* a folder */
        printf("  (git %.12s)", head);
    }
    if (pl_show_at(node, "note"))
        printf("  (%s)", pl_show_clean(pl_show_text_at(node, "note"), note, sizeof note));
}

/* Returns true if this file of this commit has not been printed before, and records it in `told`. */
static bool first_time(struct pl_map *told, const json_t *node)
{
    char key[PL_PATH_MAX_BYTES + 256];
    int n = snprintf(key, sizeof key, "%s/%s@%s:%s", pl_show_text_at(node, "project"), pl_show_text_at(node, "repo"),
                     pl_show_text_at(node, "commit"), pl_show_text_at(node, "path"));
    size_t len = PL_MIN((size_t)n, sizeof key - 1);

    if (pl_map_get(told, key, len))
        return false;
    (void)!pl_map_put(told, key, len, told, NULL, NULL); /* if memory runs out, the file is printed twice */
    return true;
}

/* Prints a node, and below it, indented, the nodes from which it was made. */
static void print_node(struct pl_map *told, const json_t *node, const char *project, char indent[INDENT_MAX])
{
    const json_t *inputs = json_object_get(node, "inputs"), *child;
    size_t i, n = json_array_size(inputs), len = strlen(indent);
    json_int_t files = pl_show_int_at(node, "files");

    print_head(node, project);
    if (n && *pl_show_text_at(node, "stage") && !first_time(told, node)) {
        puts("  (as above)");
        return;
    }
    print_maker(node);
    putchar('\n');
    if (len + 8 >= INDENT_MAX)
        return;
    json_array_foreach(inputs, i, child)
    {
        bool last = i + 1 == n && files <= (json_int_t)n && !has_more(node);

        printf("%s%s", indent, last ? "└─ " : "├─ ");
        snprintf(indent + len, INDENT_MAX - len, "%s", last ? "   " : "│  ");
        print_node(told, child, project, indent);
        indent[len] = '\0';
    }
    if (n && has_more(node))
        printf("%s└─ … and more files\n", indent);
    else if (n && files > (json_int_t)n)
        printf("%s└─ … and %lld more files\n", indent, (long long)(files - (json_int_t)n));
}

/* Prints each git commit that the tree names, once: its file, subject and author. */
static void print_origins(struct pl_map *told, const json_t *node)
{
    const json_t *origin = pl_show_at(node, "origin"), *child;
    const char *commit = pl_show_text_at(origin, "commit");
    char text[PL_SHOW_TEXT_MAX];
    size_t i;

    if (*commit && !pl_map_get(told, commit, strlen(commit)) && pl_map_put(told, commit, strlen(commit), told, NULL, NULL) >= 0) {
        pl_show_origin(origin, node, text);
        pl_show_print(stdout, "git %s\n", text);
    }
    json_array_foreach(pl_show_at(node, "inputs"), i, child)
    {
        print_origins(told, child);
    }
}

static int why(struct pl_cli *c, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *node = NULL;
    _cleanup_free_ char *path = NULL;
    char commit[PL_NAME_MAX_BYTES + 16], indent[INDENT_MAX] = "";
    struct pl_map told = {0}, commits = {0};
    struct pl_commit_ref ref;
    int r = pl_cli_ref(c, c->args[0], &ref, err);

    if (r < 0)
        return r;
    path = pl_http_path_make("/api/v1/why/%s/%s/%s/%p", ref.project, ref.repo, pl_cli_ref_text(&ref, commit), ref.path);
    r = pl_cli_call(c, "GET", path, NULL, &node, err);
    if (r < 0 || c->json)
        return r < 0 ? r : pl_show_json(node, err);
    print_node(&told, node, pl_show_text_at(node, "project"), indent);
    print_origins(&commits, node);
    pl_map_finish(&told, NULL);
    pl_map_finish(&commits, NULL);
    return 0;
}

static const struct pl_verb verbs[] = {
    {"why",
     NULL,
     "REPO@REF:/PATH",
     1,
     1,
     NULL,
     why,
     "Shows where a file comes from: the stage, its code, its inputs, and so on back to what was pushed.",
     {"why infer@master:/b1/predictions.csv", "why report@master:/report.json", "why report@9ab2f1c4:/report.json --json"}},
};
PL_CLI_TABLE(why, verbs);
