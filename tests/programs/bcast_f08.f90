! Broadcasts from every rank through the module mpi_f08, whole arrays and a column of one, and checks every
! number on every rank. Rank 0 prints "ROUNDS rounds are right".
program bcast_f08
  use mpi_f08
  implicit none
  integer, parameter :: rounds = 50, length = 3000
  integer :: numbers(length), table(7, 500), rank, ranks, round, root, i
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: row
  call MPI_Init()
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_rank(comm, rank)
  call MPI_Comm_size(comm, ranks)
  ! The third row of the table.
  call MPI_Type_vector(500, 1, 7, MPI_INTEGER, row)
  call MPI_Type_commit(row)
  do round = 1, rounds
    do root = 0, ranks - 1
      numbers = -1
      table = -1
      if (rank == root) then
        numbers = [(1000 * round + root + i, i = 1, length)]
        table(3, :) = [(round - 1000 * i, i = 1, 500)]
      end if
      call MPI_Bcast(numbers, length, MPI_INTEGER, root, comm)
      call MPI_Bcast(table(3, 1), 1, row, root, comm)
      if (any(numbers /= [(1000 * round + root + i, i = 1, length)]) .or. &
          any(table(3, :) /= [(round - 1000 * i, i = 1, 500)]) .or. any(table(1:2, :) /= -1)) then
        print *, 'rank', rank, ': a wrong number in round', round
        call MPI_Abort(comm, 1)
      end if
    end do
  end do
  if (rank == 0) print '(i0, a)', rounds, ' rounds are right'
  call MPI_Type_free(row)
  call MPI_Comm_free(comm)
  call MPI_Finalize()
end program
