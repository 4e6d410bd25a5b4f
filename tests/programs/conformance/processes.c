/* What a process may do beside MPI: children, timers, being late. */
#define _GNU_SOURCE
#include "rows.h"
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void children(void)
{
    channel c = open_channel(MPI_COMM_WORLD);
    for (int round = 0; round < 4; round++) {
        int status = -1;
        carry_bytes(&c, round % c.size, 70000);
        pid_t child = fork();
        if (child == 0) {
            /* Nothing of MPI is this process's, and leaving by exit() would end MPI's business. */
            usleep(20000);
            _exit(7);
        }
        carry_bytes(&c, round % c.size, 50);
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
            wrong("a child ended with %d", status);
        /* The child's program inherits the environment, and with it what is preloaded. */
        if (posix_spawnp(&child, "sh", NULL, NULL, (char *[]){"sh", "-c", "exit 5", NULL}, environ))
            wrong("no child");
        carry_bytes(&c, (round + 1) % c.size, 3000);
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 5)
            wrong("a program ended with %d", status);
        carry_from_every_root(&c);
    }
    close_channel(&c);
}

static volatile sig_atomic_t ticks;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

/* A profiler's timer interrupts every system call. */
static void interrupted(void)
{
    struct sigaction action = {.sa_handler = tick}, before;
    struct itimerval every_ms = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    sigaction(SIGPROF, &action, &before);
    setitimer(ITIMER_PROF, &every_ms, NULL);
    channel c = open_channel(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        carry_from_every_root(&c);
    setitimer(ITIMER_PROF, &none, NULL);
    sigaction(SIGPROF, &before, NULL);
    close_channel(&c);
}

/* One rank after the other comes late to a series of broadcasts from changing roots. */
static void late(void)
{
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    channel c = open_channel(copy);
    for (int r = 0; r < c.size; r++) {
        if (c.rank == r)
            usleep(100000);
        for (int i = 0; i < 40; i++)
            carry_bytes(&c, i % 10 == 9 ? (i + r) % c.size : (r + 1) % c.size, i % 7 ? 4 * i : 20000);
    }
    close_channel(&c);
    MPI_Comm_free(&copy);
}

/* Thousands of short broadcasts that one rank has not seen, and one from another root among them,
 * over a communicator of MPI_Comm_create: some MPIs attach MPI_TAG_UB to the world only. */
static void late_by_thousands(void)
{
    MPI_Group group;
    MPI_Comm made;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &made);
    MPI_Group_free(&group);
    channel c = open_channel(made);
    enum { COUNT = 4500, OTHER = 4096 };
    for (int i = 0; i < 8; i++)
        carry_bytes(&c, 0, 4);
    MPI_Barrier(made);
    if (c.rank == c.size - 1)
        usleep(500000);
    for (int i = 0; i < COUNT; i++)
        carry_bytes(&c, i == OTHER && c.size > 1 ? 1 : 0, 4);
    close_channel(&c);
    MPI_Comm_free(&made);
}

const row process_rows[] = {
    {"children_of_fork_and_exec", children, 0, 0},
    {"interrupted_by_a_timer", interrupted, 0, 0},
    {"late_ranks", late, 0, 0},
    {"late_by_thousands_of_broadcasts", late_by_thousands, 0, 0},
    {0},
};
