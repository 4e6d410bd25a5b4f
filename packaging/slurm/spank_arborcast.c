/* `srun --arborcast ./app` does what `srun arborcast run ./app` does, and where a node of the job lacks
 * the library the program runs natively on all of them.
 *
 * srun asks every node of the job with a step of `arborcast env` before the program's own step, and tells
 * all nodes what came of it: ranks that have the library would wait for those that lack it. On each node
 * slurmstepd then takes LD_PRELOAD from `arborcast env`. Where the library has gone between the two the
 * ranks of that node are not started.
 *
 * Build with Slurm's header, once for each release of Slurm, and name it in plugstack.conf:
 *
 *   cc -shared -fPIC -o /etc/slurm/spank_arborcast.so spank_arborcast.c
 *   required /etc/slurm/spank_arborcast.so
 */
#define _GNU_SOURCE /* pipe2 */
#include <fcntl.h>
#include <slurm/spank.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(arborcast, 1);

/* What Slurm takes for a failure: less than 0, which no ESPANK_ error is. */
#define FAILURE (-1)

extern char **environ;

/* Whether every node has the library, from srun to slurmstepd. srun's --export keeps no SLURM_ variable back. */
#define ANSWER "SLURM_ARBORCAST"
#define EVERYWHERE "everywhere"

static char command[] = "@PREFIX@/bin/arborcast";
static int is_asked_for;

static int ask_for(int value, const char *argument, int is_remote)
{
    (void)value, (void)argument, (void)is_remote;
    is_asked_for = 1;
    return ESPANK_SUCCESS;
}

static struct spank_option option = {
    "arborcast", NULL, "Run the program with Arborcast: MPI_Bcast along trees found by experiment", 0, 0, ask_for,
};

/* The exit code of a program, -1 where it cannot be started; `output` is what it printed, cut to `size`. */
static int run(const char *program, char *const arguments[], char **environment, char *output, size_t size)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    pid_t child;
    int failed = posix_spawn(&child, program, &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char rest[512];
    size_t used = 0;
    while (!failed) {
        int is_full = used + 1 >= size;
        ssize_t n = is_full ? read(ends[0], rest, sizeof rest) : read(ends[0], output + used, size - 1 - used);
        if (n <= 0)
            break;
        used += is_full ? 0 : (size_t)n;
    }
    output[used] = '\0';
    close(ends[0]);
    int status;
    if (failed || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
    (void)count, (void)arguments;
    /* Not sbatch's: its script is no rank. */
    if (spank_context() != S_CTX_LOCAL && spank_context() != S_CTX_REMOTE)
        return ESPANK_SUCCESS;
    return spank_option_register(spank, &option);
}

/* srun's environment without what describes the program's step, which is not the one that asks. */
static char **without_step(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **kept = calloc(count + 1, sizeof *kept);
    for (size_t i = 0, next = 0; kept && i < count; i++) {
        const char *variable = environ[i];
        int is_of_step = strncmp(variable, "SLURM_", 6) == 0 || strncmp(variable, "_SLURM_", 7) == 0;
        if (!is_of_step || strncmp(variable, "SLURM_CONF=", 11) == 0)
            kept[next++] = environ[i];
    }
    return kept;
}

/* In srun, when the job has its nodes and before its program starts. */
int slurm_spank_local_user_init(spank_t spank, int count, char **arguments)
{
    (void)count, (void)arguments;
    uint32_t job;
    if (!is_asked_for)
        return ESPANK_SUCCESS;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return FAILURE;
    char of_job[32], ignored[1];
    snprintf(of_job, sizeof of_job, "--jobid=%u", job);
    /* Without numbers of nodes and tasks it is one task on each of the job's nodes. */
    char *const ask[] = {"srun", of_job, "--overlap", "--mpi=none", "--quiet", "--job-name=arborcast",
                         command, "env", NULL};
    char **environment = without_step();
    int code = environment ? run("/proc/self/exe", ask, environment, ignored, sizeof ignored) : -1;
    free(environment);
    if (code != 0)
        slurm_error("arborcast: not every node of this job has the library, so all broadcasts are native");
    return setenv(ANSWER, code == 0 ? EVERYWHERE : "not everywhere", 1) == 0 ? ESPANK_SUCCESS : FAILURE;
}

/* In slurmstepd, once on each node, as the user. */
int slurm_spank_user_init(spank_t spank, int count, char **arguments)
{
    (void)count, (void)arguments;
    char answer[sizeof EVERYWHERE], output[4096];
    char **environment;
    int is_told = spank_getenv(spank, ANSWER, answer, sizeof answer) == ESPANK_SUCCESS;
    if (!is_asked_for || !is_told || strcmp(answer, EVERYWHERE) != 0)
        return ESPANK_SUCCESS;
    if (spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS)
        return FAILURE;
    char *const ask[] = {command, "env", NULL};
    int code = run(command, ask, environment, output, sizeof output);
    char *end = strchr(output, '\n'), *equals = strchr(output, '=');
    if (code != 0 || !end || !equals) {
        slurm_error("arborcast: `%s env` ends with %d, so no rank is started here: those that have the library "
                    "would wait", command, code);
        return FAILURE;
    }
    *end = *equals = '\0';
    return spank_setenv(spank, output, equals + 1, 1) == ESPANK_SUCCESS ? ESPANK_SUCCESS : FAILURE;
}
