/* One message that ranks describe in different ways: only the signatures need match. */
#include "rows.h"
#include <stdlib.h>

/* Ints as ints, in groups of three with holes, in rows of six, and as a struct, by rank and round. */
static void ints(channel *c, int groups, int root, int shape)
{
    layout plain = {MPI_INT, 4, 1, {0}, {4}}, holes = {.extent = 16, .blocks = 1, .at = {0}, .length = {12}};
    layout rows = {.extent = 24, .blocks = 1, .at = {0}, .length = {24}};
    MPI_Datatype three;
    MPI_Type_contiguous(3, MPI_INT, &three);
    MPI_Type_create_resized(three, 0, 16, &holes.type);
    MPI_Type_contiguous(6, MPI_INT, &rows.type);
    MPI_Type_commit(&holes.type);
    MPI_Type_commit(&rows.type);
    switch (shape % 3) {
    case 0: carry(c, root, &plain, 6 * groups); break;
    case 1: carry(c, root, &holes, 2 * groups); break;
    default: carry(c, root, &rows, groups);
    }
    MPI_Type_free(&three);
    MPI_Type_free(&holes.type);
    MPI_Type_free(&rows.type);
}

static void signatures(int most_groups)
{
    static const int groups[] = {1, 40, 80, 2500, 20000};
    channel c = open_channel(MPI_COMM_WORLD);
    for (int round = 0; round < 6; round++)
        for (unsigned g = 0; g < sizeof groups / sizeof *groups && groups[g] <= most_groups; g++)
            ints(&c, groups[g], (round + g) % c.size, c.rank + round);
    close_channel(&c);
}

static void short_signatures(void)
{
    signatures(80);
}

static void long_signatures(void)
{
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 6
    skip("this MPI's own algorithms take their segments from each rank's datatype");
#else
    signatures(20000);
#endif
}

/* Nothing, said by the count on some ranks and by the datatype on others. */
static void nothing(void)
{
    /* Open MPI sends empty messages only where the count is not 0, MPICH 5 divides by zero, Intel MPI
     * waits for ever. */
#if !defined MPICH_NUMVERSION || MPICH_NUMVERSION >= 50000000 || defined I_MPI_NUMVERSION
    skip("this MPI does not bear it");
#else
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    channel c = open_channel(copy);
    layout empty = {.extent = 0}, byte = bytes_layout();
    MPI_Type_contiguous(0, MPI_BYTE, &empty.type);
    MPI_Type_commit(&empty.type);
    for (int i = 0; i < 12; i++) {
        if ((c.rank + i) % 2)
            carry(&c, i % c.size, &empty, 5);
        else
            carry(&c, i % c.size, &byte, 0);
        carry_bytes(&c, i % c.size, i < 6 ? 10 : 70000);
    }
    MPI_Type_free(&empty.type);
    close_channel(&c);
    MPI_Comm_free(&copy);
#endif
}

/* No memory at all for an empty message. */
static void no_buffer_for_nothing(void)
{
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    channel c = open_channel(copy);
    for (int i = 0; i < 6; i++) {
        c.number++;
        if (broadcast(&c, NULL, 0, MPI_INT, i % c.size) != MPI_SUCCESS)
            wrong("an error");
        carry_bytes(&c, i % c.size, 3000);
    }
    close_channel(&c);
    MPI_Comm_free(&copy);
}

/* The root packs, the others receive the values. */
static void packed_at_the_root(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    enum { INTS = 9000 };
    int *values = malloc(INTS * sizeof *values), room, used = 0;
    MPI_Pack_size(INTS, MPI_INT, MPI_COMM_WORLD, &room);
    char *packed = malloc(room);
    for (int round = 0; round < 6; round++) {
        int root = round % c.size;
        uint32_t number = ++c.number;
        fill_message(values, c.rank == root ? number : ~number, INTS * sizeof *values);
        used = 0;
        if (c.rank == root)
            MPI_Pack(values, INTS, MPI_INT, packed, room, &used, MPI_COMM_WORLD);
        MPI_Bcast(&used, 1, MPI_INT, root, MPI_COMM_WORLD);
        if (broadcast(&c, packed, used, MPI_PACKED, root) != MPI_SUCCESS)
            wrong("an error");
        int at = 0;
        MPI_Unpack(packed, used, &at, values, INTS, MPI_INT, MPI_COMM_WORLD);
        check_message(&c, values, number, INTS * sizeof *values);
    }
    free(packed);
    free(values);
    close_channel(&c);
}

const row layout_rows[] = {
    {"same_signature_short", short_signatures, 0, 0},
    {"same_signature_long", long_signatures, 0, 0},
    {"nothing_said_in_two_ways", nothing, 0, 0},
    {"no_buffer_for_nothing", no_buffer_for_nothing, 0, 0},
    {"packed_by_the_root", packed_at_the_root, 0, 0},
    {0},
};
