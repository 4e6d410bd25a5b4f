/* Every name under which a broadcast can be called, alone and mixed. */
#include "rows.h"
#include <stdlib.h>
#include <string.h>

enum { SIZES = 5 };
static const int sizes[SIZES] = {0, 1, 1025, 5000, 70000};

/* Broadcasts on a communicator of its own, each rank by the way that `way` names. */
static void each_by(int (*way)(void *, int, MPI_Datatype, int, MPI_Comm, int), int spread)
{
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    channel c = open_channel(copy);
    char *memory = malloc(70000);
    for (int round = 0; round < 4; round++)
        for (int s = 0; s < SIZES; s++) {
            uint32_t number = ++c.number;
            int root = (round + s) % c.size;
            fill_message(memory, c.rank == root ? number : ~number, sizes[s]);
            int code = way(memory, sizes[s], MPI_BYTE, root, copy, spread * c.rank + round);
            if (code != MPI_SUCCESS)
                wrong("error class %d", class_of(code));
            check_message(&c, memory, number, sizes[s]);
        }
    free(memory);
    close_channel(&c);
    MPI_Comm_free(&copy);
}

static int by_profiling_name(void *b, int n, MPI_Datatype t, int root, MPI_Comm comm, int way)
{
    return way % 2 ? PMPI_Bcast(b, n, t, root, comm) : MPI_Bcast(b, n, t, root, comm);
}

static void profiling_name_in_turns(void)
{
    each_by(by_profiling_name, 0);
}

static void profiling_name_on_some_ranks(void)
{
    each_by(by_profiling_name, 1);
}

#if MPI_VERSION >= 4
static int by_large_count(void *b, int n, MPI_Datatype t, int root, MPI_Comm comm, int way)
{
    (void)way;
    return MPI_Bcast_c(b, n, t, root, comm);
}

static int by_either_count(void *b, int n, MPI_Datatype t, int root, MPI_Comm comm, int way)
{
    return way % 2 ? MPI_Bcast_c(b, n, t, root, comm) : MPI_Bcast(b, n, t, root, comm);
}

static int by_every_name(void *b, int n, MPI_Datatype t, int root, MPI_Comm comm, int way)
{
    switch (way % 4) {
    case 0: return MPI_Bcast_c(b, n, t, root, comm);
    case 1: return PMPI_Bcast(b, n, t, root, comm);
    case 2: return PMPI_Bcast_c(b, n, t, root, comm);
    default: return MPI_Bcast(b, n, t, root, comm);
    }
}
#endif

static void large_count(void)
{
#if MPI_VERSION >= 4
    each_by(by_large_count, 0);
#else
    skip("no MPI_Bcast_c before MPI 4");
#endif
}

static void large_count_in_turns(void)
{
#if MPI_VERSION >= 4
    each_by(by_either_count, 0);
#else
    skip("no MPI_Bcast_c before MPI 4");
#endif
}

static void large_count_on_some_ranks(void)
{
#if MPI_VERSION >= 4
    each_by(by_either_count, 1);
    each_by(by_every_name, 1);
#else
    skip("no MPI_Bcast_c before MPI 4");
#endif
}

const row binding_rows[] = {
    {"profiling_name_in_turns", profiling_name_in_turns, 0, 0},
    {"profiling_name_on_some_ranks", profiling_name_on_some_ranks, 0, 0},
    {"large_count_binding", large_count, 0, 0},
    {"large_count_binding_in_turns", large_count_in_turns, 0, 0},
    {"large_count_binding_on_some_ranks", large_count_on_some_ranks, 0, 0},
    {0},
};
