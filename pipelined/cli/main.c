/* pipelinectl: the command line. */
#include "cli.h"

int main(int argc, char **argv)
{
    return pl_cli_main(argc, argv);
}
