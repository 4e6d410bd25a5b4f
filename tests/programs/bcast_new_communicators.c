/* Makes a communicator of all ranks NUMBER times, and broadcasts BYTES on each TIMES times, from a root that changes,
 * before it frees it. Checks every byte on every rank. Exit code 1 where one is wrong.
 * Usage: bcast_new_communicators BYTES TIMES NUMBER */
#include "common.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4) {
        fprintf(stderr, "usage: bcast_new_communicators BYTES TIMES NUMBER\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int bytes = atoi(argv[1]), times = atoi(argv[2]), number = atoi(argv[3]);
    unsigned char *buffer = malloc(bytes);
    for (int step = 0; step < times * number; step += times) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int n = step; n < step + times; n++) {
            int root = n / 3 % size;
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
