/* A program whose broadcasts are some of its many messages: of each of the sizes BYTES,... it broadcasts 5 to 9
 * messages from rank 0, has an empty answer from every rank after each, and between two of them broadcasts one
 * integer from four changing roots and sums one up. Checks every byte on every rank. Rank 0 prints a line a size,
 *   BYTES bytes: FIRST first, MEDIAN median, WORST worst
 * in seconds from the root's start until it has all answers. Exit code 1 where anything is wrong.
 * Usage: bcast_among_others SEED BYTES,... */
#include "common.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 5, MOST = 9, SMALL_ROOTS = 4 };

static int rank, size, number;

static void fail(const char *what, int at)
{
    fprintf(stderr, "rank %d: broadcast %d: %s at %d\n", rank, number, what, at);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double timed(unsigned char *buffer, int bytes)
{
    number++;
    fill(buffer, bytes, number, rank == 0);
    double start = MPI_Wtime();
    MPI_Bcast(buffer, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = 1; i < size; i++)
            MPI_Recv(NULL, 0, MPI_BYTE, i, number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 0, number, MPI_COMM_WORLD);
    }
    double seconds = MPI_Wtime() - start;
    int wrong = first_wrong(buffer, bytes, number);
    if (wrong >= 0)
        fail("a wrong byte", wrong);
    return seconds;
}

static void short_ones(void)
{
    for (int i = 0; i < SMALL_ROOTS; i++) {
        int root = (number * SMALL_ROOTS + i) % size, value = rank == root ? number : -1;
        MPI_Bcast(&value, 1, MPI_INT, root, MPI_COMM_WORLD);
        if (value != number)
            fail("a wrong integer", root);
    }
    int sum = -1;
    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, number % size, MPI_COMM_WORLD);
    if (rank == number % size && sum != size * (size - 1) / 2)
        fail("a wrong sum", sum);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3) {
        if (rank == 0)
            fprintf(stderr, "usage: bcast_among_others SEED BYTES,...\n");
        MPI_Finalize();
        return 2;
    }
    int seed = atoi(argv[1]);
    for (char *text = strtok(argv[2], ","); text; text = strtok(NULL, ",")) {
        int bytes = atoi(text), repeats = LEAST + seed++ % (MOST - LEAST + 1);
        unsigned char *buffer = malloc(bytes > 0 ? bytes : 1);
        double seconds[MOST];
        for (int i = 0; i < repeats; i++) {
            seconds[i] = timed(buffer, bytes);
            short_ones();
        }
        double first = seconds[0];
        qsort(seconds, repeats, sizeof *seconds, ascending);
        if (rank == 0) {
            printf("%d bytes: %.3f first, %.3f median, %.3f worst\n", bytes, first,
                   seconds[repeats / 2], seconds[repeats - 1]);
            fflush(stdout);
        }
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
