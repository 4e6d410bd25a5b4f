/* Threads that broadcast at once, each over communicators of its own. */
#include "rows.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3 };

typedef struct {
    int number;
    MPI_Comm comm;
    pthread_t thread;
} worker;

static void with_threads(void *(*work)(void *))
{
    int given;
    MPI_Query_thread(&given);
    if (given < MPI_THREAD_MULTIPLE) {
        skip("MPI_THREAD_MULTIPLE is not given");
        return;
    }
    worker workers[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t].number = t;
        MPI_Comm_split(MPI_COMM_WORLD, 0, t % 2 ? -world_rank : world_rank, &workers[t].comm);
    }
    for (int t = 0; t < THREADS; t++)
        pthread_create(&workers[t].thread, NULL, work, &workers[t]);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        MPI_Comm_free(&workers[t].comm);
    }
}

/* The first broadcasts of all communicators meet. */
static void *broadcast_at_once(void *argument)
{
    worker *w = argument;
    channel c = open_channel(w->comm);
    carry_from_every_root(&c);
    for (int i = 0; i < 60; i++)
        carry_bytes(&c, (i + w->number) % c.size, i % 10 ? 1 + 137 * i : 70000);
    close_channel(&c);
    return NULL;
}

static void at_once(void)
{
    with_threads(broadcast_at_once);
}

static void *make_and_free(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < 8; i++) {
        MPI_Comm copy;
        MPI_Comm_dup(w->comm, &copy);
        channel c = open_channel(copy);
        for (int j = 0; j < 8; j++)
            carry_bytes(&c, (j + w->number) % c.size, j % 2 ? 70000 : 40);
        close_channel(&c);
        MPI_Comm_free(&copy);
    }
    return NULL;
}

static void made_and_freed(void)
{
    with_threads(make_and_free);
}

/* Beside a thread that sends and receives. */
static void *exchange_or_broadcast(void *argument)
{
    worker *w = argument;
    channel c = open_channel(w->comm);
    char *memory = calloc(1, 40000), *in = malloc(40000);
    for (int i = 0; i < 40; i++) {
        if (w->number > 0)
            carry_bytes(&c, i % c.size, 500 * i);
        else
            MPI_Sendrecv(memory, 1000 * i, MPI_BYTE, (c.rank + 1) % c.size, i, in, 40000, MPI_BYTE,
                         (c.rank + c.size - 1) % c.size, i, w->comm, MPI_STATUS_IGNORE);
    }
    free(in);
    free(memory);
    close_channel(&c);
    return NULL;
}

static void beside_messages(void)
{
    with_threads(exchange_or_broadcast);
}

/* A communicator that goes from thread to thread. */
static void *take_turns(void *argument)
{
    carry_from_every_root(argument);
    return NULL;
}

static void handed_on(void)
{
    int given;
    MPI_Query_thread(&given);
    if (given < MPI_THREAD_SERIALIZED) {
        skip("MPI_THREAD_SERIALIZED is not given");
        return;
    }
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    channel c = open_channel(copy);
    for (int t = 0; t < THREADS; t++) {
        pthread_t thread;
        pthread_create(&thread, NULL, take_turns, &c);
        pthread_join(thread, NULL);
        carry_from_every_root(&c);
    }
    close_channel(&c);
    MPI_Comm_free(&copy);
}

const row thread_rows[] = {
    {"threads_at_once", at_once, MPI_THREAD_MULTIPLE, 0},
    {"threads_make_and_free", made_and_freed, MPI_THREAD_MULTIPLE, 0},
    {"threads_beside_messages", beside_messages, MPI_THREAD_MULTIPLE, 0},
    {"threads_hand_on_a_communicator", handed_on, MPI_THREAD_SERIALIZED, 0},
    {0},
};
