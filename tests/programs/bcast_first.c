/* What the first broadcast from a root, and that of a communicator, takes beside those that follow. On MPI_COMM_WORLD
 * from its first, middle and last rank, then on a communicator of every second rank from its first and its last:
 * REPEATS broadcasts of BYTES bytes each, with a pause of PAUSE_MS before each. Checks every byte on every rank.
 * The root prints
 *   world|half ROOT: FIRST first, MEDIAN then
 * in seconds from its call until the last rank has the message; all must have one clock (CLOCK_MONOTONIC), as on one
 * host. Exit code 1 where a byte is wrong.
 * Usage: bcast_first BYTES REPEATS PAUSE_MS */
#include "common.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void broadcasts(MPI_Comm comm, const char *name, int root, int bytes, int repeats, int pause_ms)
{
    static int number;
    int rank;
    MPI_Comm_rank(comm, &rank);
    unsigned char *buffer = malloc(bytes);
    double *seconds = malloc(repeats * sizeof *seconds);
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
    for (int k = 0; k < repeats; k++) {
        number++;
        fill(buffer, bytes, number, rank == root);
        if (rank == root)
            nanosleep(&pause, NULL);
        double start = now(), end, last;
        MPI_Bcast(buffer, bytes, MPI_BYTE, root, comm);
        end = now();
        int wrong = first_wrong(buffer, bytes, number);
        if (wrong >= 0) {
            fprintf(stderr, "rank %d: broadcast %d: byte %d is wrong\n", rank, number, wrong);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, root, comm);
        seconds[k] = last - start;
    }
    if (rank == root && repeats > 1) {
        double first = seconds[0];
        qsort(seconds + 1, repeats - 1, sizeof *seconds, ascending);
        printf("%s %d: %.3f first, %.3f then\n", name, root, first, seconds[1 + (repeats - 1) / 2]);
        fflush(stdout);
    }
    free(buffer);
    free(seconds);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4) {
        if (rank == 0)
            fprintf(stderr, "usage: bcast_first BYTES REPEATS PAUSE_MS\n");
        MPI_Finalize();
        return 2;
    }
    int bytes = atoi(argv[1]), repeats = atoi(argv[2]), pause_ms = atoi(argv[3]);
    int roots[] = {0, size / 2, size - 1};
    for (int i = 0; i < 3; i++)
        broadcasts(MPI_COMM_WORLD, "world", roots[i], bytes, repeats, pause_ms);
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    int half_size;
    MPI_Comm_size(half, &half_size);
    if (rank % 2 == 0) {
        broadcasts(half, "half", 0, bytes, repeats, pause_ms);
        broadcasts(half, "half", half_size - 1, bytes, repeats, pause_ms);
    }
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
