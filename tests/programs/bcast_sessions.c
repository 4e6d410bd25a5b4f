/* Broadcasts in a session: of a program that never calls MPI_Init, or, with the argument "world", of one that broadcasts in
 * the world before, and goes on in the session after MPI_Finalize. Rank 0 prints "RANKS ranks, WRONG wrong". */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#if MPI_VERSION >= 4
static char data[70000];

static int broadcasts(MPI_Comm comm)
{
    int rank, size, wrong = 0, sum;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 40; i++) {
        int bytes = i % 2 ? 70000 : 100;
        memset(data, rank == i % size ? i : ~i, bytes);
        MPI_Bcast(data, bytes, MPI_BYTE, i % size, comm);
        for (int b = 0; b < bytes; b++)
            wrong += data[b] != (char)i;
    }
    MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, comm);
    return sum;
}

int main(int argc, char **argv)
{
    int has_world = argc > 1, rank, size, wrong = 0;
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    if (has_world) {
        MPI_Init(&argc, &argv);
        wrong += broadcasts(MPI_COMM_WORLD);
    }
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "arborcast.sessions", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    wrong += broadcasts(comm);
    if (has_world) {
        MPI_Finalize();
        wrong += broadcasts(comm);
    }
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    if (rank == 0)
        printf("%d ranks, %d wrong\n", size, wrong);
    return 0;
}
#else
int main(void)
{
    puts("no sessions before MPI 4");
    return 0;
}
#endif
