/* Ranks as a square of rows and columns, as programs for matrices have them: in each step one rank of each row
 * broadcasts to its row, then one of each column to its column, and both roots take turns. Checks every byte on every
 * rank. Rank 0 prints one line a step: "step SECONDS", the longest that any rank was in the two broadcasts. Exit code 1
 * where a byte is wrong.
 * Usage: bcast_rows_columns BYTES PAUSE_MS SECONDS */
#include "common.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void broadcast(MPI_Comm comm, int root, unsigned char *buffer, int bytes, int number)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    fill(buffer, bytes, number, rank == root);
    MPI_Bcast(buffer, bytes, MPI_BYTE, root, comm);
}

static void check(const unsigned char *buffer, int bytes, int number)
{
    int wrong = first_wrong(buffer, bytes, number);
    if (wrong >= 0) {
        fprintf(stderr, "broadcast %d: byte %d is wrong\n", number, wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, side = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (side * side < size)
        side++;
    if (argc != 4 || side * side != size) {
        fprintf(stderr, "usage, with a square number of ranks: bcast_rows_columns BYTES PAUSE_MS SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int bytes = atoi(argv[1]), pause_ms = atoi(argv[2]);
    double end = MPI_Wtime() + atof(argv[3]);
    MPI_Comm row, column;
    MPI_Comm_split(MPI_COMM_WORLD, rank / side, rank, &row);
    MPI_Comm_split(MPI_COMM_WORLD, rank % side, rank, &column);
    unsigned char *of_row = malloc(bytes), *of_column = malloc(bytes);
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
    for (int step = 0, last = 0; !last; step++) {
        double start = MPI_Wtime();
        broadcast(row, step % side, of_row, bytes, 2 * step);
        broadcast(column, step % side, of_column, bytes, 2 * step + 1);
        double seconds = MPI_Wtime() - start, longest;
        check(of_row, bytes, 2 * step);
        check(of_column, bytes, 2 * step + 1);
        MPI_Reduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("step %.6f\n", longest);
            fflush(stdout);
        }
        last = MPI_Wtime() > end;
        MPI_Bcast(&last, 1, MPI_INT, 0, MPI_COMM_WORLD);
        nanosleep(&pause, NULL);
    }
    free(of_row);
    free(of_column);
    MPI_Comm_free(&row);
    MPI_Comm_free(&column);
    MPI_Finalize();
    return 0;
}
