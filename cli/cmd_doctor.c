/* doctor: what works on this machine, and the line that repairs what does not. One function a
 * check; none takes longer than its deadline, so that the whole needs less than two seconds. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "help.h"
#include "launch/command_line.h"
#include "message.h"
#include "serve/serve.h"

enum {
    FOUND_SIZE = 160,
    PROGRAM_SIZE = 128,
    PYTHON_DEADLINE_MS = 1500,
    OPEN_FILES_MIN = 1024,
    PERF_PARANOID_MAX = 2, /* above it, a user may not count events of his own processes */
};

#define MIB ((unsigned long long)1 << 20)
#define SHM_BYTES_MIN (256 * MIB)
#define TMP_BYTES_MIN (1024 * MIB)

extern char **environ;

static struct ks_cli_output output;

/* Fills one line; `found` is its own text. */
struct finding {
    struct ks_doctor_line line;
    char found[FOUND_SIZE];
};

static void set(struct finding *finding, const char *state, const char *fix, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

static void set(struct finding *finding, const char *state, const char *fix, const char *format,
                ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(finding->found, sizeof(finding->found), format, list);
    va_end(list);
    finding->line.state = state;
    finding->line.fix = fix;
}

/* First line of a small file without its line feed; false when it cannot be read. */
static bool read_line(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t len = read(fd, text, size - 1);
    close(fd);
    if (len <= 0) {
        return false;
    }
    text[len] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return true;
}

/* ------------------------------------------------------------------ python and torch */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads until the pipe ends; false when the deadline has passed before. */
static bool read_pipe(int fd, char *text, size_t size, int64_t deadline_ms)
{
    size_t len = 0;
    bool is_in_time = true;
    while (len + 1 < size) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int64_t left_ms = deadline_ms - now_ms();
        if (left_ms <= 0 || poll(&wait, 1, (int)left_ms) <= 0) {
            is_in_time = false;
            break;
        }
        ssize_t more = read(fd, text + len, size - 1 - len);
        if (more <= 0) {
            break;
        }
        len += (size_t)more;
    }
    text[len] = '\0';
    return is_in_time;
}

enum answer { ANSWER_WHOLE, ANSWER_LATE, ANSWER_NO_PROGRAM };

/* Output of a program, sought on PATH; "" when it cannot be started. */
static enum answer ask_program(char *const argv[], char *text, size_t size)
{
    text[0] = '\0';
    int pipe_fd[2];
    if (pipe2(pipe_fd, O_CLOEXEC) != 0) {
        return ANSWER_NO_PROGRAM;
    }
    enum answer answer = ANSWER_NO_PROGRAM;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = -1;
    int error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fd[1]);
    if (error == 0) {
        bool is_in_time = read_pipe(pipe_fd[0], text, size, now_ms() + PYTHON_DEADLINE_MS);
        answer = is_in_time ? ANSWER_WHOLE : ANSWER_LATE;
        kill(pid, SIGKILL); /* it has said all, or is too slow */
        waitpid(pid, NULL, 0);
    }
    close(pipe_fd[0]);
    return answer;
}

struct python {
    enum answer answer;
    char program[PROGRAM_SIZE]; /* as `kscope run` would call it */
    char version[32];
    char path[96];
    char torch[64];
};

/* The index-th line of text. */
static void take_line(const char *text, size_t index, char *line, size_t size)
{
    for (; index > 0 && *text; index--) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    snprintf(line, size, "%.*s", (int)strcspn(text, "\n"), text);
}

/* One question for both lines, to the Python that `kscope run` takes: its version, its path, and
 * the version of torch as its package says it, without importing it. */
static const struct python *ask_python(void)
{
    static char script[] =
        "import sys\n"
        "from importlib import metadata\n"
        "try: torch = metadata.version('torch')\n"
        "except metadata.PackageNotFoundError: torch = ''\n"
        "print('%d.%d.%d' % sys.version_info[:3], sys.executable, torch, sep='\\n')\n";
    static char option[] = "-c";
    static struct python python;
    if (python.program[0]) {
        return &python;
    }
    struct ks_command_line line = {0};
    char text[1024] = "";
    ks_command_line_choose_python(&line);
    python.answer = ANSWER_NO_PROGRAM;
    for (size_t i = 0; i < line.program_count && python.answer == ANSWER_NO_PROGRAM; i++) {
        char *const argv[] = {(char *)(uintptr_t)line.programs[i], option, script, NULL};
        python.answer = ask_program(argv, text, sizeof(text));
        snprintf(python.program, sizeof(python.program), "%s",
                 line.programs[python.answer == ANSWER_NO_PROGRAM ? 0 : i]);
    }
    take_line(text, 0, python.version, sizeof(python.version));
    take_line(text, 1, python.path, sizeof(python.path));
    take_line(text, 2, python.torch, sizeof(python.torch));
    return &python;
}

static void check_python(struct finding *finding)
{
    const struct python *python = ask_python();
    int major = 0;
    int minor = 0;
    if (python->answer == ANSWER_LATE) {
        set(finding, "limited", NULL, "%s does not answer within %d ms", python->program,
            PYTHON_DEADLINE_MS);
    } else if (sscanf(python->version, "%d.%d", &major, &minor) != 2) {
        set(finding, "missing", "apt-get install python3", "%s %s", python->program,
            python->answer == ANSWER_NO_PROGRAM ? "cannot be started" : "is no Python 3");
    } else if (major == 3 && minor < 11) {
        set(finding, "limited", "apt-get install python3.11", "%s at %s; recording needs 3.11",
            python->version, python->path);
    } else {
        set(finding, "ok", NULL, "%s at %s", python->version, python->path);
    }
}

static void check_torch(struct finding *finding)
{
    static char fix[PROGRAM_SIZE + 32];
    const struct python *python = ask_python();
    if (python->answer == ANSWER_LATE) {
        set(finding, "limited", NULL, "unknown: that Python does not answer in time");
    } else if (python->torch[0]) {
        set(finding, "ok", NULL, "%s", python->torch);
    } else {
        snprintf(fix, sizeof(fix), "%.*s -m pip install torch", PROGRAM_SIZE, python->program);
        set(finding, "missing", fix, "not in that Python; traces can be read, not recorded");
    }
}

/* ------------------------------------------------------------------ GPU */

/* The first word that is a number with dots, such as 580.159.04, ended by a NUL; NULL: none. */
static char *find_version(char *text)
{
    size_t len;
    for (char *word = text; *word; word += len) {
        word += strspn(word, " \t");
        len = strcspn(word, " \t");
        size_t digits = strspn(word, "0123456789");
        if (digits > 0 && digits + 1 < len && word[digits] == '.' &&
            strspn(word, "0123456789.") == len) {
            word[len] = '\0';
            return word;
        }
    }
    return NULL;
}

static void check_gpu(struct finding *finding)
{
    char text[FOUND_SIZE];
    if (!read_line("/proc/driver/nvidia/version", text, sizeof(text))) {
        set(finding, "limited", NULL, "no NVIDIA driver: only CPU runs can be recorded here");
        return;
    }
    char *version = find_version(text);
    set(finding, "ok", NULL, "NVIDIA driver %s", version ? version : text);
}

static void check_gpu_rights(struct finding *finding)
{
    FILE *file = fopen("/proc/driver/nvidia/params", "re");
    if (!file) {
        set(finding, "limited", NULL, "no NVIDIA driver");
        return;
    }
    char line[FOUND_SIZE];
    int admin_only = 0;
    while (fgets(line, sizeof(line), file)) {
        (void)sscanf(line, "RmProfilingAdminOnly: %d", &admin_only);
    }
    fclose(file);
    if (admin_only && geteuid() != 0) {
        set(finding, "limited",
            "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee "
            "/etc/modprobe.d/nvidia-profiling.conf, then reload the driver",
            "hardware counters are for root only; kernel times are not affected");
    } else {
        set(finding, "ok", NULL, "counters may be read");
    }
}

/* ------------------------------------------------------------------ system */

static void check_space(struct finding *finding, const char *path, unsigned long long bytes_min,
                        const char *why, const char *fix)
{
    struct statvfs space;
    if (statvfs(path, &space) != 0) {
        set(finding, "missing", fix, "%s: %s", path, strerror(errno));
        return;
    }
    unsigned long long bytes = (unsigned long long)space.f_bavail * space.f_frsize;
    if (access(path, W_OK) != 0) {
        set(finding, "missing", fix, "%s cannot be written", path);
    } else if (bytes < bytes_min) {
        set(finding, "limited", fix, "%s has %llu MiB free; %s", path, bytes / MIB, why);
    } else {
        set(finding, "ok", NULL, "%s has %llu MiB free", path, bytes / MIB);
    }
}

static void check_shm(struct finding *finding)
{
    check_space(finding, "/dev/shm", SHM_BYTES_MIN, "DataLoader workers may stop with a bus error",
                "docker run --shm-size=1g ..., or: mount -o remount,size=1g /dev/shm");
}

static void check_tmp(struct finding *finding)
{
    const char *folder = getenv("TMPDIR");
    check_space(finding, folder && *folder ? folder : "/tmp", TMP_BYTES_MIN,
                "tables larger than memory go there", "export TMPDIR=/path/with/space");
}

static void check_open_files(struct finding *finding)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        set(finding, "limited", NULL, "unknown");
    } else if (limit.rlim_cur < OPEN_FILES_MIN) {
        set(finding, "limited", "ulimit -n 4096", "%llu; many DataLoader workers need more",
            (unsigned long long)limit.rlim_cur);
    } else {
        set(finding, "ok", NULL, "%llu", (unsigned long long)limit.rlim_cur);
    }
}

static void check_address_space(struct finding *finding)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        set(finding, "limited", "ulimit -v unlimited", "%llu MiB",
            (unsigned long long)limit.rlim_cur / MIB);
    } else {
        set(finding, "ok", NULL, "not limited");
    }
}

static void check_cpus(struct finding *finding)
{
    cpu_set_t set_of_cpus;
    int count =
        sched_getaffinity(0, sizeof(set_of_cpus), &set_of_cpus) == 0 ? CPU_COUNT(&set_of_cpus) : 0;
    char text[64];
    long long quota = 0;
    long long period = 0;
    if (read_line("/sys/fs/cgroup/cpu.max", text, sizeof(text)) &&
        sscanf(text, "%lld %lld", &quota, &period) == 2 && period > 0 && quota < count * period) {
        set(finding, "limited", "docker run --cpus=N ..., or a smaller OMP_NUM_THREADS",
            "%d, but the group may use only %.1f of them", count, (double)quota / (double)period);
    } else {
        set(finding, "ok", NULL, "%d", count);
    }
}

static void check_perf(struct finding *finding)
{
    char text[32];
    int level = 0;
    if (!read_line("/proc/sys/kernel/perf_event_paranoid", text, sizeof(text)) ||
        sscanf(text, "%d", &level) != 1) {
        set(finding, "limited", NULL, "the kernel has no perf events");
    } else if (level > PERF_PARANOID_MAX && geteuid() != 0) {
        set(finding, "limited", "sudo sysctl kernel.perf_event_paranoid=2",
            "level %d: hardware counters of the CPU are closed", level);
    } else {
        set(finding, "ok", NULL, "level %d", level);
    }
}

/* ------------------------------------------------------------------ this build */

static void check_view(struct finding *finding)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    const char *library = ks_serve_library();
    if (!library) {
        set(finding, "limited",
            ks_serve_check(&err) != KS_OK && strstr(err.message, "not installed")
                ? "apt-get install libmicrohttpd12"
                : "apt-get install libmicrohttpd-dev, and build in a new folder",
            "no libmicrohttpd: no kscope view");
    } else if (ks_page_can_write(&err) != KS_OK) {
        set(finding, "limited", "apt-get install nodejs npm, and build in a new folder",
            "built without Node.js: no page, no kscope view");
    } else {
        set(finding, "ok", NULL, "page is built in; %s", library);
    }
}

/* ------------------------------------------------------------------ the command */

static const struct {
    const char *id;
    void (*check)(struct finding *finding);
} checks[] = {
    {"python", check_python},
    {"torch", check_torch},
    {"gpu", check_gpu},
    {"gpu_counters", check_gpu_rights},
    {"shared_memory", check_shm},
    {"temporary_files", check_tmp},
    {"open_files", check_open_files},
    {"address_space", check_address_space},
    {"cpus", check_cpus},
    {"perf_events", check_perf},
    {"view", check_view},
};

enum { CHECK_COUNT = sizeof(checks) / sizeof(checks[0]) };

static void print_lines(const struct ks_doctor_line *lines, bool colour)
{
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        bool is_ok = strcmp(lines[i].state, "ok") == 0;
        bool is_missing = strcmp(lines[i].state, "missing") == 0;
        const char *start = !colour      ? ""
                            : is_ok      ? "\033[32m"
                            : is_missing ? "\033[31m"
                                         : "\033[33m";
        ks_cli_print(&output, "%s%-8s%s %-16s %s\n", start, lines[i].state, colour ? "\033[0m" : "",
                     lines[i].id, lines[i].found);
        if (lines[i].fix) {
            ks_cli_print(&output, "         %-16s fix: %s\n", "", lines[i].fix);
        }
    }
}

static int run(const struct ks_cli_args *args)
{
    static struct finding findings[CHECK_COUNT];
    struct ks_doctor_line lines[CHECK_COUNT];
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        checks[i].check(&findings[i]);
        findings[i].line.id = checks[i].id;
        findings[i].line.found = findings[i].found;
        lines[i] = findings[i].line;
    }

    int status = ks_cli_output_open(args, NULL, &output);
    if (status != KS_EXIT_OK) {
        return status;
    }
    struct ks_err err = {.offset = KS_NO_OFFSET};
    enum ks_status written = KS_OK;
    if (ks_cli_given(args, "json")) {
        written = ks_doctor_write_json(lines, CHECK_COUNT, ks_cli_output_write, &output, &err);
    } else {
        print_lines(lines, ks_cli_colour(ks_cli_value(args, "color"), STDOUT_FILENO));
    }
    return ks_cli_output_close(args, &output, written, &err);
}

const struct ks_cli_command ks_cmd_doctor = {
    .name = "doctor",
    .summary = "Say what works on this machine, and how to repair what does not.",
    .details = "Looks only, and changes nothing. The exit status is 0 whatever is missing: reading "
               "traces needs none of it.",
    .examples =
        (const struct ks_cli_example[]){
            {"doctor", "Python, torch, GPU driver, shared memory, limits; each with its fix."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            KS_CLI_OPTION_JSON,
            KS_CLI_OPTION_COLOR,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
