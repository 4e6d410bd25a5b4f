/* Broadcasts with arborcast_bcast, which says how each broadcast went.
 *
 *     mpicc timed_broadcast.c -o timed_broadcast $(pkg-config --cflags --libs arborcast)
 *     mpirun -n 4 timed_broadcast
 *
 * where Arborcast is installed. -larborcast stands in front of the MPI library. */
#include <arborcast.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    enum { COUNT = 1 << 15, ROOT = 0 };
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double *values = calloc(COUNT, sizeof *values);

    char plan[1000];
    arborcast_plan(MPI_COMM_WORLD, COUNT * sizeof *values, plan, sizeof plan);
    if (rank == ROOT)
        printf("plan: %s\n", plan);

    for (int round = 1; round <= 3; round++) {
        for (int i = 0; rank == ROOT && i < COUNT; i++)
            values[i] = round + i / 2.0;
        arborcast_timing timing;
        arborcast_bcast(values, COUNT, MPI_DOUBLE, ROOT, MPI_COMM_WORLD, &timing);
        for (int i = 0; i < COUNT; i++)
            if (values[i] != round + i / 2.0)
                MPI_Abort(MPI_COMM_WORLD, 1);
        if (rank == ROOT && timing.along_trees)
            printf("along trees in %.6f s\n", timing.seconds);
        else if (rank == ROOT)
            printf("by the native broadcast\n");
    }
    free(values);
    MPI_Finalize();
    return 0;
}
