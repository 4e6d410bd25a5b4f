/* What TCP itself reaches where a message goes from one site to others: no tree, no search. The ranks of the
 * first site send BYTES bytes to each other site at once, over CONNECTIONS pairs of a sender and a receiver a
 * site (as many as there are, if fewer), the same share over each, in segments of 32 KiB, which need no
 * rendezvous. Rank 0 gives the sign and prints the seconds until it has the answers of all receivers, one
 * line a time: "SECONDS". What nodes of a site would pass on to each other is left out, so a broadcast takes
 * longer than this by that. Rank 0 pauses for PAUSE_MS before each, as bcast_times does.
 * Usage: bare_connections BYTES REPEATS PAUSE_MS CONNECTIONS RANKS_OF_FIRST_SITE RANKS_OF_SECOND_SITE ... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SEGMENT_BYTES = 32 << 10, SIGN = 1, SEGMENT = 2, ANSWER = 3 };

/* Adds the requests of one connection's share; `buffer` is as long as the message. */
static int post(int bytes, char *buffer, int peer, int is_sender, MPI_Request *requests)
{
    int count = 0;
    for (int at = 0; at < bytes; at += SEGMENT_BYTES, count++) {
        int length = bytes - at < SEGMENT_BYTES ? bytes - at : SEGMENT_BYTES;
        if (is_sender)
            MPI_Isend(buffer + at, length, MPI_BYTE, peer, SEGMENT, MPI_COMM_WORLD, &requests[count]);
        else
            MPI_Irecv(buffer + at, length, MPI_BYTE, peer, SEGMENT, MPI_COMM_WORLD, &requests[count]);
    }
    return count;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int ranks = 0;
    for (int site = 5; site < argc; site++)
        ranks += atoi(argv[site]);
    if (argc < 7 || ranks != size) {
        if (rank == 0)
            fprintf(stderr, "usage: bare_connections BYTES REPEATS PAUSE_MS CONNECTIONS RANKS_OF_FIRST_SITE "
                            "RANKS_OF_SECOND_SITE ..., which make %d\n", size);
        MPI_Finalize();
        return 2;
    }
    int bytes = atoi(argv[1]), repeats = atoi(argv[2]), pause_ms = atoi(argv[3]);
    int connections = atoi(argv[4]), senders = atoi(argv[5]);
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
    char *buffer = calloc(bytes > 0 ? bytes : 1, 1);
    MPI_Request *requests = malloc(((size_t)bytes / SEGMENT_BYTES + 1) * size * sizeof *requests);
    for (int number = 0; number < repeats; number++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            nanosleep(&pause, NULL);
        int count = 0, answers = 0, receives = 0, first = senders;
        double start = MPI_Wtime();
        if (rank == 0)
            for (int sender = 1; sender < senders; sender++)
                MPI_Send(NULL, 0, MPI_BYTE, sender, SIGN, MPI_COMM_WORLD);
        else if (rank < senders)
            MPI_Recv(NULL, 0, MPI_BYTE, 0, SIGN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int site = 6; site < argc; first += atoi(argv[site++])) {
            int receivers = atoi(argv[site]), most = senders * receivers;
            int used = connections < most ? connections : most;
            answers += used;
            for (int pair = 0; pair < used; pair++) {
                /* Every sender has one before any has a second one, to another receiver. */
                int sender = pair % senders;
                int receiver = first + (sender + pair / senders) % receivers;
                int share = bytes / used + (pair < bytes % used);
                if (rank == sender)
                    count += post(share, buffer, receiver, 1, requests + count);
                if (rank == receiver) {
                    receives++;
                    count += post(share, buffer, sender, 0, requests + count);
                }
            }
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < receives; i++)
            MPI_Send(NULL, 0, MPI_BYTE, 0, ANSWER, MPI_COMM_WORLD);
        if (rank == 0) {
            for (int answer = 0; answer < answers; answer++)
                MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("%.6f\n", MPI_Wtime() - start);
            fflush(stdout);
        }
    }
    free(requests);
    free(buffer);
    MPI_Finalize();
    return 0;
}
