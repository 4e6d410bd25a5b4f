/* Broadcasts messages of many sizes, shapes and roots over several communicators and checks every byte
 * on every rank. Every second broadcast goes through arborcast_bcast where a library has it, to learn
 * which way it went. Rank 0 prints how errors came back, one line each, and at the end
 *   COUNT broadcasts, ASKED asked, TREES along trees
 * where ASKED and TREES count only what rank 0 saw of non-empty messages between nodes, once a
 * communicator of all ranks has carried a long one or a few short ones. Exit code 1
 * where anything is wrong. Ranks describe one message by different datatypes, which MPI allows and some
 * MPIs do not bear, not at all (MIXED 0), where it has bytes (1), or also where it has none (2).
 * Usage: bcast_payloads RANKS_PER_NODE BIG_BYTES MIXED */
#define _GNU_SOURCE
#include "common.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double seconds;
    int along_trees;
} timing;
typedef int explicit_bcast(void *, int, MPI_Datatype, int, MPI_Comm, timing *);

/* A communicator, how many broadcasts it has carried, how many short ones before it was worth setting up,
 * and whether it spans nodes. */
typedef struct {
    MPI_Comm comm;
    int number, short_ones, rank, size, spans_nodes;
} channel;

enum { GUARD = 64, ROOM = 16 << 20, SHORT_ONES = 3, LONG_BYTES = 64 << 10 };
static explicit_bcast *ask;
static unsigned char *memory;
static long broadcasts, asked, along_trees;
static int world_rank, world_size, ranks_per_node, mixed;
/* One of all ranks has been set up. */
static int all_are_set_up;

static void fail(const char *what, const channel *c, int root, int bytes, int index)
{
    fprintf(stderr, "rank %d: %s: broadcast %d of %d ranks from %d, %d bytes, byte %d\n", world_rank,
            what, c->number, c->size, root, bytes, index);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static channel channel_of(MPI_Comm comm)
{
    channel c = {comm, 0, 0, 0, 0, 0};
    MPI_Comm_rank(comm, &c.rank);
    MPI_Comm_size(comm, &c.size);
    int node = world_rank / ranks_per_node, least, most;
    MPI_Allreduce(&node, &least, 1, MPI_INT, MPI_MIN, comm);
    MPI_Allreduce(&node, &most, 1, MPI_INT, MPI_MAX, comm);
    c.spans_nodes = least < most;
    return c;
}

/* Broadcasts `count` of `type`: blocks of `block` bytes every `stride` bytes, `bytes` in all. */
static void shaped(channel *c, int root, int count, MPI_Datatype type, int bytes, int block, int stride)
{
    int number = ++c->number, blocks = block ? bytes / block : 0;
    int extent = blocks ? (blocks - 1) * stride + block : 0;
    unsigned char *data = memory + GUARD;
    memset(memory, 0xee, extent + 2 * GUARD);
    for (int i = 0; c->rank == root && i < bytes; i++)
        data[i / block * stride + i % block] = expected(number, i);
    int is_young = !all_are_set_up && bytes < LONG_BYTES && c->short_ones < SHORT_ONES;
    if (bytes > 0) {
        c->short_ones += is_young;
        all_are_set_up |= !is_young && c->size == world_size;
    }
    timing t = {-1.0, 0};
    if (ask && number % 2 == 0) {
        if (ask(data, count, type, root, c->comm, &t) != MPI_SUCCESS)
            fail("an error", c, root, bytes, 0);
        asked += bytes > 0 && c->spans_nodes && !is_young;
        along_trees += t.along_trees;
        if (t.along_trees && (t.seconds >= 0) != (c->rank == root))
            fail("a time where there is none, or none where there is", c, root, bytes, 0);
    } else if (MPI_Bcast(data, count, type, root, c->comm) != MPI_SUCCESS) {
        fail("an error", c, root, bytes, 0);
    }
    broadcasts++;
    for (int i = 0; i < bytes; i++) {
        unsigned char *at = &data[i / block * stride + i % block];
        if (*at != expected(number, i))
            fail(*at == 0xee ? "a missing byte" : "a wrong byte", c, root, bytes, i);
        *at = 0xee;
    }
    for (int i = 0; i < extent + 2 * GUARD; i++)
        if (memory[i] != 0xee)
            fail("a byte outside of the message", c, root, bytes, i - GUARD);
}

static void plain(channel *c, int root, int bytes)
{
    shaped(c, root, bytes, MPI_BYTE, bytes, bytes, bytes);
}

static void every_root_and_size(channel *c)
{
    static const int sizes[] = {0, 1, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 70001};
    for (int root = 0; root < c->size; root++)
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int twice = 0; twice < 2; twice++)
                plain(c, root, sizes[s]);
}

/* Datatypes with gaps and without; only the signature is the same. */
static void every_shape(channel *c)
{
    MPI_Datatype row, bytes_in_blocks, ints_in_blocks, nothing;
    MPI_Type_contiguous(12, MPI_BYTE, &row);
    MPI_Type_vector(100, 12, 20, MPI_BYTE, &bytes_in_blocks);
    MPI_Type_vector(60, 3, 4, MPI_INT, &ints_in_blocks);
    MPI_Type_contiguous(0, MPI_BYTE, &nothing);
    MPI_Datatype *types[] = {&row, &bytes_in_blocks, &ints_in_blocks, &nothing};
    for (int i = 0; i < 4; i++)
        MPI_Type_commit(types[i]);
    for (int root = 0; root < c->size; root++) {
        for (int twice = 0; twice < 2; twice++) {
            switch (((mixed > 0) * c->rank + root + twice) % 3) {
            case 0: shaped(c, root, 1200, MPI_BYTE, 1200, 1200, 1200); break;
            case 1: shaped(c, root, 1, bytes_in_blocks, 1200, 12, 20); break;
            default: shaped(c, root, 100, row, 1200, 1200, 1200);
            }
        }
        for (int twice = 0; twice < 2; twice++) {
            if (((mixed > 0) * c->rank + root + twice) % 2)
                shaped(c, root, 180, MPI_INT, 720, 720, 720);
            else
                shaped(c, root, 1, ints_in_blocks, 720, 12, 16);
        }
    }
    for (int i = 0; i < 4; i++)
        MPI_Type_free(types[i]);
}

/* The first broadcast of a communicator is empty, which only some ranks can tell from the count. */
static void nothing_at_first(MPI_Comm comm)
{
    MPI_Comm copy;
    MPI_Datatype nothing;
    MPI_Comm_dup(comm, &copy);
    MPI_Type_contiguous(0, MPI_BYTE, &nothing);
    MPI_Type_commit(&nothing);
    channel c = channel_of(copy);
    shaped(&c, 0, mixed > 1 && c.rank % 2 ? 0 : 5, nothing, 0, 0, 0);
    for (int i = 0; i < SHORT_ONES + 1; i++)
        plain(&c, c.size - 1, 100);
    MPI_Type_free(&nothing);
    MPI_Comm_free(&copy);
}

static void tell(const char *what, int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    printf("error %s: class %d\n", what, class);
}

/* Wrong arguments on one rank alone: natively an error at once, and nobody waits for anybody. */
static void errors(MPI_Comm comm)
{
    MPI_Comm copy;
    char byte = 0;
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (world_rank == 0) {
        int size;
        MPI_Comm_size(copy, &size);
        tell("root too large", MPI_Bcast(&byte, 1, MPI_BYTE, size, copy));
        tell("root negative", MPI_Bcast(&byte, 1, MPI_BYTE, -7, copy));
        tell("count negative", MPI_Bcast(&byte, -1, MPI_BYTE, 0, copy));
        tell("no datatype", MPI_Bcast(&byte, 1, MPI_DATATYPE_NULL, 0, copy));
        tell("no communicator", MPI_Bcast(&byte, 1, MPI_BYTE, 0, MPI_COMM_NULL));
        fflush(stdout);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    channel c = channel_of(copy);
    plain(&c, 0, 100);
    MPI_Comm_free(&copy);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    if (argc != 4) {
        fprintf(stderr, "usage: bcast_payloads RANKS_PER_NODE BIG_BYTES MIXED\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    ranks_per_node = atoi(argv[1]);
    mixed = atoi(argv[3]);
    int big = atoi(argv[2]);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    memory = malloc(ROOM);
    ask = (explicit_bcast *)dlsym(RTLD_DEFAULT, "arborcast_bcast");
    int nodes = world_size / ranks_per_node, node = world_rank / ranks_per_node;

    errors(MPI_COMM_WORLD);
    channel world = channel_of(MPI_COMM_WORLD);
    every_root_and_size(&world);
    every_shape(&world);
    nothing_at_first(MPI_COMM_WORLD);
    for (int twice = 0; twice < 2; twice++)
        plain(&world, world_size / 2, big);

    /* The last node apart from the others; the ends apart from the middle, in reverse order; one rank
     * a node; the ranks of a node. */
    int outer = node == 0 || node == nodes - 1, first = world_rank % ranks_per_node == 0;
    int colours[] = {node == nodes - 1, outer, first ? 0 : MPI_UNDEFINED, node};
    int keys[] = {0, -world_rank, 0, 0};
    for (int i = 0; i < 4; i++) {
        MPI_Comm part;
        MPI_Comm_split(MPI_COMM_WORLD, colours[i], keys[i], &part);
        if (part == MPI_COMM_NULL)
            continue;
        channel c = channel_of(part);
        every_root_and_size(&c);
        every_shape(&c);
        MPI_Comm_free(&part);
    }

    /* Two communicators in alternation, with other roots and sizes, and nothing that waits between. */
    MPI_Comm forward, backward;
    MPI_Comm_dup(MPI_COMM_WORLD, &forward);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &backward);
    channel a = channel_of(forward), b = channel_of(backward);
    for (int i = 0; i < 100; i++) {
        plain(&a, i % world_size, 1 + 37 * i);
        plain(&b, (3 * i + 1) % world_size, 4000 - 31 * i);
    }
    MPI_Comm_free(&forward);
    MPI_Comm_free(&backward);
    if (world_rank == 0)
        printf("%ld broadcasts, %ld asked, %ld along trees\n", broadcasts, asked, along_trees);
    free(memory);
    MPI_Finalize();
    return 0;
}
