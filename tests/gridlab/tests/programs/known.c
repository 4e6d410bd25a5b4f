/* MPI programs whose time can be worked out by hand, and a verified broadcast.
 *
 * known MODE,... BYTES REPETITIONS prints median and least, in seconds, of what rank 0 has measured in each; the
 * first repetition warms the connections up and is not counted. Ranks leave a barrier up to one
 * latency apart, so rank 0 waits before it starts its clock. Sixteen ranks that poll take each other's
 * time on few cores, so all but rank 0 nap while they wait.
 *   bcast  MPI_Bcast from rank 0, each rank checks every byte, empty acknowledgements from all
 *   chain  one message along 0, 1, 2, ... back to 0
 *   star   one message from 0 to each other rank, an empty answer from each
 *   link   BYTES from rank 0 to rank 4 in segments of 32 KiB, an empty answer
 *   fanin  ranks 12 and 8 (far) answer rank 0; while their answers travel, rank 4 (near) is asked:
 *          prints the round trips of 12, 8 and 4, which must come back in the opposite order */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 7, SEGMENT = 32768, REPETITIONS = 1000 };

static int rank, size;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void send_empty(int to) { MPI_Send(NULL, 0, MPI_CHAR, to, TAG, MPI_COMM_WORLD); }

static void nap(void) { usleep(200); }

static void wait_for(MPI_Request *request)
{
    int done = 0;
    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        if (rank != 0)
            nap();
    }
}

static void receive(char *buffer, int bytes, int from)
{
    MPI_Request request;
    MPI_Irecv(buffer, bytes, MPI_CHAR, from, TAG, MPI_COMM_WORLD, &request);
    wait_for(&request);
}

static void receive_empty(int from) { receive(NULL, 0, from); }

static void barrier(void)
{
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait_for(&request);
}

static void sleep_until(double time)
{
    while (MPI_Wtime() < time)
        nap();
}

static double bcast(char *buffer, int bytes, int repetition)
{
    for (int i = 0; i < bytes; i++)
        buffer[i] = rank == 0 ? (char)(i * 31 + repetition) : 0;
    barrier();
    if (rank == 0)
        sleep_until(MPI_Wtime() + 0.2);
    double start = MPI_Wtime();
    MPI_Bcast(buffer, bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < bytes; i++)
        if (buffer[i] != (char)(i * 31 + repetition)) {
            fprintf(stderr, "rank %d: wrong byte at %d\n", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    if (rank != 0) {
        send_empty(0);
        return 0;
    }
    for (int i = 1; i < size; i++)
        receive_empty(MPI_ANY_SOURCE);
    return MPI_Wtime() - start;
}

static double chain(char *buffer, int bytes)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    double start = MPI_Wtime();
    if (rank == 0)
        MPI_Send(buffer, bytes, MPI_CHAR, next, TAG, MPI_COMM_WORLD);
    receive(buffer, bytes, before);
    double end = MPI_Wtime();
    if (rank != 0)
        MPI_Send(buffer, bytes, MPI_CHAR, next, TAG, MPI_COMM_WORLD);
    return end - start;
}

static double star(char *buffer, int bytes)
{
    double start = MPI_Wtime();
    if (rank != 0) {
        receive(buffer, bytes, 0);
        send_empty(0);
        return 0;
    }
    for (int i = 1; i < size; i++)
        MPI_Send(buffer, bytes, MPI_CHAR, i, TAG, MPI_COMM_WORLD);
    for (int i = 1; i < size; i++)
        receive_empty(MPI_ANY_SOURCE);
    return MPI_Wtime() - start;
}

static double link_time(char *buffer, int bytes)
{
    int segments = (bytes + SEGMENT - 1) / SEGMENT;
    MPI_Request *requests = malloc(segments * sizeof *requests);
    double start = MPI_Wtime();
    if (rank == 0 || rank == 4) {
        for (int i = 0; i < segments; i++) {
            int length = i + 1 < segments ? SEGMENT : bytes - i * SEGMENT;
            char *place = buffer + (size_t)i * SEGMENT;
            if (rank == 0)
                MPI_Isend(place, length, MPI_CHAR, 4, TAG, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(place, length, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < segments; i++)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        if (rank == 0)
            receive_empty(4);
        else
            send_empty(0);
    }
    free(requests);
    return MPI_Wtime() - start;
}

static void fanin(double *far, double *middle, double *near)
{
    if (rank == 8 || rank == 12 || rank == 4) {
        receive_empty(0);
        send_empty(0);
    }
    if (rank != 0)
        return;
    double start = MPI_Wtime();
    send_empty(12);
    send_empty(8);
    sleep_until(start + 0.015);
    double asked = MPI_Wtime();
    send_empty(4);
    receive_empty(4);
    *near = MPI_Wtime() - asked;
    receive_empty(8);
    *middle = MPI_Wtime() - start;
    receive_empty(12);
    *far = MPI_Wtime() - start;
}

static void measure(const char *mode, char *buffer, int bytes, int repetitions)
{
    static double times[3][REPETITIONS];
    for (int i = -1; i < repetitions; i++) {
        double *time = &times[0][i < 0 ? 0 : i];
        barrier();
        if (rank == 0)
            sleep_until(MPI_Wtime() + 0.1);
        if (strcmp(mode, "bcast") == 0)
            *time = bcast(buffer, bytes, i);
        else if (strcmp(mode, "chain") == 0)
            *time = chain(buffer, bytes);
        else if (strcmp(mode, "star") == 0)
            *time = star(buffer, bytes);
        else if (strcmp(mode, "link") == 0)
            *time = link_time(buffer, bytes);
        else if (strcmp(mode, "fanin") == 0)
            fanin(time, time + REPETITIONS, time + 2 * REPETITIONS);
        else
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (rank == 0)
        for (int i = 0; i < (strcmp(mode, "fanin") == 0 ? 3 : 1); i++) {
            qsort(times[i], repetitions, sizeof times[i][0], ascending);
            printf("%.9f %.9f\n", times[i][repetitions / 2], times[i][0]);
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4 || atoi(argv[2]) < 1 || atoi(argv[3]) < 1 || atoi(argv[3]) >= REPETITIONS) {
        fprintf(stderr, "usage: known MODE,... BYTES REPETITIONS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int bytes = atoi(argv[2]), repetitions = atoi(argv[3]);
    char *buffer = calloc(bytes, 1);
    for (char *mode = strtok(argv[1], ","); mode; mode = strtok(NULL, ","))
        measure(mode, buffer, bytes, repetitions);
    free(buffer);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
