/* git_copy: fetches one branch into a bare repository, and walks the trees of its commits. */
#include "pipelined/git/git_copy.h"

#include "pipelined/text/glob.h"
#include "pipelined/text/ignore_rules.h"
#include "storage/base/buf.h"
#include "storage/base/path.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>

#define TIP                   "refs/pipelined/tip"
#define PREVIEW               "refs/pipelined/preview"
#define HEADS                 "refs/heads/"
#define LFS_POINTER           "version https://git-lfs.github.com/spec/"
#define LFS_POINTER_BYTES_MAX 1024u
#define TIME_MAX_S            253402300799 /* the end of the year 9999 */
#define BRANCHES_SHOWN        5u

void pl_git_commit_finish(struct pl_git_commit *c)
{
    free(c->author);
    free(c->message);
    *c = (struct pl_git_commit){0};
}

/* Removes files whose names begin with `start` from the folder dir/below. */
static int remove_files(const char *dir, const char *below, const char *start, struct pl_err *err)
{
    char path[PATH_MAX];
    const struct dirent *e;
    DIR *folder;

    if (snprintf(path, sizeof path, "%s/%s", dir, below) >= (int)sizeof path)
        return pl_err_set(err, PL_EINVAL, "the folder's path is too long");
    folder = opendir(path);
    while (folder && (e = readdir(folder)))
        if (strncmp(e->d_name, start, strlen(start)) == 0)
            (void)unlinkat(dirfd(folder), e->d_name, 0); /* a later step fails if it matters */
    if (folder)
        closedir(folder);
    return 0;
}

static int clean(const char *dir, struct pl_err *err)
{
    int r = remove_files(dir, "refs/pipelined", "tip.lock", err);

    r = r < 0 ? r : remove_files(dir, "refs/pipelined", "preview.lock", err);
    r = r < 0 ? r : remove_files(dir, "objects/pack", "pack_git2_", err);
    return r < 0 ? r : remove_files(dir, ".", "packed-refs.lock", err);
}

int pl_git_copy_open(const char *dir, git_repository **ret, struct pl_err *err)
{
    git_repository_init_options options = GIT_REPOSITORY_INIT_OPTIONS_INIT;
    int r = git_repository_open_bare(ret, dir);

    if (r != GIT_ENOTFOUND)
        return r < 0 ? pl_git_damaged(err, "cannot open the copy of the repository") : clean(dir, err);
    options.flags = GIT_REPOSITORY_INIT_BARE | GIT_REPOSITORY_INIT_MKPATH;
    return git_repository_init_ext(ret, dir, &options) < 0 ? pl_git_fail(err, "cannot make the copy of the repository") : 0;
}

/* ---- the tip ---- */

static int no_branch(const char *branch, const git_remote_head *const *heads, size_t n, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf there = {.max = 1024};
    unsigned shown = 0;

    for (size_t i = 0; i < n && shown < BRANCHES_SHOWN; i++)
        if (strncmp(heads[i]->name, HEADS, sizeof HEADS - 1) == 0)
            (void)!pl_buf_addf(&there, NULL, "%s%.100s", shown++ ? ", " : "", heads[i]->name + sizeof HEADS - 1);
    if (!*branch)
        return pl_err_set(err, PL_ENOTFOUND, "the repository has no commit yet");
    return pl_err_set(err, PL_ENOTFOUND, "the repository has no branch \"%s\"%s%s", branch, shown ? "; it has " : "",
                      shown ? pl_buf_str(&there) : "");
}

/* Finds the branch among the references of the repository. `name` receives its full name. */
static int find_tip(struct pl_git_remote *remote, const char *branch, char name[PL_PATH_MAX_BYTES], git_oid *ret,
                    struct pl_err *err)
{
    const git_remote_head **heads = NULL;
    size_t n = 0;
    int r = pl_git_remote_list(remote, &heads, &n, err);

    if (r < 0)
        return r;
    if (*branch)
        snprintf(name, PL_PATH_MAX_BYTES, HEADS "%s", branch);
    for (size_t i = 0; i < n && !*branch; i++)
        if (strcmp(heads[i]->name, "HEAD") == 0)
            snprintf(name, PL_PATH_MAX_BYTES, "%s", heads[i]->symref_target ? heads[i]->symref_target : "HEAD");
    for (size_t i = 0; i < n; i++)
        if (strcmp(heads[i]->name, name) == 0) {
            git_oid_cpy(ret, &heads[i]->oid);
            return 0;
        }
    return no_branch(branch, (const git_remote_head *const *)heads, n, err);
}

static int read_commit(git_repository *copy, const git_oid *id, const char *have, struct pl_git_commit *ret, struct pl_err *err)
{
    const git_signature *author;
    git_commit *commit = NULL;
    git_oid before;
    int r;

    if (git_commit_lookup(&commit, copy, id) < 0) {
        git_object *other = NULL;
        const bool there = git_object_lookup(&other, copy, id, GIT_OBJECT_ANY) == 0;

        git_object_free(other);
        return there ? pl_err_set(err, PL_EINVAL, "the branch does not name a commit")
                     : pl_git_damaged(err, "cannot read the commit at the branch's tip");
    }
    author = git_commit_author(commit);
    git_oid_tostr(ret->id, sizeof ret->id, id);
    ret->at_s = PL_MIN(PL_MAX(git_commit_time(commit), (int64_t)0), (int64_t)TIME_MAX_S);
    ret->message = strndup(git_commit_message(commit), PL_GIT_MESSAGE_BYTES);
    r = asprintf(&ret->author, "%.200s <%.200s>", author->name, author->email);
    git_commit_free(commit);
    if (r < 0)
        ret->author = NULL;
    if (!ret->message || !ret->author) {
        pl_git_commit_finish(ret);
        return pl_err_nomem(err);
    }
    pl_utf8_clean(ret->message);
    pl_utf8_clean(ret->author);
    ret->forced = *have && git_oid_fromstr(&before, have) == 0 && !git_oid_equal(&before, id) &&
                  git_graph_descendant_of(copy, id, &before) != 1;
    return 0;
}

int pl_git_copy_look(git_repository *copy, const struct pl_git_branch *branch, struct pl_git_network *network,
                     struct pl_git_commit *ret, struct pl_err *err)
{
    char name[PL_PATH_MAX_BYTES] = "", spec[PL_PATH_MAX_BYTES + sizeof TIP + 2];
    struct pl_git_remote *remote = NULL;
    git_odb *odb = NULL;
    git_oid tip;
    int r;

    *ret = (struct pl_git_commit){0};
    r = pl_git_remote_connect(copy, branch->url, network, &branch->secret, &remote, err);
    if (r < 0)
        return r;
    r = find_tip(remote, branch->name, name, &tip, err);
    if (r == 0 && git_repository_odb(&odb, copy) < 0)
        r = pl_git_damaged(err, "cannot open the copy of the repository");
    snprintf(spec, sizeof spec, "+%s:%s", name, branch->preview ? PREVIEW : TIP);
    if (r == 0 && !git_odb_exists(odb, &tip))
        r = pl_git_remote_fetch(remote, spec, err);
    git_odb_free(odb);
    pl_git_remote_destroy(remote);
    return r < 0 ? r : read_commit(copy, &tip, branch->have, ret, err);
}

int pl_git_copy_branches(git_repository *copy, const struct pl_git_branch *where, struct pl_git_network *network,
                         int (*branch)(const char *name, const char *id, struct pl_err *err), bool *ret_more,
                         char ret_head[PL_GIT_BRANCH_BYTES + 1], struct pl_err *err)
{
    struct pl_git_remote *remote = NULL;
    const git_remote_head **heads = NULL;
    char id[GIT_OID_HEXSZ + 1];
    size_t n = 0, told = 0;
    int r = pl_git_remote_connect(copy, where->url, network, &where->secret, &remote, err);

    *ret_head = '\0';
    *ret_more = false;
    r = r < 0 ? r : pl_git_remote_list(remote, &heads, &n, err);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const char *name = heads[i]->name, *head = heads[i]->symref_target;

        if (strcmp(name, "HEAD") == 0 && head && strncmp(head, HEADS, sizeof HEADS - 1) == 0)
            snprintf(ret_head, PL_GIT_BRANCH_BYTES + 1, "%s", head + sizeof HEADS - 1);
        if (strncmp(name, HEADS, sizeof HEADS - 1) != 0)
            continue;
        name += sizeof HEADS - 1;
        if (strlen(name) > PL_GIT_BRANCH_BYTES || !pl_utf8_ok(name, strlen(name)) ||
            git_reference_is_valid_name(heads[i]->name) != 1)
            continue;
        if (told == PL_GIT_BRANCHES_MAX) {
            *ret_more = true;
            break;
        }
        git_oid_tostr(id, sizeof id, &heads[i]->oid);
        r = branch(name, id, err);
        told++;
    }
    pl_git_remote_destroy(remote);
    return r;
}

/* ---- files ---- */

struct walk {
    git_repository *copy;
    git_odb *odb;
    const struct pl_git_selection *want;
    int (*file)(void *self, const struct pl_git_file *file, struct pl_err *err);
    void *self;
    struct pl_glob *glob;
    struct pl_glob_set *files;
    struct pl_ignore_rules *rules;
    uint64_t n, len;  /* files taken, and their bytes */
    uint64_t entries; /* looked at */
    char path[PL_PATH_MAX_BYTES + 1];
};

/* Checks a file's size before its content is read. */
static int check_size(struct walk *w, const git_oid *id, struct pl_err *err)
{
    git_object_t type;
    size_t len = 0;

    if (git_odb_read_header(&len, &type, w->odb, id) < 0)
        return pl_git_damaged(err, w->path);
    if (++w->n > w->want->n_max)
        return pl_err_set(err, PL_ELIMIT, "more than %llu files match", (unsigned long long)w->want->n_max);
    w->len += len;
    if (len > PL_GIT_FILE_BYTES_MAX)
        return pl_err_set(err, PL_ETOOBIG, "%s has %zu bytes; a file may have at most %llu", w->path, len, PL_GIT_FILE_BYTES_MAX);
    if (len > w->want->len_max || w->len > w->want->len_max)
        return pl_err_set(err, PL_ETOOBIG, "%s has %zu bytes; %s at most %llu", w->path, len,
                          len > w->want->len_max ? "a file may have" : "the files together may have",
                          (unsigned long long)w->want->len_max);
    return 0;
}

static bool is_lfs_pointer(const void *bytes, size_t len)
{
    return len >= sizeof LFS_POINTER - 1 && len <= LFS_POINTER_BYTES_MAX &&
           memcmp(bytes, LFS_POINTER, sizeof LFS_POINTER - 1) == 0;
}

static int take_blob(struct walk *w, const git_tree_entry *e, struct pl_err *err)
{
    const git_filemode_t mode = git_tree_entry_filemode(e);
    struct pl_git_file file = {.path = w->path};
    git_blob *blob = NULL;
    int r = check_size(w, git_tree_entry_id(e), err);

    if (r < 0)
        return r;
    if (git_blob_lookup(&blob, w->copy, git_tree_entry_id(e)) < 0)
        return pl_git_damaged(err, w->path);
    file.kind = mode == GIT_FILEMODE_LINK ? PL_GIT_LINK : mode == GIT_FILEMODE_BLOB_EXECUTABLE ? PL_GIT_EXEC : PL_GIT_FILE;
    file.bytes = git_blob_rawcontent(blob);
    file.len = (size_t)git_blob_rawsize(blob);
    file.lfs = file.kind == PL_GIT_FILE && is_lfs_pointer(file.bytes, file.len);
    r = w->file(w->self, &file, err);
    git_blob_free(blob);
    return r;
}

/* Adds the rules of the folder's .pipelinedignore file, if it has one. */
static int read_rules(struct walk *w, const git_tree *tree, size_t len, struct pl_err *err)
{
    const git_tree_entry *e = w->rules ? git_tree_entry_byname(tree, PL_IGNORE_FILE) : NULL;
    char folder[PL_PATH_MAX_BYTES + 1];
    git_blob *blob = NULL;
    git_object_t type;
    size_t bytes;
    int r;

    if (!e || git_tree_entry_type(e) != GIT_OBJECT_BLOB)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)len, w->path);
    if (git_odb_read_header(&bytes, &type, w->odb, git_tree_entry_id(e)) < 0)
        return pl_git_damaged(err, PL_IGNORE_FILE);
    if (bytes > PL_IGNORE_FILE_BYTES) /* refused without reading it */
        return pl_ignore_rules_add(w->rules, folder, "", bytes, err);
    if (git_blob_lookup(&blob, w->copy, git_tree_entry_id(e)) < 0)
        return pl_git_damaged(err, PL_IGNORE_FILE);
    r = pl_ignore_rules_add(w->rules, folder, git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob), err);
    git_blob_free(blob);
    return r;
}

static bool takes(const struct walk *w, bool is_dir)
{
    const size_t len = strlen(w->path);
    const char *slash = strrchr(w->path, '/');

    if (w->rules && (pl_streq(slash ? slash + 1 : w->path, PL_IGNORE_FILE) || pl_ignore_rules_match(w->rules, w->path, is_dir)))
        return false;
    if (w->glob)
        return (pl_glob_test(w->glob, w->path, len, NULL) & (is_dir ? PL_GLOB_BELOW : PL_GLOB_MATCH)) != 0;
    return is_dir || !w->files || pl_glob_set_takes(w->files, w->path, len);
}

static int walk_tree(struct walk *w, const git_oid *id, size_t len, unsigned depth, struct pl_err *err);

/* Looks at one entry of a folder, whose path has `len` bytes. */
static int walk_entry(struct walk *w, const git_tree_entry *e, size_t len, unsigned depth, struct pl_err *err)
{
    const char *name = git_tree_entry_name(e);
    const git_object_t type = git_tree_entry_type(e);
    const size_t more = strlen(name);

    if (++w->entries > PL_GIT_ENTRIES_MAX)
        return pl_err_set(err, PL_ELIMIT, "the commit has more than %u files and folders to look at: give a narrower path",
                          PL_GIT_ENTRIES_MAX);
    if (len + 1 + more > PL_PATH_MAX_BYTES)
        return pl_err_set(err, PL_EPATH, "%.200s/%.200s: the path is longer than %d bytes", w->path, name, PL_PATH_MAX_BYTES);
    snprintf(w->path + len, sizeof w->path - len, "%s%s", len ? "/" : "", name);
    if ((type != GIT_OBJECT_TREE && type != GIT_OBJECT_BLOB) || !takes(w, type == GIT_OBJECT_TREE))
        return 0; /* of other types are submodules */
    if (!pl_utf8_ok(name, more))
        return pl_err_set(err, PL_EPATH, "%s: the name is not UTF-8", pl_utf8_clean(w->path));
    return type == GIT_OBJECT_BLOB ? take_blob(w, e, err) : walk_tree(w, git_tree_entry_id(e), strlen(w->path), depth + 1, err);
}

static int walk_tree(struct walk *w, const git_oid *id, size_t len, unsigned depth, struct pl_err *err)
{
    git_tree *tree = NULL;
    int r;

    if (depth > PL_GIT_DEPTH_MAX)
        return pl_err_set(err, PL_ELIMIT, "%s: more than %u folders deep", w->path, PL_GIT_DEPTH_MAX);
    if (git_tree_lookup(&tree, w->copy, id) < 0)
        return pl_git_damaged(err, *w->path ? w->path : "the commit's files");
    r = read_rules(w, tree, len, err);
    for (size_t i = 0; r == 0 && i < git_tree_entrycount(tree); i++) {
        r = walk_entry(w, git_tree_entry_byindex(tree, i), len, depth, err);
        w->path[len] = '\0';
    }
    git_tree_free(tree);
    return r;
}

/* Finds the tree of the wanted folder. */
static int find_folder(git_repository *copy, const struct pl_git_selection *want, git_oid *ret, struct pl_err *err)
{
    git_tree_entry *entry = NULL;
    git_commit *commit = NULL;
    git_tree *tree = NULL;
    git_oid id;
    int r = 0;

    if (git_oid_fromstr(&id, want->commit) < 0 || git_commit_lookup(&commit, copy, &id) < 0)
        return pl_git_damaged(err, "cannot read the commit");
    if (git_commit_tree(&tree, commit) < 0)
        r = pl_git_damaged(err, "cannot read the commit's files");
    git_commit_free(commit);
    if (r < 0)
        return r;
    if (!*want->folder)
        git_oid_cpy(ret, git_tree_id(tree));
    else if (git_tree_entry_bypath(&entry, tree, want->folder) < 0 || git_tree_entry_type(entry) != GIT_OBJECT_TREE)
        r = pl_err_set(err, PL_ENOTFOUND, "the commit has no folder %s", want->folder);
    else
        git_oid_cpy(ret, git_tree_entry_id(entry));
    git_tree_entry_free(entry);
    git_tree_free(tree);
    return r;
}

int pl_git_copy_read(git_repository *copy, const struct pl_git_selection *want,
                     int (*file)(void *self, const struct pl_git_file *file, struct pl_err *err), void *self, struct pl_err *err)
{
    struct walk w = {.copy = copy, .want = want, .file = file, .self = self};
    git_oid id;
    int r = find_folder(copy, want, &id, err);

    if (r == 0 && git_repository_odb(&w.odb, copy) < 0)
        r = pl_git_damaged(err, "cannot open the copy of the repository");
    if (r == 0 && want->glob)
        r = pl_glob_compile(want->glob, &w.glob, err);
    if (r == 0 && want->n_files > 0)
        r = pl_glob_set_compile(want->files, want->n_files, &w.files, err);
    if (r == 0 && want->ignore)
        r = pl_ignore_rules_create(&w.rules, err);
    r = r < 0 ? r : walk_tree(&w, &id, 0, 0, err);
    pl_ignore_rules_destroy(w.rules);
    pl_glob_set_destroy(w.files);
    pl_glob_destroy(w.glob);
    git_odb_free(w.odb);
    return r;
}
