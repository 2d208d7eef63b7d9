/* node_cache_path.c: accepts a plain absolute path of at least two names that is not in a list of system
 * folders. */
#include "pipelined/kube/pod/node_cache_path.h"

/* Folders that are forbidden, as are all folders below them: system folders, and folders of the software
 * that runs nodes. */
static const char *const of_the_system[] = {"/bin",
                                            "/boot",
                                            "/dev",
                                            "/etc",
                                            "/lib",
                                            "/lib32",
                                            "/lib64",
                                            "/proc",
                                            "/root",
                                            "/run",
                                            "/sbin",
                                            "/sys",
                                            "/usr",
                                            "/var/run",
                                            "/var/lib/kubelet",
                                            "/var/lib/containerd",
                                            "/var/lib/docker",
                                            "/var/lib/etcd"};
/* Folders that are forbidden because they contain the data of many programs; the folders below them are
 * allowed. */
static const char *const shared[] = {"/var/cache", "/var/lib", "/var/log", "/var/tmp"};

/* Advances past the next "/NAME" of a path; false if there is no valid name. */
static bool next_name(const char **path, size_t *ret_len)
{
    const size_t n = strcspn(*path + 1, "/");

    if (**path != '/' || n == 0 || (n == 1 && (*path)[1] == '.') || (n == 2 && (*path)[1] == '.' && (*path)[2] == '.'))
        return false;
    *ret_len = n;
    *path += 1 + n;
    return true;
}

/* True for a path without ".", ".." and "//"; counts its names. */
static bool is_plain(const char *folder, unsigned *ret_names)
{
    size_t n;

    for (*ret_names = 0; *folder != '\0'; (*ret_names)++)
        if (!next_name(&folder, &n))
            return false;
    return true;
}

static bool is_allowed(const char *folder)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(of_the_system); i++) {
        const size_t n = strlen(of_the_system[i]);

        if (strncmp(folder, of_the_system[i], n) == 0 && (folder[n] == '\0' || folder[n] == '/'))
            return false;
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(shared); i++)
        if (pl_streq(folder, shared[i]))
            return false;
    return true;
}

int pl_node_cache_path_check(const char *folder, struct pl_err *err)
{
    unsigned names;

    if (is_plain(folder, &names) && names >= 2 && is_allowed(folder))
        return 0;
    return pl_err_set(err, PL_EINVAL,
                      "kubernetes.node_cache is \"%.200s\": use a folder that nothing else uses, such as /var/cache/pipelined: "
                      "not / or directly below it, not a system folder (/etc, /proc, …), without \".\" and \"..\"",
                      folder);
}
