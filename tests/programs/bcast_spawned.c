/* Starts one more process, merges with it and broadcasts from every rank over what they have together,
 * over a split and a copy of that. The process that was started may lack what the others were started
 * with. Rank 0 prints "RANKS ranks, WRONG wrong". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;

static void from_every_root(MPI_Comm comm)
{
    static const int sizes[] = {1, 1000, 70000};
    static char data[70000];
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 4 * 3 * size; i++) {
        int root = i % size, bytes = sizes[i / size % 3];
        memset(data, rank == root ? i : ~i, bytes);
        MPI_Bcast(data, bytes, MPI_BYTE, root, comm);
        for (int b = 0; b < bytes; b++)
            wrong += data[b] != (char)i;
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter, all, part;
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        from_every_root(MPI_COMM_WORLD);
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                       MPI_ERRCODES_IGNORE);
    } else {
        inter = parent;
    }
    MPI_Intercomm_merge(inter, parent != MPI_COMM_NULL, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    from_every_root(all);
    MPI_Comm_split(all, 0, -rank, &part);
    from_every_root(part);
    MPI_Comm_free(&part);
    from_every_root(MPI_COMM_WORLD);
    MPI_Reduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, 0, all);
    if (rank == 0)
        printf("%d ranks, %d wrong\n", size, sum);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    MPI_Finalize();
    return 0;
}
