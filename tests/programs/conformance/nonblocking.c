/* Broadcasts beside everything else that is under way on the same communicator. */
#include "rows.h"
#include <stdlib.h>
#include <string.h>

static void ibcast_around(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    enum { BYTES = 20000 };
    char *memory = malloc(BYTES);
    for (int i = 0; i < 12; i++) {
        MPI_Request request;
        uint32_t number = ++c.number;
        int root = i % c.size;
        fill_message(memory, c.rank == root ? number : ~number, BYTES);
        MPI_Ibcast(memory, BYTES, MPI_BYTE, root, MPI_COMM_WORLD, &request);
        carry_bytes(&c, (i + 1) % c.size, 100);
        carry_bytes(&c, (i + 2) % c.size, 70000);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_message(&c, memory, number, BYTES);
    }
    free(memory);
    close_channel(&c);
}

static void persistent(void)
{
#if MPI_VERSION >= 4 || defined OPEN_MPI && OMPI_MAJOR_VERSION >= 5
    channel c = open_channel(MPI_COMM_WORLD);
    enum { BYTES = 20000 };
    char *memory = malloc(BYTES);
    MPI_Request request;
    MPI_Bcast_init(memory, BYTES, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 12; i++) {
        uint32_t number = ++c.number;
        fill_message(memory, c.rank == 0 ? number : ~number, BYTES);
        MPI_Start(&request);
        carry_bytes(&c, i % c.size, 5000);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_message(&c, memory, number, BYTES);
        carry_bytes(&c, i % c.size, 70000);
    }
    MPI_Request_free(&request);
    free(memory);
    close_channel(&c);
#else
    skip("no persistent collectives before MPI 4");
#endif
}

static void other_collectives(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    for (int i = 0; i < 20; i++) {
        int one = 1, sum = 0, before = -1;
        carry_bytes(&c, i % c.size, 200 * i);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        carry_bytes(&c, (i + 1) % c.size, 70000);
        MPI_Exscan(&one, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        carry_bytes(&c, (i + 2) % c.size, 10);
        MPI_Barrier(MPI_COMM_WORLD);
        if (sum != c.size || (c.rank > 0 && before != c.rank))
            wrong("a sum of %d and %d", sum, before);
    }
    close_channel(&c);
}

/* A receive for any message, posted before the broadcasts and met after them, takes none of theirs. */
static void receive_of_anything(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    int value = -1, mine = 100 + c.rank, flag;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 20; i++) {
        carry_bytes(&c, i % c.size, 4);
        carry_bytes(&c, i % c.size, 70000);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        if (flag)
            wrong("a message of another's is in sight");
    }
    MPI_Test(&request, &flag, &status);
    if (flag)
        wrong("a broadcast met the receive");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&mine, 1, MPI_INT, (c.rank + 1) % c.size, 9, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    if (value != 100 + (c.rank + c.size - 1) % c.size || status.MPI_TAG != 9)
        wrong("received %d with tag %d", value, status.MPI_TAG);
    close_channel(&c);
}

/* Sends that nobody receives until the broadcasts are over. */
static void sends_under_way(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    enum { SENDS = 8, BYTES = 100000 };
    char *out = malloc(SENDS * BYTES), *in = malloc(BYTES);
    MPI_Request requests[SENDS];
    int to = (c.rank + 1) % c.size, from = (c.rank + c.size - 1) % c.size;
    for (int i = 0; i < SENDS; i++) {
        fill_message(out + i * BYTES, 1000 * c.rank + i, BYTES);
        MPI_Isend(out + i * BYTES, BYTES, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < 20; i++)
        carry_bytes(&c, i % c.size, i % 2 ? 70000 : 50);
    for (int i = SENDS - 1; i >= 0; i--) {
        MPI_Recv(in, BYTES, MPI_BYTE, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check_message(&c, in, 1000 * from + i, BYTES);
    }
    for (int i = 0; i < SENDS; i++)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    free(in);
    free(out);
    close_channel(&c);
}

const row nonblocking_rows[] = {
    {"ibcast_around_broadcasts", ibcast_around, 0, 0},
    {"persistent_broadcast_beside", persistent, 0, 0},
    {"other_collectives_between", other_collectives, 0, 0},
    {"receive_of_anything_posted", receive_of_anything, 0, 0},
    {"sends_under_way", sends_under_way, 0, 0},
    {0},
};
