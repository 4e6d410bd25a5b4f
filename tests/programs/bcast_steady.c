/* Broadcasts for a while and checks every byte on every rank. Rank ROOT prints one line a broadcast:
 * "tree SECONDS" or "native SECONDS" where the library has arborcast_bcast, else "plain SECONDS"; the
 * seconds are its own, from the call to its return. Exit code 1 where a byte is wrong. SIGUSR1
 * to ROOT ends it before its time.
 * Usage: bcast_steady ROOT BYTES PAUSE_MS SECONDS */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    double seconds;
    int along_trees;
} timing;
typedef int explicit_bcast(void *, int, MPI_Datatype, int, MPI_Comm, timing *);

static volatile sig_atomic_t told_to_end;

static void on_signal(int signal)
{
    told_to_end = signal;
}

int main(int argc, char **argv)
{
    signal(SIGUSR1, on_signal);
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 5) {
        fprintf(stderr, "usage: bcast_steady ROOT BYTES PAUSE_MS SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int root = atoi(argv[1]), bytes = atoi(argv[2]), pause_ms = atoi(argv[3]);
    double end = MPI_Wtime() + atof(argv[4]);
    unsigned char *buffer = malloc(bytes);
    explicit_bcast *ask = (explicit_bcast *)dlsym(RTLD_DEFAULT, "arborcast_bcast");
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
    /* The first byte says whether this is the last broadcast. */
    for (int number = 0, last = 0; !last; number++) {
        memset(buffer, 0xee, bytes);
        for (int i = 1; rank == root && i < bytes; i++)
            buffer[i] = expected(number, i);
        if (rank == root)
            buffer[0] = told_to_end || MPI_Wtime() > end;
        timing t = {-1.0, 0};
        double start = MPI_Wtime();
        if (ask)
            ask(buffer, bytes, MPI_BYTE, root, MPI_COMM_WORLD, &t);
        else
            MPI_Bcast(buffer, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        double seconds = MPI_Wtime() - start;
        last = buffer[0];
        for (int i = 1; i < bytes; i++) {
            if (last > 1 || buffer[i] != expected(number, i)) {
                fprintf(stderr, "rank %d: broadcast %d: byte %d is wrong\n", rank, number, i);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        if (rank == root) {
            printf("%s %.6f\n", !ask ? "plain" : t.along_trees ? "tree" : "native", seconds);
            fflush(stdout);
            if (!last)
                nanosleep(&pause, NULL);
        }
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
