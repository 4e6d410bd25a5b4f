/* Each rank in turn is the root: after a pause and a barrier it broadcasts BYTES, and then rank 0 a few bytes, as
 * programs do that tell how to go on. Checks every byte on every rank. Rank 0 prints one line a turn: "turn ROOT
 * SECONDS", the longest that any rank was in the larger broadcast. Exit code 1 where a byte is wrong.
 * Usage: bcast_turns BYTES PAUSE_MS SECONDS */
#define _GNU_SOURCE
#include "common.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4) {
        fprintf(stderr, "usage: bcast_turns BYTES PAUSE_MS SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int bytes = atoi(argv[1]), pause_ms = atoi(argv[2]);
    double end = MPI_Wtime() + atof(argv[3]);
    unsigned char *buffer = malloc(bytes);
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
    for (int turn = 0, last = 0; !last; turn++) {
        int root = turn % size;
        fill(buffer, bytes, turn, rank == root);
        nanosleep(&pause, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        MPI_Bcast(buffer, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        double seconds = MPI_Wtime() - start, longest;
        int wrong = first_wrong(buffer, bytes, turn);
        if (wrong >= 0) {
            fprintf(stderr, "rank %d: turn %d: byte %d is wrong\n", rank, turn, wrong);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("turn %d %.6f\n", root, longest);
            fflush(stdout);
            last = MPI_Wtime() > end;
        }
        MPI_Bcast(&last, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
