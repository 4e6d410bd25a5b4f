/* Wrong arguments: the same error class, the handler called as often, and good broadcasts after. */
#include "rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 700 };
static int calls, last_class;

static void count_call(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    calls++;
    last_class = class_of(*code);
}

typedef struct {
    const char *what;
    void *buffer;
    int count;
    MPI_Datatype type;
    int root;
    MPI_Comm comm;
} call;

static char byte[16];

static int bad_calls(MPI_Comm comm, MPI_Datatype uncommitted, call *to)
{
    int size, n = 0;
    MPI_Comm_size(comm, &size);
    to[n++] = (call){"root=size", byte, 1, MPI_BYTE, size, comm};
    to[n++] = (call){"root=-7", byte, 1, MPI_BYTE, -7, comm};
    to[n++] = (call){"root=proc_null", byte, 1, MPI_BYTE, MPI_PROC_NULL, comm};
    to[n++] = (call){"root=root", byte, 1, MPI_BYTE, MPI_ROOT, comm};
    to[n++] = (call){"count=-1", byte, -1, MPI_BYTE, 0, comm};
    to[n++] = (call){"type=null", byte, 1, MPI_DATATYPE_NULL, 0, comm};
    to[n++] = (call){"type=uncommitted", byte, 1, uncommitted, 0, comm};
    to[n++] = (call){"comm=null", byte, 1, MPI_BYTE, 0, MPI_COMM_NULL};
#ifndef OPEN_MPI
    to[n++] = (call){"buffer=null", NULL, 1, MPI_BYTE, 0, comm};
#endif
#if defined MPICH || defined I_MPI_VERSION
    /* Handles are integers there, and a wrong one is found. */
    to[n++] = (call){"type=0x12345", byte, 1, (MPI_Datatype)0x12345, 0, comm};
#endif
    return n;
}

static void tell(char *text, int code, int is_counted)
{
    size_t used = strlen(text);
    used += snprintf(text + used, TEXT - used, ",%d", class_of(code));
    if (is_counted)
        snprintf(text + used, TEXT - used, "/%dx%d", calls, last_class);
    calls = last_class = 0;
}

/* Makes all wrong calls and says what came of each: the class that was returned, and where `handler`
 * counts, how often it was called and with which class. */
static void call_wrongly(MPI_Comm comm, MPI_Errhandler handler, char *text)
{
    int is_counted = handler != MPI_ERRORS_RETURN;
    MPI_Errhandler of_world;
    MPI_Datatype uncommitted;
    call bad[16];
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &of_world);
    MPI_Comm_set_errhandler(comm, handler);
    /* A null communicator's errors go to the world's handler, or to that of MPI_COMM_SELF. */
    MPI_Errhandler of_self;
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &of_self);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Type_contiguous(3, MPI_BYTE, &uncommitted);
    int n = bad_calls(comm, uncommitted, bad);
    for (int i = 0; i < n; i++) {
        const call *b = &bad[i];
        size_t used = strlen(text);
        snprintf(text + used, TEXT - used, " %s", b->what);
        tell(text, MPI_Bcast(b->buffer, b->count, b->type, b->root, b->comm), is_counted);
#if MPI_VERSION >= 4
        tell(text, MPI_Bcast_c(b->buffer, b->count, b->type, b->root, b->comm), is_counted);
#endif
    }
    MPI_Type_free(&uncommitted);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_world);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, of_self);
    MPI_Errhandler_free(&of_world);
    MPI_Errhandler_free(&of_self);
}

/* Errors before the first good broadcast, between short ones, and after long ones. */
static void errors(MPI_Errhandler handler, int ranks)
{
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    channel c = open_channel(copy);
    static const int sizes[] = {100, 70000};
    char first[TEXT] = "", again[TEXT] = "";
    for (int round = 0; round < 3; round++) {
        char *text = round == 0 ? first : again;
        text[0] = 0;
        if (world_rank < ranks)
            call_wrongly(copy, handler, text);
        if (round == 0)
            note("%s", first);
        else if (strcmp(first, again))
            wrong("the %d. time %s", round + 1, again);
        if (round < 2)
            for (int i = 0; i < 6; i++)
                carry_bytes(&c, i % c.size, sizes[round]);
    }
    carry_from_every_root(&c);
    close_channel(&c);
    MPI_Comm_free(&copy);
}

static void returned(void)
{
    errors(MPI_ERRORS_RETURN, world_size);
}

static void returned_on_one_rank(void)
{
    errors(MPI_ERRORS_RETURN, 1);
}

static void handled(void)
{
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(count_call, &handler);
    errors(handler, world_size);
    MPI_Errhandler_free(&handler);
}

/* MPICH's test bcastlength: a receiver asks for another length of the same message. What comes of it is
 * each MPI's own affair; it ends, and other communicators do not suffer. */
static void other_length(void)
{
    if (is_library("Intel")) {
        skip("this MPI waits for ever");
        return;
    }
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    channel c = open_channel(copy), world = open_channel(MPI_COMM_WORLD);
    char *memory = calloc(1, 80000);
    for (int i = 0; i < 6; i++)
        carry_bytes(&c, 0, 3000);
    MPI_Bcast(memory, world_rank == world_size - 1 ? 2900 : 3000, MPI_BYTE, 0, copy);
    carry_from_every_root(&world);
    MPI_Bcast(memory, world_rank == world_size - 1 ? 3100 : 3000, MPI_BYTE, 0, copy);
    carry_from_every_root(&world);
    free(memory);
    close_channel(&c);
    close_channel(&world);
    MPI_Comm_free(&copy);
}

const row error_rows[] = {
    {"errors_returned", returned, 0, 0},
    {"errors_returned_on_one_rank", returned_on_one_rank, 0, 0},
    {"errors_handled", handled, 0, 0},
    {"a_receiver_with_another_length", other_length, 0, 0},
    {0},
};
