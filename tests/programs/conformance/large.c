/* Messages of 2^31 bytes and more, in one call. Not all of each message is filled and checked: enough
 * of every MiB to know it. */
#include "rows.h"
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
enum { MARK = 64 };

static void marks(channel *c, char *data, size_t stride, size_t blocks, uint32_t number, int is_root)
{
    for (size_t b = 0; b < blocks; b++)
        fill_message(data + b * stride, is_root ? number + b : ~number, MARK);
    (void)c;
}

static void check_marks(channel *c, const char *data, size_t stride, size_t blocks, uint32_t number)
{
    for (size_t b = 0; b < blocks; b++)
        check_message(c, data + b * stride, number + b, MARK);
}

/* Elements of a MiB, 2 GiB and a bit in all, of a type with or without holes. */
static void elements(size_t stride, int count_in_type)
{
    enum { BLOCKS = 2049 };
    char *data = malloc(BLOCKS * stride);
    if (!data) {
        skip("not enough memory");
        return;
    }
    memset(data, 0xee, BLOCKS * stride);
    MPI_Datatype type;
    MPI_Type_vector(count_in_type ? BLOCKS : 1, (int)MIB, (int)stride, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    channel c = open_channel(MPI_COMM_WORLD);
    marks(&c, data, stride, BLOCKS, 7, c.rank == 0);
    int code = broadcast(&c, data, count_in_type ? 1 : BLOCKS, type, 0);
    if (code != MPI_SUCCESS)
        wrong("error class %d", class_of(code));
    check_marks(&c, data, stride, BLOCKS, 7);
    for (size_t b = 0; stride > MIB && b + 1 < BLOCKS; b++)
        if ((unsigned char)data[b * stride + MIB] != 0xee)
            wrong("a byte in the hole after block %zu", b);
    close_channel(&c);
    MPI_Type_free(&type);
    free(data);
}

static void many_elements(void)
{
    elements(MIB, 0);
}

static void one_element_with_holes(void)
{
    elements(MIB + 64, 1);
}

static void large_count(void)
{
#if MPI_VERSION >= 4
    enum { BLOCKS = 2049 };
    size_t bytes = BLOCKS * MIB + 17;
    char *data = malloc(bytes);
    if (!data) {
        skip("not enough memory");
        return;
    }
    memset(data, 0xee, bytes);
    channel c = open_channel(MPI_COMM_WORLD);
    marks(&c, data, MIB, BLOCKS, 9, c.rank == 0);
    int code = MPI_Bcast_c(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS)
        wrong("error class %d", class_of(code));
    check_marks(&c, data, MIB, BLOCKS, 9);
    close_channel(&c);
    free(data);
#else
    skip("no MPI_Bcast_c before MPI 4");
#endif
}

const row large_rows[] = {
    {"two_gib_of_elements", many_elements, 0, 1},
    {"two_gib_in_one_element_with_holes", one_element_with_holes, 0, 1},
    {"two_gib_by_large_count", large_count, 0, 1},
    {0},
};
