/* Makes a communicator of the first RANKS ranks NUMBER times, and broadcasts BYTES on each TIMES times, from a root that
 * changes, before it frees it. Checks every byte on every rank. Exit code 1 where one is wrong.
 * Usage: bcast_new_communicators BYTES TIMES NUMBER RANKS */
#include "common.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 5) {
        fprintf(stderr, "usage: bcast_new_communicators BYTES TIMES NUMBER RANKS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int bytes = atoi(argv[1]), times = atoi(argv[2]), number = atoi(argv[3]), ranks = atoi(argv[4]);
    unsigned char *buffer = malloc(bytes);
    for (int step = 0; step < times * number; step += times) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, 0, &comm);
        if (comm == MPI_COMM_NULL)
            continue;
        for (int n = step; n < step + times; n++) {
            int root = n / 3 % ranks;
            fill(buffer, bytes, n, rank == root);
            MPI_Bcast(buffer, bytes, MPI_BYTE, root, comm);
            int wrong = first_wrong(buffer, bytes, n);
            if (wrong >= 0) {
                fprintf(stderr, "rank %d: broadcast %d: byte %d is wrong\n", rank, n, wrong);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        MPI_Comm_free(&comm);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
