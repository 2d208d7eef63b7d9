// link: pipelined/kube/pod
/* Which folder of nodes may be given to agents. */
#include "pipelined/kube/pod/node_cache_path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void a_folder_for_nothing_else_is_accepted(void **state)
{
    static const char *const folders[] = {"/var/cache/pipelined", "/mnt/disks/ssd0/pipelined", "/var/lib/pipelined", "/srv/cache",
                                          "/etcetera/cache",      "/var/cache/..pipelined",    "/home/.cache",       "/opt/a b"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(folders); i++)
        if (pl_node_cache_path_check(folders[i], NULL) < 0)
            fail_msg("%s is refused", folders[i]);
}

static void what_is_the_system_s_or_anybody_s_is_refused_by_its_name(void **state)
{
    static const char *const folders[] = {"/",
                                          "//",
                                          "/.",
                                          "/..",
                                          "",
                                          "var/cache/p",
                                          "./cache",
                                          "../etc",
                                          "/var",
                                          "/tmp",
                                          "/data",
                                          "/mnt",
                                          "/etc",
                                          "/etc/pipelined",
                                          "/proc",
                                          "/proc/self/root",
                                          "/sys/fs",
                                          "/dev/shm",
                                          "/usr/local/p",
                                          "/lib64/p",

                                          "/boot/p",
                                          "/run/p",
                                          "/var/run/p",
                                          "/var/lib",
                                          "/var/cache",
                                          "/var/log",
                                          "/var/lib/etcd",
                                          "/var/tmp",
                                          "/var/lib/kubelet/pods",
                                          "/var//cache/p",
                                          "/var/cache/",
                                          "/a/../etc",
                                          "/a/./b",
                                          "/a/b/..",
                                          "/a/b/."};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(folders); i++) {
        struct pl_err err = {0};
        char words[300];

        if (pl_node_cache_path_check(folders[i], &err) != PL_EINVAL)
            fail_msg("\"%s\" is accepted", folders[i]);
        (void)snprintf(words, sizeof(words), "kubernetes.node_cache is \"%s\": use a folder that nothing else uses", folders[i]);
        assert_non_null(strstr(err.msg, words));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_for_nothing_else_is_accepted),
        cmocka_unit_test(what_is_the_system_s_or_anybody_s_is_refused_by_its_name),
    };

    return cmocka_run_group_tests_name("cache_folder", tests, NULL, NULL);
}
