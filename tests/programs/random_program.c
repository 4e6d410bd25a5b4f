/* A program drawn at random, the same on every rank: communicators made and freed, broadcasts of random
 * roots, sizes and datatypes over several of them in turns, ranks that come late, messages and other
 * collectives between, threads where MPI_THREAD_MULTIPLE is given. Every payload is checked against what
 * the seed says it must be. Rank 0 prints `seed SEED` first and at the end
 *   STEPS steps, BROADCASTS broadcasts, checksum CHECKSUM, ASKED asked, ALONG along trees
 * The checksum depends on the seed and the number of steps alone.
 * Usage: random_program SEED [--steps N] [--seconds S] [--threads T]
 * Ends after N steps of each thread or S seconds, whichever comes first. A wrong payload ends the job and
 * says where it was; so does a minute without an end of some steps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMS = 6, MOST_THREADS = 4, BATCH = 50, GUARD = 32, MOST_BYTES = 1 << 20, STALL_S = 60 };

typedef struct {
    double seconds;
    int along_trees;
} timing;

/* One thread's program: its choices come from `state`, which is equal on all ranks, since every rank
 * draws every choice, whether or not it takes part. */
typedef struct {
    int number;
    uint64_t state, checksum;
    long step, broadcasts, asked, along;
    MPI_Comm home;
    MPI_Comm comm[COMMS];
    /* The ranks in `home` of each communicator's members, in its order; 0 members: none there. */
    int members[COMMS];
    int *member[COMMS];
} program;

static int (*ask)(void *, int, MPI_Datatype, int, MPI_Comm, timing *);
static int world_rank, world_size;
static long last_step;
static double until;
static uint64_t seed;

static uint64_t draw(program *p)
{
    uint64_t x = p->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int below(program *p, int limit)
{
    return (int)(draw(p) % (uint64_t)limit);
}

static unsigned char expected(uint32_t number, uint32_t index)
{
    uint32_t x = (index + 1) * 0x9e3779b1u ^ number * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return (unsigned char)((x ^ x >> 13) >> 8);
}

static void fail(const program *p, const char *what, long a, long b)
{
    fprintf(stderr, "seed %llu: rank %d, thread %d, step %ld: %s (%ld, %ld)\n", (unsigned long long)seed,
            world_rank, p->number, p->step, what, a, b);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The rank of this process in a communicator of the program; -1: it is no member. */
static int rank_in(const program *p, int k)
{
    for (int i = 0; i < p->members[k]; i++)
        if (p->member[k][i] == world_rank)
            return i;
    return -1;
}

static void set_members(program *p, int k, MPI_Comm comm, const int *ranks, int count)
{
    p->comm[k] = comm;
    p->members[k] = count;
    p->member[k] = malloc(world_size * sizeof(int));
    memcpy(p->member[k], ranks, count * sizeof(int));
}

/* Makes communicator `k` out of `from`; all ranks know its members, also those that are none. */
static void make(program *p, int k, int from)
{
    int way = below(p, 4), in = rank_in(p, from), size = p->members[from], *of = p->member[from];
    int ranks[world_size], count = 0;
    MPI_Comm made = MPI_COMM_NULL;
    uint64_t choice = draw(p);
    if (way == 0) {
        if (in >= 0)
            MPI_Comm_dup(p->comm[from], &made);
        set_members(p, k, made, of, size);
        return;
    }
    /* A random part of two ranks or more, upright or reversed. */
    int reversed = choice >> 63;
    for (int i = 0; i < size; i++) {
        int j = reversed ? size - 1 - i : i;
        if (way == 1 || choice >> (j % 60) & 1)
            ranks[count++] = j;
    }
    if (count < 2)
        for (count = 0; count < size; count++)
            ranks[count] = reversed ? size - 1 - count : count;
    int key = -1;
    for (int i = 0; i < count; i++)
        if (ranks[i] == in)
            key = i;
    if (in >= 0 && way <= 2) {
        MPI_Comm_split(p->comm[from], key >= 0 ? 0 : MPI_UNDEFINED, key, &made);
    } else if (in >= 0) {
        MPI_Group all, group;
        MPI_Comm_group(p->comm[from], &all);
        MPI_Group_incl(all, count, ranks, &group);
        MPI_Comm_create(p->comm[from], group, &made);
        MPI_Group_free(&group);
        MPI_Group_free(&all);
    }
    for (int i = 0; i < count; i++)
        ranks[i] = of[ranks[i]];
    set_members(p, k, made, ranks, count);
}

static void unmake(program *p, int k)
{
    if (p->comm[k] != MPI_COMM_NULL)
        MPI_Comm_free(&p->comm[k]);
    p->comm[k] = MPI_COMM_NULL;
    p->members[k] = 0;
    free(p->member[k]);
    p->member[k] = NULL;
}

/* Bytes of a message: mostly short, seldom very long, often near a power of two. */
static int draw_bytes(program *p)
{
    int bits = below(p, 100), around = below(p, 9) - 4;
    int most = bits < 60 ? 12 : bits < 95 ? 17 : 20;
    int power = 1 << below(p, most + 1);
    int bytes = below(p, 2) ? power + around : below(p, power + 1);
    return bytes < 0 ? 0 : bytes > MOST_BYTES ? MOST_BYTES : bytes;
}

/* Blocks of `block` bytes every `stride` bytes, as one datatype; blocks without holes as bytes. */
static void broadcast(program *p, int k)
{
    int bytes = draw_bytes(p), shape = below(p, 4), root = below(p, p->members[k]), asks = below(p, 2);
    int block = 1 + below(p, 64), stride = block + below(p, 16), rank = rank_in(p, k);
    uint32_t number = (uint32_t)draw(p);
    p->broadcasts++;
    if (rank < 0)
        return;
    if (shape > 0)
        block = stride = bytes > 0 ? bytes : 1;
    else
        bytes = bytes / block * block;
    int blocks = bytes / block;
    size_t span = blocks ? (size_t)(blocks - 1) * stride + block : 0;
    unsigned char *memory = malloc(span + 2 * GUARD), *data = memory + GUARD;
    memset(memory, 0xee, span + 2 * GUARD);
    for (int i = 0; rank == root && i < bytes; i++)
        data[(size_t)(i / block) * stride + i % block] = expected(number, i);
    MPI_Datatype type = MPI_BYTE;
    int count = bytes;
    if (shape == 0) {
        MPI_Datatype inner;
        MPI_Type_contiguous(block, MPI_BYTE, &inner);
        MPI_Type_create_resized(inner, 0, stride, &type);
        MPI_Type_commit(&type);
        MPI_Type_free(&inner);
        count = blocks;
    }
    int code;
    if (ask && asks) {
        timing t = {-1.0, 0};
        code = ask(data, count, type, root, p->comm[k], rank == root ? NULL : &t);
        p->asked += rank != root;
        p->along += t.along_trees;
    } else {
        code = MPI_Bcast(data, count, type, root, p->comm[k]);
    }
    if (code != MPI_SUCCESS)
        fail(p, "an error", code, bytes);
    if (shape == 0)
        MPI_Type_free(&type);
    for (int i = 0; i < bytes; i++) {
        unsigned char *at = &data[(size_t)(i / block) * stride + i % block];
        p->checksum = (p->checksum ^ *at) * 0x100000001b3u;
        if (*at != expected(number, i))
            fail(p, *at == 0xee ? "a missing byte" : "a wrong byte", i, bytes);
        *at = 0xee;
    }
    for (size_t i = 0; i < span + 2 * GUARD; i++)
        if (memory[i] != 0xee)
            fail(p, "a byte outside of the message", (long)i - GUARD, bytes);
    free(memory);
}

/* Another collective, or messages around the ring of a communicator. */
static void something_else(program *p, int k)
{
    int what = below(p, 5), size = p->members[k], rank = rank_in(p, k), number = below(p, 1 << 20);
    int bytes = draw_bytes(p) / 4;
    if (rank < 0)
        return;
    int value = number + rank, sum = 0, after = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Comm comm = p->comm[k];
    switch (what) {
    case 0:
        MPI_Barrier(comm);
        break;
    case 1:
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
        if (sum != size * number + size * (size - 1) / 2)
            fail(p, "a wrong sum", sum, number);
        break;
    case 2: {
        int all[size];
        MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, comm);
        for (int i = 0; i < size; i++)
            if (all[i] != number + i)
                fail(p, "a wrong value gathered", all[i], i);
        break;
    }
    case 3: {
        char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
        memset(out, number + rank, bytes + 1);
        MPI_Sendrecv(out, bytes + 1, MPI_BYTE, after, 3, in, bytes + 1, MPI_BYTE, before, 3, comm,
                     MPI_STATUS_IGNORE);
        if (in[bytes] != (char)(number + before))
            fail(p, "a wrong message", in[bytes], bytes);
        free(out);
        free(in);
        break;
    }
    default: {
        /* A receive that any message would meet, around a barrier and its own message. */
        int got = -1;
        MPI_Request request;
        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 11, comm, &request);
        MPI_Barrier(comm);
        MPI_Send(&value, 1, MPI_INT, after, 11, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (got != number + before)
            fail(p, "a wrong message for anyone", got, number);
        MPI_Barrier(comm);
    }
    }
}

/* A non-blocking broadcast around blocking ones. */
static void nonblocking(program *p, int k)
{
    enum { BYTES = 10000 };
    int root = below(p, p->members[k]), rank = rank_in(p, k);
    uint32_t number = (uint32_t)draw(p);
    static __thread unsigned char data[BYTES];
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank >= 0) {
        for (int i = 0; i < BYTES; i++)
            data[i] = rank == root ? expected(number, i) : 0xee;
        MPI_Ibcast(data, BYTES, MPI_BYTE, root, p->comm[k], &request);
    }
    broadcast(p, k);
    broadcast(p, k);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; rank >= 0 && i < BYTES; i++)
        if (data[i] != expected(number, i))
            fail(p, "a wrong byte of a non-blocking broadcast", i, root);
}

static void take_step(program *p)
{
    int what = below(p, 100), k = below(p, COMMS), late = below(p, world_size), ms = below(p, 30);
    if (what < 6) {
        /* Its place is taken by a child of the home or of another communicator. */
        int from = below(p, COMMS);
        if (k > 0 && from != k && p->members[from]) {
            unmake(p, k);
            make(p, k, from);
        }
        return;
    }
    if (what < 8) {
        if (world_rank == late)
            usleep(ms * 1000);
        return;
    }
    if (!p->members[k])
        return;
    if (what < 14)
        something_else(p, k);
    else if (what < 17)
        nonblocking(p, k);
    else if (what < 30)
        /* A burst from one root or all over the place. */
        for (int i = below(p, 20); i >= 0; i--)
            broadcast(p, k);
    else
        broadcast(p, k);
}

/* Whether all ranks go on: until the first of them finds that it is time. */
static int goes_on(program *p)
{
    int more = p->step < last_step && (until == 0 || MPI_Wtime() < until), all = more;
    MPI_Allreduce(&more, &all, 1, MPI_INT, MPI_MIN, p->home);
    return all;
}

static void *run(void *argument)
{
    program *p = argument;
    int everyone[world_size];
    for (int i = 0; i < world_size; i++)
        everyone[i] = i;
    set_members(p, 0, p->home, everyone, world_size);
    for (int k = 1; k < COMMS; k++)
        p->comm[k] = MPI_COMM_NULL;
    while (goes_on(p)) {
        alarm(STALL_S);
        for (int i = 0; i < BATCH && p->step < last_step; i++, p->step++)
            take_step(p);
    }
    for (int k = 1; k < COMMS; k++)
        unmake(p, k);
    free(p->member[0]);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = 1, given;
    double seconds = 0;
    last_step = 1L << 62;
    if (argc < 2) {
        fprintf(stderr, "usage: random_program SEED [--steps N] [--seconds S] [--threads T]\n");
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    for (int i = 2; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--steps"))
            last_step = atol(argv[i + 1]);
        else if (!strcmp(argv[i], "--seconds"))
            seconds = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--threads"))
            threads = atoi(argv[i + 1]);
    }
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    ask = (int (*)(void *, int, MPI_Datatype, int, MPI_Comm, timing *))dlsym(RTLD_DEFAULT, "arborcast_bcast");
    threads = threads > MOST_THREADS ? MOST_THREADS : given < MPI_THREAD_MULTIPLE ? 1 : threads;
    until = seconds > 0 ? MPI_Wtime() + seconds : 0;
    if (world_rank == 0) {
        printf("seed %llu, %d threads\n", (unsigned long long)seed, threads);
        fflush(stdout);
    }
    static program programs[MOST_THREADS];
    pthread_t workers[MOST_THREADS];
    for (int t = 0; t < threads; t++) {
        programs[t].number = t;
        programs[t].state = seed * 1000003u + t;
        MPI_Comm_dup(MPI_COMM_WORLD, &programs[t].home);
    }
    for (int t = 1; t < threads; t++)
        pthread_create(&workers[t], NULL, run, &programs[t]);
    run(&programs[0]);
    unsigned long long mine[5] = {0}, sum[5];
    for (int t = 0; t < threads; t++) {
        if (t > 0)
            pthread_join(workers[t], NULL);
        unsigned long long of[5] = {programs[t].checksum, programs[t].asked, programs[t].along,
                                    programs[t].step, programs[t].broadcasts};
        for (int i = 0; i < 5; i++)
            mine[i] += i < 3 || world_rank == 0 ? of[i] : 0;
        MPI_Comm_free(&programs[t].home);
    }
    MPI_Reduce(mine, sum, 5, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (world_rank == 0)
        printf("%llu steps, %llu broadcasts, checksum %016llx, %llu asked, %llu along trees\n", sum[3], sum[4],
               sum[0], sum[1], sum[2]);
    MPI_Finalize();
    return 0;
}
