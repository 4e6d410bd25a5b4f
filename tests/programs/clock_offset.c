/* Preloaded: the wall clock is as many seconds off as /run/clock-offset says, which each node of a grid
 * has for itself; it may change at any time. Other clocks, and waits, are the kernel's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset_s(void)
{
    char text[32] = {0};
    int file = open("/run/clock-offset", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    long length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset_s();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed && now)
        now->tv_sec += offset_s();
    return failed;
}

time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
