/* Error handlers that do more than count. */
#include "rows.h"
#include <setjmp.h>

static jmp_buf back;
static int jumps;

static void jump(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    jumps++;
    longjmp(back, 1);
}

static void with_handler(MPI_Comm_errhandler_function *function, void (*run)(channel *))
{
    MPI_Comm copy;
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_create_errhandler(function, &handler);
    MPI_Comm_set_errhandler(copy, handler);
    channel c = open_channel(copy);
    run(&c);
    close_channel(&c);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&copy);
}

/* Leaves MPI_Bcast by longjmp, more often than any depth that a library may count to. */
static void jump_out(channel *c)
{
    char byte = 0;
    jumps = 0;
    for (volatile int i = 0; i < 300; i++) {
        if (setjmp(back) == 0)
            MPI_Bcast(&byte, 1, MPI_BYTE, c->size + i, c->comm);
        if (i % 50 == 0)
            carry_from_every_root(c);
    }
    note(" %d jumps", jumps);
}

static void longjmps(void)
{
    with_handler(jump, jump_out);
}

static MPI_Comm other;
static int failed_inside;

static void broadcast_inside(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    int value = world_rank == 0 ? 4711 : -1;
    if (MPI_Bcast(&value, 1, MPI_INT, 0, other) != MPI_SUCCESS || value != 4711)
        failed_inside++;
}

static void raise_on_all(channel *c)
{
    char byte = 0;
    for (int i = 0; i < 10; i++) {
        MPI_Bcast(&byte, 1, MPI_BYTE, c->size, c->comm);
        carry_bytes(c, i % c->size, 3000);
    }
}

/* All ranks fail alike, and their handlers broadcast on another communicator. */
static void handler_that_broadcasts(void)
{
    failed_inside = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    with_handler(broadcast_inside, raise_on_all);
    MPI_Comm_free(&other);
    if (failed_inside)
        wrong("%d broadcasts of the handler", failed_inside);
}

/* A handler on the world must hear nothing of what a library tries for itself. */
static int heard;

static void hear(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    heard++;
}

static void silence(void)
{
    MPI_Errhandler handler, before;
    heard = 0;
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    carry_and_free(&copy);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    MPI_Errhandler_free(&before);
    MPI_Errhandler_free(&handler);
    note(" heard %d errors", heard);
}

const row handler_rows[] = {
    {"handler_that_longjmps", longjmps, 0, 0},
    {"handler_that_broadcasts", handler_that_broadcasts, 0, 0},
    {"handler_that_hears_nothing", silence, 0, 0},
    {0},
};
