/* pl-enter FD UID GID GROUPS CAPABILITIES KEEP_PRIVILEGES FOLDER COMMAND [ARGUMENT…]: the last step of a simulated kubelet's container, inside its
 * mounts: becomes the container's user and executes its command. GROUPS: "1,2" or "-"; CAPABILITIES: a mask in hexadecimal; KEEP_PRIVILEGES: 0 or 1.
 * FD gets a zero byte, and what goes wrong, in a runtime's words; nothing more when the command runs. Static: an image may have no library. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUPS_MAX 32
#define CAPS_MAX   64

static int report_fd;

static _Noreturn void give_up(const char *what, const char *why)
{
    dprintf(report_fd, "exec: \"%s\": %s", what, why);
    _exit(128);
}

static size_t parse_groups(char *text, gid_t *groups)
{
    size_t n = 0;

    if (strcmp(text, "-") == 0)
        return 0;
    for (char *rest = NULL, *word = strtok_r(text, ",", &rest); word && n < GROUPS_MAX; word = strtok_r(NULL, ",", &rest))
        groups[n++] = (gid_t)strtoul(word, NULL, 10);
    return n;
}

static void become(uid_t uid, gid_t gid, char *groups_text, unsigned long long caps, int keep)
{
    gid_t groups[GROUPS_MAX];
    size_t n = parse_groups(groups_text, groups);

    for (int cap = 0; cap < CAPS_MAX; cap++)
        if (!(caps >> cap & 1))
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* EINVAL beyond the last there is */
    if (!keep && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        give_up("no_new_privs", strerror(errno));
    if (setgroups(n, groups) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        give_up("user", strerror(errno));
    umask(022);
}

int main(int argc, char **argv)
{
    char why[4200];

    if (argc < 9)
        return 2;
    report_fd = atoi(argv[1]);
    if (fcntl(report_fd, F_SETFD, FD_CLOEXEC) < 0)
        return 2;
    if (write(report_fd, "", 1) != 1)
        return 2;
    if (mkdir(argv[7], 0755) < 0 && errno != EEXIST && errno != EROFS)
        give_up(argv[7], strerror(errno));
    become((uid_t)strtoul(argv[2], NULL, 10), (gid_t)strtoul(argv[3], NULL, 10), argv[4], strtoull(argv[5], NULL, 16),
           atoi(argv[6]));
    if (chdir(argv[7]) < 0)
        give_up(argv[7], strerror(errno));
    if (strchr(argv[8], '/'))
        execv(argv[8], argv + 8);
    else
        execvp(argv[8], argv + 8);
    if (errno == ENOENT && !strchr(argv[8], '/'))
        give_up(argv[8], "executable file not found in $PATH");
    if (errno == ENOENT)
        snprintf(why, sizeof(why), "stat %.4000s: no such file or directory", argv[8]);
    else
        snprintf(why, sizeof(why), "%s",
                 errno == EACCES    ? "permission denied"
                 : errno == ENOEXEC ? "exec format error"
                                    : strerror(errno));
    give_up(argv[8], why);
}
