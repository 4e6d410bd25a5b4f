/* An ordinary MPI program: of each of the sizes BYTES,... broadcasts REPEATS messages from rank ROOT with MPI_Bcast,
 * checks every byte on every rank, and prints the seconds from the root's start until it has an empty
 * answer from every other rank, one line a broadcast: "SECONDS". Exit code 1 where a byte is wrong.
 * With BLOCK, every other block of that number of broadcasts is native, past all libraries before it;
 * their lines are "SECONDS native".
 * The root pauses for PAUSE_MS (100) before each: ranks leave a barrier up to a latency apart.
 * Usage: bcast_times BYTES,... REPEATS [ROOT [PAUSE_MS [BLOCK]]] */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SIZES = 16 };

static void sleep_s(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* Where ranks share processors, who is done leaves them to who is not: a rank that polls in a barrier or
 * checks bytes would be measured too. */
static void quiet_barrier(void)
{
    MPI_Request barrier;
    int is_over = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
    while (MPI_Test(&barrier, &is_over, MPI_STATUS_IGNORE), !is_over)
        sleep_s(0.001);
}

typedef int broadcast(void *, int, MPI_Datatype, int, MPI_Comm);

/* The broadcast of the library that MPI_Barrier comes from. */
static broadcast *native_broadcast(void)
{
    Dl_info library;
    void *mpi = dladdr((void *)MPI_Barrier, &library) ? dlopen(library.dli_fname, RTLD_NOW) : NULL;
    broadcast *native = mpi ? (broadcast *)dlsym(mpi, "PMPI_Bcast") : NULL;
    if (!native) {
        fprintf(stderr, "bcast_times: the native broadcast is not found\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return native;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3) {
        if (rank == 0)
            fprintf(stderr, "usage: bcast_times BYTES,... REPEATS [ROOT [PAUSE_MS [BLOCK]]]\n");
        MPI_Finalize();
        return 2;
    }
    int sizes[MOST_SIZES], count = 0, largest = 1, repeats = atoi(argv[2]);
    for (char *text = strtok(argv[1], ","); text && count < MOST_SIZES; text = strtok(NULL, ",")) {
        sizes[count++] = atoi(text);
        largest = sizes[count - 1] > largest ? sizes[count - 1] : largest;
    }
    int root = argc > 3 ? atoi(argv[3]) : 0;
    double pause_s = (argc > 4 ? atoi(argv[4]) : 100) / 1000.0;
    int block = argc > 5 ? atoi(argv[5]) : 0;
    broadcast *native = block > 0 ? native_broadcast() : NULL;
    unsigned char *buffer = malloc(largest);
    int wrong = 0;
    quiet_barrier();
    for (int number = 0; number < repeats * count; number++) {
        int bytes = sizes[number / repeats];
        fill(buffer, bytes, number, rank == root);
        if (rank == root)
            sleep_s(pause_s);
        int is_native = block > 0 && number / block % 2;
        double start = MPI_Wtime();
        (is_native ? native : MPI_Bcast)(buffer, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        if (rank == root) {
            for (int i = 1; i < size; i++)
                MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, number, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            printf("%.6f%s\n", MPI_Wtime() - start, is_native ? " native" : "");
            fflush(stdout);
        } else {
            MPI_Send(NULL, 0, MPI_BYTE, root, number, MPI_COMM_WORLD);
        }
        quiet_barrier();
        int index = wrong ? -1 : first_wrong(buffer, bytes, number);
        if (index >= 0) {
            fprintf(stderr, "rank %d: broadcast %d: byte %d is wrong\n", rank, number, index);
            wrong = 1;
        }
    }
    int any_wrong = 0;
    MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    free(buffer);
    MPI_Finalize();
    return any_wrong;
}
