/* kube_fake_server: the fake API server as a program, for tests of the daemon. Prints its URL; ends with its input. */
#include "tests/support/kube_server/kube_fake.h"

#include <stdio.h>

int main(void)
{
    struct kube_fake *f = kube_fake_start();

    printf("%s\n", kube_fake_url(f));
    (void)fflush(stdout);
    while (getchar() != EOF) {
    }
    kube_fake_stop(f);
    return 0;
}
