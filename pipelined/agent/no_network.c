#include "pipelined/agent/no_network.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ABI     AUDIT_ARCH_X86_64
#define ABI_END 0x40000000u /* numbers from here on are x32's */
#elif defined(__aarch64__)
#define ABI     AUDIT_ARCH_AARCH64
#define ABI_END UINT32_MAX
#else
#error "which number its ABI has is not known here"
#endif

#define LOAD(member)                  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define IF(value, then, otherwise)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), (otherwise))
#define IF_GE(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), (then), (otherwise))
#define ANSWER(what)                  BPF_STMT(BPF_RET | BPF_K, (what))

/* Jumps count from the next line. The family is an int: its low half comes first on both ABIs. */
static struct sock_filter filter[] = {
    LOAD(arch),                               /* 0 */
    IF(ABI, 0, 8),                            /* 1: foreign → 10 */
    LOAD(nr),                                 /* 2 */
    IF_GE(ABI_END, 6, 0),                     /* 3: → 10 */
    IF(SYS_io_uring_setup, 5, 0),             /* 4: → 10 */
    IF(SYS_socket, 0, 5),                     /* 5: another → 11 */
    LOAD(args[0]),                            /* 6 */
    IF(AF_UNIX, 3, 0),                        /* 7: → 11 */
    IF(AF_NETLINK, 2, 0),                     /* 8: → 11 */
    ANSWER(SECCOMP_RET_ERRNO | EAFNOSUPPORT), /* 9 */
    ANSWER(SECCOMP_RET_ERRNO | ENOSYS),       /* 10 */
    ANSWER(SECCOMP_RET_ALLOW),                /* 11 */
};

bool pl_no_network_works(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;

    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

int pl_no_network_begin(void)
{
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? errno : 0;
}
