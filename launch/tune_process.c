#include "launch/tune_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/clock.h"
#include "launch/process_tree.h"

enum { LOOK_MS = 50, ROLLUP_SIZE = 2048, TAIL_SIZE = 4096 };

/* ------------------------------------------------------------------ starting */

static void log_path(const struct ks_tune_process *process, char path[KS_LAUNCH_PATH_SIZE + 64])
{
    snprintf(path, KS_LAUNCH_PATH_SIZE + 64, "%s/%s.log", process->command->out_dir, process->name);
}

static struct sockaddr_un address_of(const struct ks_tune_process *process)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", process->command->socket_dir,
             process->name);
    return address;
}

static enum ks_status listen_for(struct ks_tune_process *process, struct ks_err *err)
{
    struct sockaddr_un address = address_of(process);
    process->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlink(address.sun_path);
    if (process->listen_fd < 0 ||
        bind(process->listen_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(process->listen_fd, 8) != 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot make a socket: path=\"%s\", %s",
                       address.sun_path, strerror(errno));
    }
    return KS_OK;
}

/* In the child: no input, output to the log, a group of its own, which ends with us. */
static bool settle_child(const struct ks_tune_process *process)
{
    char path[KS_LAUNCH_PATH_SIZE + 64];
    log_path(process, path);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int none = open("/dev/null", O_RDONLY);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return log >= 0 && none >= 0 && dup2(none, STDIN_FILENO) >= 0 &&
           dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0;
}

static bool set_environment(const struct ks_tune_process *process)
{
    const struct ks_tune_command *command = process->command;
    struct sockaddr_un address = address_of(process);
    const char *mark = command->step_mark;
    (void)unsetenv("KSCOPE_RECORD");
    /* Sets of texts are walked in another order by each process, unless this is set. */
    return setenv("PYTHONPATH", command->python_path, 1) == 0 &&
           setenv("KSCOPE_RUN", "1", 1) == 0 && setenv("KSCOPE_OUT", command->out_dir, 1) == 0 &&
           setenv("KSCOPE_TUNE", address.sun_path, 1) == 0 &&
           setenv("KSCOPE_TUNED", process->setting.text, 1) == 0 &&
           setenv("PYTHONHASHSEED", "0", 0) == 0 &&
           (mark ? setenv("KSCOPE_STEP_MARK", mark, 1) : unsetenv("KSCOPE_STEP_MARK")) == 0;
}

static _Noreturn void become_script(const struct ks_tune_process *process)
{
    const struct ks_command_line *line = &process->command->line;
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGINT, SIG_DFL);
    if (settle_child(process) && set_environment(process)) {
        for (size_t i = 0; i < line->program_count; i++) {
            line->argv[0] = (char *)(uintptr_t)line->programs[i];
            execvp(line->programs[i], line->argv);
        }
        int failure = errno;
        char words[160]; /* the last line of the log is the reason that is told */
        int len = snprintf(words, sizeof(words), "Cannot start %.80s: %.60s\n", line->programs[0],
                           strerror(failure));
        (void)!write(STDERR_FILENO, words, (size_t)len);
        errno = failure;
    }
    _exit(errno == ENOENT ? 127 : 126);
}

enum ks_status ks_tune_process_start(struct ks_tune_process *process,
                                     const struct ks_tune_command *command, const char *name,
                                     const struct ks_setting *setting, struct ks_err *err)
{
    struct ks_setting own = *setting; /* which may be that of `process` */
    int64_t total_steps = process->total_steps;
    int64_t epoch_steps = process->epoch_steps;
    char own_name[KS_TUNE_NAME_SIZE];
    snprintf(own_name, sizeof(own_name), "%s", name);
    *process = (struct ks_tune_process){.command = command,
                                        .listen_fd = -1,
                                        .fd = -1,
                                        .setting = own,
                                        .total_steps = total_steps,
                                        .epoch_steps = epoch_steps};
    memcpy(process->name, own_name, sizeof(own_name));
    enum ks_status status = listen_for(process, err);
    if (status == KS_OK) {
        process->pid = fork();
        if (process->pid == 0) {
            become_script(process);
        }
        if (process->pid < 0) {
            process->pid = 0;
            status = ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot fork: %s", strerror(errno));
        } else {
            (void)setpgid(process->pid, process->pid); /* whoever of the two is first */
        }
    }
    if (status != KS_OK) {
        ks_tune_process_end(process);
    }
    return status;
}

/* ------------------------------------------------------------------ ending */

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

void ks_tune_process_end(struct ks_tune_process *process)
{
    if (!process->command) {
        return; /* never started */
    }
    if (process->pid > 0) {
        int status = 0;
        (void)kill(-process->pid, SIGKILL);
        while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {
        }
        process->pid = 0;
    }
    struct sockaddr_un address = address_of(process);
    (void)unlink(address.sun_path);
    close_fd(&process->fd);
    close_fd(&process->listen_fd);
}

/* The last line of the log that holds anything: with Python that is the exception. */
static void read_last_line(const struct ks_tune_process *process, char *out, size_t size)
{
    char path[KS_LAUNCH_PATH_SIZE + 64];
    char tail[TAIL_SIZE + 1];
    log_path(process, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = end > TAIL_SIZE ? end - TAIL_SIZE : 0;
    ssize_t got = fd >= 0 ? pread(fd, tail, TAIL_SIZE, from) : 0;
    size_t len = got > 0 ? (size_t)got : 0;
    while (len > 0 && (unsigned char)tail[len - 1] <= ' ') {
        len--;
    }
    tail[len] = '\0';
    const char *line = strrchr(tail, '\n');
    snprintf(out, size, "%.150s", line ? line + 1 : tail);
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* Tells how it ended; what it started may still run, and is ended too. */
static enum ks_tune_event reap(struct ks_tune_process *process, int status)
{
    pid_t group = process->pid;
    process->pid = 0;
    (void)kill(-group, SIGKILL);
    ks_tune_process_end(process);
    bool has_failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (!has_failed) {
        process->total_steps = process->steps;
        return KS_TUNE_OVER;
    }
    char line[160];
    read_last_line(process, line, sizeof(line));
    if (WIFSIGNALED(status)) {
        snprintf(process->reason, sizeof(process->reason), "signal %d (%s) ended it: %s",
                 WTERMSIG(status), strsignal(WTERMSIG(status)), line);
    } else {
        snprintf(process->reason, sizeof(process->reason), "it ended with status %d: %s",
                 WEXITSTATUS(status), line);
    }
    return KS_TUNE_DIED;
}

/* ------------------------------------------------------------------ messages */

static void note_refusal(struct ks_tune_process *process, const char *words)
{
    snprintf(process->refused, sizeof(process->refused), "%s", words);
}

static void note_fact(struct ks_tune_process *process, char *words)
{
    char *blank = strchr(words, ' ');
    if (blank) {
        *blank = '\0';
        ks_script_facts_add(&process->facts, words, blank + 1);
    }
}

static void note_epoch(struct ks_tune_process *process, const char *words)
{
    int64_t step = strtoll(words, NULL, 10);
    if (process->epoch_steps == 0 && step > 0) {
        process->epoch_steps = step;
    }
}

/* True when the line ends a block. */
static bool take_line(struct ks_tune_process *process, char *line)
{
    char *words = strchr(line, ' ');
    long long steps = 0;
    long long dur_ns = 0;
    if (!words) {
        return false;
    }
    *words++ = '\0';
    if (strcmp(line, "loss") == 0) {
        ks_run_numbers_add(&process->numbers, KS_NUMBER_LOSS, strtod(words, NULL));
    } else if (strcmp(line, "norm") == 0) {
        ks_run_numbers_add(&process->numbers, KS_NUMBER_NORM, strtod(words, NULL));
    } else if (strcmp(line, "output") == 0) {
        ks_run_numbers_add(&process->numbers, KS_NUMBER_OUTPUT, strtod(words, NULL));
    } else if (strcmp(line, "fact") == 0) {
        note_fact(process, words);
    } else if (strcmp(line, "refuse") == 0) {
        note_refusal(process, words);
    } else if (strcmp(line, "failed") == 0) {
        snprintf(process->reason, sizeof(process->reason), "the hook failed: %.200s", words);
    } else if (strcmp(line, "memory") == 0) {
        process->gpu_bytes = strtoll(words, NULL, 10);
    } else if (strcmp(line, "epoch") == 0) {
        note_epoch(process, words);
    } else if (strcmp(line, "hello") == 0) {
        process->has_spoken = true;
    } else if (strcmp(line, "over") == 0) {
        process->steps = strtoll(words, NULL, 10);
    } else if (strcmp(line, "block") == 0 && sscanf(words, "%lld %lld", &steps, &dur_ns) == 2) {
        process->block_steps = steps;
        process->block_ns = dur_ns;
        process->steps += steps;
        return true;
    }
    return false;
}

/* Takes what is there; true when a block has ended. A line that is too long is cut. */
static bool take_bytes(struct ks_tune_process *process, const char *bytes, size_t size)
{
    bool is_over = false;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n') {
            process->line[process->line_len] = '\0';
            process->line_len = 0;
            is_over = take_line(process, process->line) || is_over;
        } else if (process->line_len + 1 < sizeof(process->line)) {
            process->line[process->line_len++] = bytes[i];
        }
    }
    return is_over;
}

/* Takes what has come; false when there is no more. Who connects first may be a short-lived helper
 * of the script: it says `over` and goes. Workers that were forked hold the socket open, too, so
 * its end says little of the script's. */
static bool read_socket(struct ks_tune_process *process, bool *is_block)
{
    char bytes[4096];
    ssize_t got = recv(process->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0) {
        *is_block = take_bytes(process, bytes, (size_t)got) || *is_block;
        return true;
    }
    if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        close_fd(&process->fd);
        process->line_len = 0;
    }
    return false;
}

static void hold(const struct ks_tune_process *process)
{
    (void)kill(-process->pid, SIGSTOP);
}

/* Looks once: true when `*event` says what happened. */
static bool look(struct ks_tune_process *process, enum ks_tune_event *event)
{
    struct pollfd poll_fd = {.fd = process->fd >= 0 ? process->fd : process->listen_fd,
                             .events = POLLIN};
    int count = poll(&poll_fd, 1, LOOK_MS);
    bool is_block = false;
    if (count > 0 && process->fd < 0) {
        process->fd = accept4(process->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    } else if (count > 0) {
        (void)read_socket(process, &is_block);
    }
    if (is_block) {
        hold(process);
        *event = KS_TUNE_BLOCK;
        return true;
    }
    int status = 0;
    if (waitpid(process->pid, &status, WNOHANG) == process->pid) {
        while (process->fd >= 0 && read_socket(process, &is_block)) {
        }
        *event = reap(process, status);
        return true;
    }
    return false;
}

static enum ks_tune_event wait_for_block(struct ks_tune_process *process, int64_t timeout_ns)
{
    const struct ks_tune_command *command = process->command;
    int64_t deadline_ns = ks_clock_ns(CLOCK_MONOTONIC) + timeout_ns;
    enum ks_tune_event event;
    while (!look(process, &event)) {
        if (command->is_cancelled && command->is_cancelled(command->user)) {
            return KS_TUNE_CANCELLED;
        }
        if (ks_clock_ns(CLOCK_MONOTONIC) >= deadline_ns) {
            ks_tune_process_end(process);
            snprintf(process->reason, sizeof(process->reason), "it was not there after %lld s",
                     (long long)(timeout_ns / 1000000000));
            return KS_TUNE_LATE;
        }
    }
    return event;
}

enum ks_tune_event ks_tune_process_warm(struct ks_tune_process *process, int64_t timeout_ns)
{
    enum ks_tune_event event = wait_for_block(process, timeout_ns);
    close_fd(&process->listen_fd); /* who comes now is no process with steps */
    return event;
}

enum ks_tune_event ks_tune_process_block(struct ks_tune_process *process, int64_t steps,
                                         int64_t timeout_ns)
{
    char line[32];
    int len = snprintf(line, sizeof(line), "go %lld\n", (long long)steps);
    (void)kill(-process->pid, SIGCONT);
    if (process->fd >= 0) {
        (void)!send(process->fd, line, (size_t)len, MSG_NOSIGNAL);
    }
    return wait_for_block(process, timeout_ns);
}

/* ------------------------------------------------------------------ memory */

static int64_t bytes_of(pid_t pid)
{
    char path[64];
    char text[ROLLUP_SIZE];
    long long kib = 0;
    snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", (long)pid);
    const char *line = ks_proc_read_text(path, text, sizeof(text)) ? strstr(text, "\nPss:") : NULL;
    return line && sscanf(line, "\nPss: %lld", &kib) == 1 ? kib * 1024 : 0;
}

void ks_tune_process_weigh(struct ks_tune_process *process)
{
    struct ks_process_tree none = {0};
    struct ks_process_tree tree = {0};
    int64_t bytes = 0;
    if (process->pid == 0 || !ks_process_tree_read(&tree, &none, process->pid)) {
        return;
    }
    for (size_t i = 0; i < tree.count; i++) {
        bytes += bytes_of(tree.list[i].pid);
    }
    ks_process_tree_release(&tree);
    process->bytes = bytes > process->bytes ? bytes : process->bytes;
}
