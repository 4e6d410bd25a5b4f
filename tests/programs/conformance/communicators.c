/* Communicators of every making: what spans some of the nodes, in another order, several at once. */
#include "rows.h"
#include <stdio.h>
#include <stdlib.h>

static void world(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    carry_from_every_root(&c);
    close_channel(&c);
}

/* Around the limits of size classes, of eager messages and of segments. */
static void boundaries(void)
{
    static const int sizes[] = {255,   256,   257,   1023,  1024,  1025,  4095,   4096,   4097,   8193,
                                16383, 16384, 16385, 65535, 65536, 65537, 131071, 131073, 262145, 1048577};
    channel c = open_channel(MPI_COMM_WORLD);
    for (int root = 0; root < c.size; root += c.size > 4 ? c.size / 2 : 1)
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
            carry_bytes(&c, root, sizes[s]);
    close_channel(&c);
}

static void self(void)
{
    channel c = open_channel(MPI_COMM_SELF);
    carry_from_every_root(&c);
    close_channel(&c);
}

static void dup(void)
{
    MPI_Comm copy, copy_of_copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_dup(copy, &copy_of_copy);
    carry_and_free(&copy);
    carry_and_free(&copy_of_copy);
}

/* The parent is in use already, and both go on. */
static void dup_of_used(void)
{
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    channel parent = open_channel(copy);
    carry_from_every_root(&parent);
    MPI_Comm second;
    MPI_Comm_dup(copy, &second);
    channel child = open_channel(second);
    for (int i = 0; i < 20; i++) {
        carry_bytes(&parent, i % parent.size, 3000 + i);
        carry_bytes(&child, (i + 1) % child.size, 70000 - i);
    }
    MPI_Comm_free(&copy);
    carry_from_every_root(&child);
    close_channel(&parent);
    close_channel(&child);
    MPI_Comm_free(&second);
}

static void dup_with_info(void)
{
    MPI_Comm copy;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_source", "true");
    MPI_Info_set(info, "mpi_assert_exact_length", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &copy);
    MPI_Info_free(&info);
    carry_and_free(&copy);
}

/* A broadcast on the parent while the copy is being made. */
static void idup(void)
{
    MPI_Comm copy;
    MPI_Request request;
    channel c = open_channel(MPI_COMM_WORLD);
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    carry_bytes(&c, 0, 70000);
    carry_bytes(&c, c.size - 1, 10);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    close_channel(&c);
    carry_and_free(&copy);
}

static void split(int colour, int key)
{
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, colour, key, &part);
    carry_and_free(&part);
}

static void split_in_halves(void)
{
    split(world_rank < world_size / 2, 0);
}

static void split_odd_from_even(void)
{
    split(world_rank % 2, 0);
}

static void split_all_but_one(void)
{
    split(world_rank == world_size - 1 ? MPI_UNDEFINED : 0, 0);
}

static void split_reversed(void)
{
    split(0, -world_rank);
}

static void split_shared(void)
{
    MPI_Comm part;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    /* An emulated grid is one machine, and MPIs differ in whether they see that. */
    channel c = open_channel(part);
    for (int i = 0; i < 10; i++)
        carry_bytes(&c, 0, 5000);
    close_channel(&c);
    MPI_Comm_free(&part);
}

static void split_of_split(void)
{
    MPI_Comm half, quarter;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &half);
    MPI_Comm_split(half, world_rank < world_size / 2, 0, &quarter);
    carry_and_free(&quarter);
    carry_and_free(&half);
}

static MPI_Group reversed_group(void)
{
    MPI_Group all, reversed;
    int range[1][3] = {{world_size - 1, 0, -1}};
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_range_incl(all, 1, range, &reversed);
    MPI_Group_free(&all);
    return reversed;
}

static void create(void)
{
    MPI_Comm made;
    MPI_Group group = reversed_group();
    MPI_Comm_create(MPI_COMM_WORLD, group, &made);
    MPI_Group_free(&group);
    carry_and_free(&made);
}

/* Only its members know of it. */
static void create_group(void)
{
    if (world_rank == 0)
        return;
    MPI_Comm made;
    MPI_Group all, group;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, (int[]){0}, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 77, &made);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    carry_and_free(&made);
}

/* From one group to the other, by each of the roots of both sides. */
static void across(MPI_Comm inter, int is_low)
{
    int rank, size, others;
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &others);
    channel c = open_channel(inter);
    static const int sizes[] = {0, 1, 1025, 70000};
    char *memory = malloc(70000);
    for (int low_sends = 0; low_sends < 2; low_sends++) {
        int senders = low_sends == is_low ? size : others;
        for (int root = 0; root < senders; root++) {
            for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                uint32_t number = ++c.number;
                int is_sender = low_sends == is_low;
                int as = !is_sender ? root : rank == root ? MPI_ROOT : MPI_PROC_NULL;
                fill_message(memory, is_sender ? number : ~number, sizes[s]);
                int code = broadcast(&c, memory, sizes[s], MPI_BYTE, as);
                if (code != MPI_SUCCESS)
                    wrong("error class %d", class_of(code));
                check_message(&c, memory, number, sizes[s]);
            }
        }
    }
    free(memory);
    close_channel(&c);
}

static MPI_Comm halves_inter(int *is_low)
{
    MPI_Comm half, inter;
    *is_low = world_rank < world_size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, *is_low, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, *is_low ? world_size / 2 : 0, 5, &inter);
    MPI_Comm_free(&half);
    return inter;
}

static void intercommunicator(void)
{
    int is_low;
    MPI_Comm inter = halves_inter(&is_low);
    across(inter, is_low);
    MPI_Comm_free(&inter);
}

static void merged_intercommunicator(void)
{
    int is_low;
    MPI_Comm inter = halves_inter(&is_low), all;
    MPI_Intercomm_merge(inter, is_low, &all);
    MPI_Comm_free(&inter);
    carry_and_free(&all);
}

/* One half opens a port, the other connects, as programs that were started apart do. */
static void connected_and_merged(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    int is_low = world_rank < world_size / 2;
    MPI_Comm half, inter, all;
    MPI_Errhandler handler;
    int can = 1, all_can;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (world_rank == 0)
        can = MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    MPI_Allreduce(&can, &all_can, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all_can) {
        skip("this MPI opens no ports");
        return;
    }
    MPI_Comm_split(MPI_COMM_WORLD, is_low, 0, &half);
    if (world_rank == 0) {
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, world_size / 2, 6, MPI_COMM_WORLD);
    } else if (world_rank == world_size / 2) {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (is_low)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
    across(inter, is_low);
    MPI_Intercomm_merge(inter, !is_low, &all);
    carry_and_free(&all);
    MPI_Comm_disconnect(&inter);
    if (world_rank == 0)
        MPI_Close_port(port);
    MPI_Comm_free(&half);
}

/* A session beside the world. */
static void from_session(void)
{
#if MPI_VERSION >= 4
    MPI_Session session;
    MPI_Group group;
    MPI_Comm made;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "arborcast.conformance", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made);
    MPI_Group_free(&group);
    carry_and_free(&made);
    MPI_Session_finalize(&session);
#else
    skip("no sessions before MPI 4");
#endif
}

/* Nothing waits between broadcasts of two communicators with other orders and roots. */
static void in_alternation(void)
{
    MPI_Comm forward, backward;
    MPI_Comm_dup(MPI_COMM_WORLD, &forward);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &backward);
    channel a = open_channel(forward), b = open_channel(backward);
    for (int i = 0; i < 100; i++) {
        carry_bytes(&a, i % world_size, 1 + 37 * i);
        carry_bytes(&b, (3 * i + 1) % world_size, 4000 - 31 * i);
    }
    close_channel(&a);
    close_channel(&b);
    MPI_Comm_free(&forward);
    MPI_Comm_free(&backward);
}

/* Neighbouring pairs: every rank is in two communicators, the ring closes. */
static void overlapping_pairs(void)
{
    if (world_size < 3) {
        skip("a ring of pairs needs three ranks");
        return;
    }
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int first = 0; first < world_size; first++) {
        int pair[2] = {first, (first + 1) % world_size};
        if (world_rank != pair[0] && world_rank != pair[1])
            continue;
        MPI_Group group;
        MPI_Comm made;
        MPI_Group_incl(all, 2, pair, &group);
        MPI_Comm_create_group(MPI_COMM_WORLD, group, first, &made);
        MPI_Group_free(&group);
        carry_and_free(&made);
    }
    MPI_Group_free(&all);
}

const row communicator_rows[] = {
    {"world", world, 0, 0},
    {"sizes_around_boundaries", boundaries, 0, 0},
    {"self", self, 0, 0},
    {"dup", dup, 0, 0},
    {"dup_of_a_used_one", dup_of_used, 0, 0},
    {"dup_with_info", dup_with_info, 0, 0},
    {"idup", idup, 0, 0},
    {"split_in_halves", split_in_halves, 0, 0},
    {"split_odd_from_even", split_odd_from_even, 0, 0},
    {"split_all_but_one", split_all_but_one, 0, 0},
    {"split_reversed", split_reversed, 0, 0},
    {"split_by_shared_memory", split_shared, 0, 0},
    {"split_of_split", split_of_split, 0, 0},
    {"create", create, 0, 0},
    {"create_group", create_group, 0, 0},
    {"intercommunicator", intercommunicator, 0, 0},
    {"merged_intercommunicator", merged_intercommunicator, 0, 0},
    {"connected_and_merged", connected_and_merged, 0, 0},
    {"session_beside_the_world", from_session, 0, 0},
    {"two_in_alternation", in_alternation, 0, 0},
    {"overlapping_pairs", overlapping_pairs, 0, 0},
    {0},
};
