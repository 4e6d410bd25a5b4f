! Broadcasts from every rank through the module mpi and checks every number on every rank. Rank 0
! prints "ROUNDS rounds are right".
program bcast_use
  use mpi
  implicit none
  integer, parameter :: rounds = 100, length = 3000
  integer :: numbers(length), rank, ranks, error, round, root, i
  call MPI_INIT(error)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
  do round = 1, rounds
    do root = 0, ranks - 1
      numbers = -1
      if (rank == root) numbers = [(1000 * round + root + i, i = 1, length)]
      call MPI_BCAST(numbers, length, MPI_INTEGER, root, MPI_COMM_WORLD, error)
      if (any(numbers /= [(1000 * round + root + i, i = 1, length)])) then
        print *, 'rank', rank, ': a wrong number in round', round
        call MPI_ABORT(MPI_COMM_WORLD, 1, error)
      end if
    end do
  end do
  if (rank == 0) print '(i0, a)', rounds, ' rounds are right'
  call MPI_FINALIZE(error)
end program
