/* A profiling tool: counts the broadcasts that a program makes, and tells at the end. To be preloaded. */
#include <mpi.h>
#include <stdio.h>

static long broadcasts, bytes;

static void count(long long elements, MPI_Datatype type)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    broadcasts++;
    bytes += elements * size;
}

int MPI_Bcast(void *buffer, int elements, MPI_Datatype type, int root, MPI_Comm comm)
{
    count(elements, type);
    return PMPI_Bcast(buffer, elements, type, root, comm);
}

#if MPI_VERSION >= 4
int MPI_Bcast_c(void *buffer, MPI_Count elements, MPI_Datatype type, int root, MPI_Comm comm)
{
    count(elements, type);
    return PMPI_Bcast_c(buffer, elements, type, root, comm);
}
#endif

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("tool of rank %d: %ld broadcasts, %ld bytes\n", rank, broadcasts, bytes);
    fflush(stdout);
    return PMPI_Finalize();
}
