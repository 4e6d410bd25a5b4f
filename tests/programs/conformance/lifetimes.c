/* Many communicators, one after the other and at once. */
#include "rows.h"
#include <stdlib.h>

/* Messages of different communicators differ. */
static channel numbered_channel(MPI_Comm comm, int number)
{
    channel c = open_channel(comm);
    c.number += 16 * (number + 1);
    return c;
}

static void made_and_freed(void)
{
    for (int i = 0; i < 150; i++) {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        channel c = numbered_channel(copy, i);
        carry_bytes(&c, i % c.size, i % 2 ? 70000 : 100);
        close_channel(&c);
        MPI_Comm_free(&copy);
    }
}

/* An MPI has room for a number of communicators, and the program has a right to all of it. Neighbours
 * only, since what an MPI's making of one costs is not of interest. */
static void keep(int most)
{
    MPI_Comm pair, *all = malloc(most * sizeof *all);
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < world_size / 2, 0, &pair);
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
    int made = 0;
    while (made < most && MPI_Comm_dup(pair, &all[made]) == MPI_SUCCESS) {
        channel c = numbered_channel(all[made], made);
        carry_bytes(&c, made % c.size, 65536);
        close_channel(&c);
        made++;
    }
    for (int i = 0; i < made; i += 100) {
        channel c = numbered_channel(all[i], most + i);
        carry_bytes(&c, 0, 65536);
        close_channel(&c);
    }
    for (int i = 0; i < made; i++)
        MPI_Comm_free(&all[i]);
    note(" %d kept", made);
    MPI_Comm_free(&pair);
    free(all);
}

static void some_kept(void)
{
    keep(60);
}

static void many_kept(void)
{
    keep(1500);
}

/* Freed by a rank as soon as its own part is done, when others may not have begun. */
static void freed_at_once(void)
{
    for (int i = 0; i < 20; i++) {
        MPI_Comm copy;
        MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? -world_rank : world_rank, &copy);
        channel c = numbered_channel(copy, i);
        for (int j = 0; j < 5; j++)
            carry_bytes(&c, i % c.size, 5000);
        close_channel(&c);
        MPI_Comm_disconnect(&copy);
    }
}

const row lifetime_rows[] = {
    {"communicators_made_and_freed", made_and_freed, 0, 0},
    {"communicators_kept", some_kept, 0, 0},
    {"communicators_freed_at_once", freed_at_once, 0, 0},
    {"communicators_kept_by_the_thousand", many_kept, 0, 1},
    {0},
};
