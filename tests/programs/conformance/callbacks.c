/* Broadcasts from inside attribute callbacks, where an MPI may hold locks of its own. */
#include "rows.h"
#include <stdlib.h>

static int inside, wrong_inside;

static void broadcast_on(MPI_Comm comm)
{
    enum { INTS = 3000 };
    int *values = malloc(INTS * sizeof *values), rank;
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i < INTS; i++)
        values[i] = rank == 0 ? i * 7 + inside : -1;
    if (MPI_Bcast(values, INTS, MPI_INT, 0, comm) != MPI_SUCCESS)
        wrong_inside++;
    for (int i = 0; i < INTS; i++)
        wrong_inside += values[i] != i * 7 + inside;
    inside++;
    free(values);
}

static int copy_callback(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)key;
    (void)extra;
    broadcast_on(comm);
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_callback(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    broadcast_on(extra ? *(MPI_Comm *)extra : MPI_COMM_WORLD);
    return MPI_SUCCESS;
}

static void end(void)
{
    note(" %d inside", inside);
    if (wrong_inside)
        wrong("%d values inside of callbacks", wrong_inside);
    inside = wrong_inside = 0;
}

static void in_copy(void)
{
    int key;
    MPI_Comm first, second;
    MPI_Comm_create_keyval(copy_callback, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_set_attr(first, key, &inside);
    /* Once on a communicator that nobody has broadcast on, then on one that is in use. */
    MPI_Comm_dup(first, &second);
    carry_and_free(&second);
    channel c = open_channel(first);
    carry_from_every_root(&c);
    close_channel(&c);
    MPI_Comm_dup(first, &second);
    carry_and_free(&second);
    MPI_Comm_free(&first);
    MPI_Comm_free_keyval(&key);
    end();
}

static void in_delete(void)
{
    int key;
    MPI_Comm kept, freed;
    MPI_Comm_dup(MPI_COMM_WORLD, &kept);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_callback, &key, &kept);
    for (int i = 0; i < 4; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &freed);
        if (i % 2) {
            channel c = open_channel(freed);
            carry_from_every_root(&c);
            close_channel(&c);
        }
        MPI_Comm_set_attr(freed, key, &inside);
        MPI_Comm_free(&freed);
    }
    MPI_Comm_free(&kept);
    MPI_Comm_free_keyval(&key);
    end();
}

/* While MPI_Finalize frees MPI_COMM_SELF, broadcasts are allowed still. */
static int at_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    broadcast_on(MPI_COMM_WORLD);
    if (wrong_inside)
        abort();
    return MPI_SUCCESS;
}

static void while_finalizing(void)
{
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &inside);
    MPI_Comm_free_keyval(&key);
    note(" see how the program ends");
}

/* The attributes of datatypes. */
static int copy_of_type(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
    (void)type;
    (void)key;
    (void)extra;
    broadcast_on(MPI_COMM_WORLD);
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void in_copy_of_type(void)
{
    int key;
    MPI_Datatype type, copy;
    MPI_Type_create_keyval(copy_of_type, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPI_Type_contiguous(5, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_set_attr(type, key, &inside);
    MPI_Type_dup(type, &copy);
    MPI_Type_free(&copy);
    /* A broadcast copies no datatype's attributes. */
    channel c = open_channel(MPI_COMM_WORLD);
    layout l = {type, 20, 1, {0}, {20}};
    for (int i = 0; i < 8; i++)
        carry(&c, i % c.size, &l, 1000);
    close_channel(&c);
    MPI_Type_free(&type);
    MPI_Type_free_keyval(&key);
    end();
}

const row callback_rows[] = {
    {"broadcast_in_copy_callback", in_copy, 0, 0},
    {"broadcast_in_delete_callback", in_delete, 0, 0},
    {"broadcast_in_copy_callback_of_a_type", in_copy_of_type, 0, 0},
    {"broadcast_while_finalizing", while_finalizing, 0, 0},
    {0},
};
