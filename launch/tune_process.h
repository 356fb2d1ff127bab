/* One process of the script that is tuned: started with a setting, run in blocks of steps.
 *
 * The hook inside it (python/kinetoscope/torch/tuned_session.py) speaks a line a message through a
 * socket; docs/tuning.md has the list. Between two blocks the hook waits for leave, and we stop the
 * whole process group, so that workers of loaders get no further either. The group is ours alone:
 * Ctrl-C of the terminal does not reach it, and ending it ends all of it, at once: what the script
 * would do at its end, such as writing a checkpoint, is not wanted of a run that is cut off. */
#ifndef KS_LAUNCH_TUNE_PROCESS_H
#define KS_LAUNCH_TUNE_PROCESS_H

#include <sys/types.h>

#include "launch/command_line.h"
#include "launch/launch.h"
#include "tune/run_numbers.h"
#include "tune/script_facts.h"
#include "tune/setting.h"

enum { KS_TUNE_LINE_SIZE = 1024, KS_TUNE_NAME_SIZE = 32 };

/* What all processes of a tuning share. */
struct ks_tune_command {
    struct ks_command_line line;
    char *python_path;
    char out_dir[KS_LAUNCH_PATH_SIZE];
    char socket_dir[KS_TUNING_NAME_SIZE];
    const char *step_mark;
    bool (*is_cancelled)(void *user); /* asked a few times a second; NULL: never */
    void *user;
};

enum ks_tune_event {
    KS_TUNE_BLOCK,     /* the block is over, and the process held */
    KS_TUNE_OVER,      /* the script came to its end */
    KS_TUNE_DIED,      /* it failed, or a signal ended it; `reason` says so */
    KS_TUNE_LATE,      /* it took too long, and was ended */
    KS_TUNE_CANCELLED, /* is_cancelled said so */
};

struct ks_tune_process {
    const struct ks_tune_command *command;
    char name[KS_TUNE_NAME_SIZE]; /* of its log: NAME.log in out_dir */
    struct ks_setting setting;
    pid_t pid; /* 0: it does not run */
    int listen_fd, fd;
    size_t line_len;
    char line[KS_TUNE_LINE_SIZE];
    struct ks_script_facts facts;
    struct ks_run_numbers numbers; /* of its latest start */
    char refused[KS_TUNING_TEXT_SIZE];
    char reason[KS_TUNING_TEXT_SIZE]; /* why it died, or what its hook says */
    bool has_spoken;                  /* a process with our hook has imported torch */
    int64_t steps;                    /* so far */
    int64_t block_steps, block_ns;    /* of the latest block */
    bool is_ready;                    /* it has run a few steps behind its warm-up */
    double first_step_ns;             /* of its first timed block */
    int64_t epoch_steps;              /* of the first epoch that ended; 0: none has */
    int64_t total_steps;              /* when it came to its end once; else 0 */
    int64_t bytes, gpu_bytes;         /* most that was seen */
};

/* Forks and executes; KS_ERR_IO when it cannot. `process` was zero, or ended. */
KS_MUST_CHECK enum ks_status ks_tune_process_start(struct ks_tune_process *process,
                                                   const struct ks_tune_command *command,
                                                   const char *name,
                                                   const struct ks_setting *setting,
                                                   struct ks_err *err);
/* Waits until the steps for warming up are over. */
enum ks_tune_event ks_tune_process_warm(struct ks_tune_process *process, int64_t timeout_ns);
/* Lets it run so many steps. */
enum ks_tune_event ks_tune_process_block(struct ks_tune_process *process, int64_t steps,
                                         int64_t timeout_ns);
/* Sees how much memory its processes hold, of which shared pages count in part. */
void ks_tune_process_weigh(struct ks_tune_process *process);
/* Ends it and all that it started; one that does not run is fine. */
void ks_tune_process_end(struct ks_tune_process *process);

#endif
