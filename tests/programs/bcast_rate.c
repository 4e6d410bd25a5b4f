/* What a short MPI_Bcast costs: nanoseconds a broadcast of 8 bytes from rank 0, back to back, the
 * median and the least of ROUNDS rounds of BROADCASTS each, as rank 0 sees it: "MEDIAN LEAST".
 * Usage: bcast_rate BROADCASTS ROUNDS */
#include "common.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int broadcasts = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 2 ? atoi(argv[2]) : 0;
    if (broadcasts < 1 || rounds < 1) {
        if (rank == 0)
            fprintf(stderr, "usage: bcast_rate BROADCASTS ROUNDS\n");
        MPI_Finalize();
        return 2;
    }
    double *times = malloc(rounds * sizeof *times), message = 0;
    for (int round = 0; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < broadcasts; i++)
            MPI_Bcast(&message, sizeof message, MPI_BYTE, 0, MPI_COMM_WORLD);
        /* The last one has arrived when the barrier is over. */
        MPI_Barrier(MPI_COMM_WORLD);
        times[round] = (MPI_Wtime() - start) * 1e9 / broadcasts;
    }
    qsort(times, rounds, sizeof *times, ascending);
    if (rank == 0)
        printf("%.1f %.1f\n", times[rounds / 2], times[0]);
    free(times);
    MPI_Finalize();
    return 0;
}
