/* source_address: compares paths after their links were resolved; servers are for storage/http/outbound. */
#include "pipelined/source/source_address.h"

#include "pipelined/text/git_address.h"

#include <limits.h>
#include <sys/stat.h>

/* True if the path lies at or below the folder. */
static bool lies_in(const char *path, const char *folder)
{
    const size_t len = strlen(folder);

    return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/' || pl_streq(folder, "/"));
}

/* True if the path lies in one of the folders for local repositories. */
static bool is_allowed(const struct pl_source_addresses *a, const char *path)
{
    bool allowed = false;

    for (size_t i = 0; i < a->n; i++)
        allowed = allowed || lies_in(path, a->real[i]) || lies_in(path, a->named[i]);
    return allowed;
}

/* Refuses a local repository that the daemon may not follow. Outside the allowed folders the answer does not say what
 * exists; inside, links are resolved. */
static int check_local(const struct pl_source_addresses *a, const char *git, const char *path, struct pl_err *err)
{
    char real[PATH_MAX];

    if (a->n == 0)
        return pl_err_set(
            err, PL_EFORBIDDEN,
            "git: \"%.200s\": local repositories are not accepted: an admin of the daemon names folders for them in "
            "its setting git.local_folders",
            git);
    if (is_allowed(a, path) && !realpath(path, real))
        return errno == ENOENT ? pl_err_set(err, PL_ENOTFOUND, "git: there is no folder %.200s on the daemon's machine", path)
                               : pl_err_errno(err, errno, "%s", path);
    if (!is_allowed(a, path) || !is_allowed(a, real) || lies_in(real, a->data_dir))
        return pl_err_set(err, PL_EFORBIDDEN, "git: \"%.200s\" does not lie in one of the daemon's git.local_folders (%.300s)",
                          git, a->text);
    return 0;
}

int pl_source_address_check(const struct pl_source_addresses *a, const char *git, struct pl_err *err)
{
    struct pl_git_address address;
    int r = pl_git_address_parse(git, &address, err);

    if (r == 0)
        r = pl_streq(address.scheme, "file") ? check_local(a, git, address.path, err)
                                             : pl_outbound_check(a->outbound, address.scheme, address.host, "git", err);
    return r < 0 ? pl_err_field(err, r, "git") : 0;
}

/* Reads the setting local_folders. */
static int read_folders(struct pl_source_addresses *a, const char *text, struct pl_err *err)
{
    char *rest;

    a->text = strdup(text);
    rest = a->text ? strdup(text) : NULL;
    if (!rest)
        return pl_err_nomem(err);
    for (char *save = NULL, *name = strtok_r(rest, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        char real[PATH_MAX];
        struct stat st;
        int r = 0;

        name += strspn(name, " ");
        for (size_t len = strlen(name); len > 1 && (name[len - 1] == ' ' || name[len - 1] == '/'); len--)
            name[len - 1] = '\0';
        if (*name != '/')
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: \"%.200s\" is not an absolute path", name);
        else if (!realpath(name, real))
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: %.200s: %s", name, strerror(errno));
        else if (lies_in(real, a->data_dir) || lies_in(a->data_dir, real))
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: %.200s lies in or above the daemon's data folder %.200s", name,
                           a->data_dir);
        else if (stat(real, &st) < 0 || !S_ISDIR(st.st_mode))
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: %.200s is not a folder", name);
        else if (a->n == PL_SOURCE_FOLDERS_MAX)
            r = pl_err_set(err, PL_EINVAL, "git.local_folders: more than %u folders", PL_SOURCE_FOLDERS_MAX);
        else if (!(a->real[a->n] = strdup(real)) || !(a->named[a->n] = strdup(name)))
            r = pl_err_nomem(err);
        if (r < 0) {
            free(rest);
            return r;
        }
        a->n++;
    }
    free(rest);
    return 0;
}

int pl_source_addresses_read(struct pl_source_addresses *a, const char *folders, const char *data_dir,
                             const struct pl_outbound *outbound, struct pl_err *err)
{
    a->outbound = outbound;
    a->data_dir = strdup(data_dir);
    return a->data_dir ? read_folders(a, folders, err) : pl_err_nomem(err);
}

void pl_source_addresses_finish(struct pl_source_addresses *a)
{
    for (size_t i = 0; i < PL_SOURCE_FOLDERS_MAX; i++) {
        free(a->real[i]);
        free(a->named[i]);
    }
    free(a->text);
    free(a->data_dir);
}
