// An error handler that throws, through MPI_Bcast and whatever stands in front of it, a hundred times,
// with good broadcasts on the same communicator between. Rank 0 prints "CAUGHT caught, WRONG wrong".
#include <mpi.h>
#include <cstdio>
#include <stdexcept>
#include <vector>

static void handler(MPI_Comm *, int *, ...)
{
    throw std::runtime_error("an error of MPI");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, caught = 0, wrong = 0, sum;
    MPI_Comm comm;
    MPI_Errhandler thrower;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_create_errhandler(handler, &thrower);
    MPI_Comm_set_errhandler(comm, thrower);
    for (int i = 0; i < 100; i++) {
        char byte = 0;
        try {
            MPI_Bcast(&byte, 1, MPI_BYTE, size + i, comm);
        } catch (const std::runtime_error &) {
            caught++;
        }
        std::vector<int> values(i % 10 ? 100 : 20000, rank == i % size ? i : -1);
        MPI_Bcast(values.data(), static_cast<int>(values.size()), MPI_INT, i % size, comm);
        for (int value : values)
            wrong += value != i;
    }
    MPI_Reduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, 0, comm);
    if (rank == 0)
        std::printf("%d caught, %d wrong\n", caught, sum);
    MPI_Errhandler_free(&thrower);
    MPI_Comm_free(&comm);
    MPI_Finalize();
}
