/* Broadcasts memory that a GPU runtime says is a device's. The runtime is opened as CUDA's opens
 * libcuda.so.1, by dlopen with RTLD_LOCAL, before the first broadcast or after some. Rank 0 prints
 *   host: COUNT broadcasts, ALONG along trees      before the runtime was there
 *   device: COUNT broadcasts, ALONG along trees
 *   WRONG wrong
 * where only every rank's own calls of arborcast_bcast are counted.
 * Usage: bcast_device LIBCUDA before|after */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 70000, COUNT = 16 };
typedef struct {
    double seconds;
    int along_trees;
} timing;
static int (*ask)(void *, int, MPI_Datatype, int, MPI_Comm, timing *);
static int rank, size, wrong;

static void broadcasts(const char *of, char *data)
{
    int along = 0, sum;
    for (int i = 0; i < COUNT; i++) {
        int root = i % size;
        timing t = {-1.0, 0};
        memset(data, rank == root ? i : ~i, BYTES);
        if (ask)
            ask(data, BYTES, MPI_BYTE, root, MPI_COMM_WORLD, rank == root ? NULL : &t);
        else
            MPI_Bcast(data, BYTES, MPI_BYTE, root, MPI_COMM_WORLD);
        along += t.along_trees;
        for (int b = 0; b < BYTES; b++)
            wrong += data[b] != (char)i;
    }
    MPI_Reduce(&along, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %d broadcasts, %d along trees\n", of, COUNT, sum);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ask = (int (*)(void *, int, MPI_Datatype, int, MPI_Comm, timing *))dlsym(RTLD_DEFAULT, "arborcast_bcast");
    char *host = malloc(BYTES), *device = malloc(BYTES);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (!strcmp(argv[2], "after"))
        broadcasts("host", host);
    void *cuda = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!cuda) {
        fprintf(stderr, "%s\n", dlerror());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    void (*own)(void *, size_t) = (void (*)(void *, size_t))dlsym(cuda, "fake_cuda_own");
    own(device, BYTES);
    broadcasts("device", device);
    int sum;
    MPI_Reduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", sum);
    free(host);
    free(device);
    MPI_Finalize();
    return 0;
}
