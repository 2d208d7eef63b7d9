#include "pipelined/kube/pod/node_cache_path.h"

/* Each with all that is in it: the system's, and those in which what runs nodes keeps its own. */
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
/* What is in them is of many. */
static const char *const shared[] = {"/var/cache", "/var/lib", "/var/log", "/var/tmp"};

/* The next name of a path, from its '/' on; false: it has none that will do. */
static bool next_name(const char **path, size_t *ret_len)
{
    const size_t n = strcspn(*path + 1, "/");

    if (**path != '/' || n == 0 || (n == 1 && (*path)[1] == '.') || (n == 2 && (*path)[1] == '.' && (*path)[2] == '.'))
        return false;
    *ret_len = n;
    *path += 1 + n;
    return true;
}

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
                      "kubernetes.node_cache is \"%.200s\": accepted is a folder for nothing else, such as /var/cache/pipelined: "
                      "not / or one directly below it, none of the system's (/etc, /proc, …), without \".\" and \"..\"",
                      folder);
}
