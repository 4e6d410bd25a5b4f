/* Derived datatypes: each with a layout of its bytes that is worked out here and not by the MPI. */
#include "rows.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Both ends of the world send a few elements, over a young and over a used communicator. */
static void carry_type(layout *l, int most)
{
    MPI_Comm copy;
    MPI_Type_commit(&l->type);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    channel c = open_channel(copy);
    for (int round = 0; round < 3; round++)
        for (int root = 0; root < c.size; root += c.size > 1 ? c.size - 1 : 1) {
            carry(&c, root, l, 1);
            carry(&c, root, l, most);
            carry(&c, root, l, 0);
        }
    close_channel(&c);
    MPI_Comm_free(&copy);
    MPI_Type_free(&l->type);
}

static void add(layout *l, MPI_Aint at, int length)
{
    l->at[l->blocks] = at;
    l->length[l->blocks++] = length;
}

static void contiguous(void)
{
    layout l = {.extent = 12 * 4};
    add(&l, 0, 12 * 4);
    MPI_Type_contiguous(12, MPI_INT, &l.type);
    carry_type(&l, 2000);
}

static void vector(void)
{
    layout l = {.extent = 20 * 99 + 12};
    for (int i = 0; i < 100; i++)
        add(&l, 20 * i, 12);
    MPI_Type_vector(100, 12, 20, MPI_BYTE, &l.type);
    carry_type(&l, 60);
}

/* The first block in the signature is the last in memory. */
static void hvector_backwards(void)
{
    layout l = {.extent = 10 * 40 + 8};
    for (int i = 0; i < 11; i++)
        add(&l, -40 * i, 8);
    MPI_Type_create_hvector(11, 2, -40, MPI_INT, &l.type);
    carry_type(&l, 100);
}

static void indexed(void)
{
    int lengths[] = {3, 0, 1, 5}, at[] = {10, 4, 0, 20};
    layout l = {.extent = 25 * 4};
    for (int i = 0; i < 4; i++)
        add(&l, at[i] * 4, lengths[i] * 4);
    MPI_Type_indexed(4, lengths, at, MPI_INT, &l.type);
    carry_type(&l, 300);
}

/* From before the buffer's address to behind it. */
static void hindexed_below_zero(void)
{
    int lengths[] = {2, 1, 3};
    MPI_Aint at[] = {-17, 30, 5};
    layout l = {.extent = 31 + 17};
    for (int i = 0; i < 3; i++)
        add(&l, at[i], lengths[i]);
    MPI_Type_create_hindexed(3, lengths, at, MPI_BYTE, &l.type);
    carry_type(&l, 3000);
}

static void indexed_block(void)
{
    int at[] = {9, 0, 4};
    layout l = {.extent = 11 * 8};
    for (int i = 0; i < 3; i++)
        add(&l, at[i] * 8, 2 * 8);
    MPI_Type_create_indexed_block(3, 2, at, MPI_DOUBLE, &l.type);
    carry_type(&l, 500);
}

struct particle {
    char kind;
    double position[3];
    short cell;
    int64_t id;
};

static MPI_Datatype particle_type(layout *l)
{
    int lengths[] = {1, 3, 1, 1};
    MPI_Aint at[] = {offsetof(struct particle, kind), offsetof(struct particle, position),
                     offsetof(struct particle, cell), offsetof(struct particle, id)};
    int bytes[] = {1, 24, 2, 8};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT64_T}, inner, type;
    for (int i = 0; i < 4; i++)
        add(l, at[i], bytes[i]);
    l->extent = sizeof(struct particle);
    MPI_Type_create_struct(4, lengths, at, types, &inner);
    MPI_Type_create_resized(inner, 0, sizeof(struct particle), &type);
    MPI_Type_free(&inner);
    return type;
}

static void struct_with_holes(void)
{
    layout l = {0};
    l.type = particle_type(&l);
    carry_type(&l, 700);
}

static void resized_below_zero(void)
{
    MPI_Datatype inner;
    layout l = {.extent = 50};
    add(&l, 0, 6);
    MPI_Type_contiguous(6, MPI_BYTE, &inner);
    MPI_Type_create_resized(inner, -20, 50, &l.type);
    MPI_Type_free(&inner);
    carry_type(&l, 900);
}

/* Elements lie in memory from the last to the first. */
static void resized_to_run_backwards(void)
{
    layout l = {.extent = -16};
    add(&l, 0, 8);
    MPI_Type_create_resized(MPI_DOUBLE, 0, -16, &l.type);
    carry_type(&l, 400);
}

/* Elements that interlock: the extent is less than what an element spans. */
static void resized_to_interlock(void)
{
    MPI_Datatype inner;
    layout l = {.extent = 4};
    add(&l, 0, 4);
    add(&l, 8192, 4);
    MPI_Type_vector(2, 1, 2048, MPI_INT, &inner);
    MPI_Type_create_resized(inner, 0, 4, &l.type);
    MPI_Type_free(&inner);
    carry_type(&l, 2048);
}

static void subarray(void)
{
    int whole[] = {9, 14}, part[] = {4, 6}, start[] = {3, 5};
    layout l = {.extent = 9 * 14 * 4};
    for (int i = 0; i < 4; i++)
        add(&l, ((3 + i) * 14 + 5) * 4, 6 * 4);
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_FLOAT, &l.type);
    carry_type(&l, 200);
}

/* A struct of vectors of structs, whose parts were freed before the broadcast. */
static void nested_structs(void)
{
#if defined OPEN_MPI && OMPI_MAJOR_VERSION < 6
    skip("this MPI's datatype engine loses bytes of such a type between processes");
#else
    layout inner = {0}, l = {.extent = 440};
    MPI_Datatype particle = particle_type(&inner), row_of;
    MPI_Type_create_hvector(3, 1, 2 * sizeof(struct particle), particle, &row_of);
    for (int i = 0; i < 3; i++)
        for (int b = 0; b < inner.blocks; b++)
            add(&l, 2 * (int)sizeof(struct particle) * i + inner.at[b], inner.length[b]);
    add(&l, 400, 5 * 8);
    MPI_Type_create_struct(2, (int[]){1, 5}, (MPI_Aint[]){0, 400}, (MPI_Datatype[]){row_of, MPI_LONG},
                           &l.type);
    MPI_Type_free(&row_of);
    MPI_Type_free(&particle);
    carry_type(&l, 150);
#endif
}

/* Every third pair of ints of a row, four rows; and doubles behind them. */
static void nested_vectors(void)
{
    layout l = {.extent = 432};
    MPI_Datatype pairs, rows;
    MPI_Type_vector(4, 2, 6, MPI_INT, &pairs);
    MPI_Type_create_hvector(4, 1, 100, pairs, &rows);
    for (int i = 0; i < 16; i++)
        add(&l, i / 4 * 100 + i % 4 * 24, 8);
    add(&l, 400, 4 * 8);
    MPI_Type_create_struct(2, (int[]){1, 4}, (MPI_Aint[]){0, 400}, (MPI_Datatype[]){rows, MPI_DOUBLE},
                           &l.type);
    MPI_Type_free(&rows);
    MPI_Type_free(&pairs);
    carry_type(&l, 150);
}

static void dup_of_type(void)
{
    layout l = {0};
    MPI_Datatype original = particle_type(&l);
    MPI_Type_dup(original, &l.type);
    MPI_Type_free(&original);
    carry_type(&l, 300);
}

static void nothing(void)
{
    layout l = {.extent = 0};
    MPI_Type_contiguous(0, MPI_DOUBLE, &l.type);
    carry_type(&l, 1000);
}

static void pairs(void)
{
    layout l = {.extent = 16};
    add(&l, 0, 8);
    add(&l, 8, 4);
    MPI_Type_dup(MPI_DOUBLE_INT, &l.type);
    carry_type(&l, 3000);
    layout s = {.extent = 8};
    add(&s, 0, 2);
    add(&s, 4, 4);
    MPI_Type_dup(MPI_SHORT_INT, &s.type);
    carry_type(&s, 3000);
}

static void predefined(void)
{
    struct {
        MPI_Datatype type;
        int bytes;
    } of[] = {{MPI_CHAR, 1}, {MPI_SHORT, 2}, {MPI_INT, 4}, {MPI_LONG, 8}, {MPI_FLOAT, 4}, {MPI_DOUBLE, 8},
              {MPI_WCHAR, 4}, {MPI_C_BOOL, 1}, {MPI_INT8_T, 1}, {MPI_UINT64_T, 8}, {MPI_AINT, 8},
              {MPI_C_FLOAT_COMPLEX, 8}, {MPI_C_DOUBLE_COMPLEX, 16}, {MPI_PACKED, 1}, {MPI_BYTE, 1}};
    channel c = open_channel(MPI_COMM_WORLD);
    for (unsigned t = 0; t < sizeof of / sizeof *of; t++) {
        layout l = {of[t].type, of[t].bytes, 1, {0}, {of[t].bytes}};
        carry(&c, t % c.size, &l, 1);
        carry(&c, (t + 1) % c.size, &l, 777);
        carry(&c, (t + 2) % c.size, &l, 9000);
    }
    close_channel(&c);
}

/* A type of absolute addresses, which are others on each rank. */
static void at_bottom(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    enum { PARTS = 3, BYTES = 5000 };
    for (int round = 0; round < 8; round++) {
        int root = round % c.size, lengths[PARTS] = {BYTES, BYTES, BYTES};
        char *part[PARTS];
        MPI_Aint at[PARTS];
        MPI_Datatype type;
        uint32_t number = ++c.number;
        for (int p = 0; p < PARTS; p++) {
            part[p] = malloc(BYTES + 64 * world_rank);
            memset(part[p], 0xee, BYTES);
            if (c.rank == root)
                fill_message(part[p], number + p, BYTES);
            MPI_Get_address(part[p], &at[p]);
        }
        MPI_Type_create_hindexed(PARTS, lengths, at, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        if (broadcast(&c, MPI_BOTTOM, 1, type, root) != MPI_SUCCESS)
            wrong("an error");
        MPI_Type_free(&type);
        for (int p = 0; p < PARTS; p++) {
            check_message(&c, part[p], number + p, BYTES);
            free(part[p]);
        }
    }
    close_channel(&c);
}

static void large_count_types(void)
{
#if MPI_VERSION >= 4
    layout l = {.extent = 1 << 16};
    add(&l, 0, 1 << 16);
    MPI_Type_contiguous_c(1 << 16, MPI_BYTE, &l.type);
    carry_type(&l, 3);
    layout v = {.extent = 40 * 11 + 8};
    for (int i = 0; i < 12; i++)
        add(&v, 40 * i, 8);
    MPI_Type_vector_c(12, 1, 5, MPI_DOUBLE, &v.type);
    carry_type(&v, 100);
    layout h = {.extent = 31 + 17};
    add(&h, -17, 2);
    add(&h, 30, 1);
    MPI_Type_create_hindexed_c(2, (MPI_Count[]){2, 1}, (MPI_Count[]){-17, 30}, MPI_BYTE, &h.type);
    carry_type(&h, 800);
    layout r = {.extent = 24};
    add(&r, 0, 8);
    MPI_Type_create_resized_c(MPI_DOUBLE, -8, 24, &r.type);
    carry_type(&r, 800);
    layout s = {.extent = 16};
    add(&s, 8, 8);
    add(&s, 0, 4);
    MPI_Type_create_struct_c(2, (MPI_Count[]){1, 1}, (MPI_Count[]){8, 0},
                             (MPI_Datatype[]){MPI_DOUBLE, MPI_INT}, &s.type);
    carry_type(&s, 800);
#else
    skip("no large-count datatypes before MPI 4");
#endif
}

const row datatype_rows[] = {
    {"type_predefined", predefined, 0, 0},
    {"type_contiguous", contiguous, 0, 0},
    {"type_vector", vector, 0, 0},
    {"type_hvector_backwards", hvector_backwards, 0, 0},
    {"type_indexed", indexed, 0, 0},
    {"type_hindexed_below_zero", hindexed_below_zero, 0, 0},
    {"type_indexed_block", indexed_block, 0, 0},
    {"type_struct_with_holes", struct_with_holes, 0, 0},
    {"type_resized_below_zero", resized_below_zero, 0, 0},
    {"type_resized_to_run_backwards", resized_to_run_backwards, 0, 0},
    {"type_resized_to_interlock", resized_to_interlock, 0, 0},
    {"type_subarray", subarray, 0, 0},
    {"type_nested_vectors", nested_vectors, 0, 0},
    {"type_nested_structs", nested_structs, 0, 0},
    {"type_dup", dup_of_type, 0, 0},
    {"type_of_nothing", nothing, 0, 0},
    {"type_pairs", pairs, 0, 0},
    {"type_of_absolute_addresses", at_bottom, 0, 0},
    {"type_of_large_count", large_count_types, 0, 0},
    {0},
};
