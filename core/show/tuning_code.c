#include "show/tuning_code.h"

#include <stdio.h>
#include <string.h>

#include "base/word_list.h"

enum { VALUE_SIZE = 64 };

/* Where a setting's value goes into a line; %s is the value. */
struct template
{
    const char *name;
    const char *value; /* the line is for this value alone; NULL: for any */
    const char *line;
};

static const struct template lines[] = {
    {"optimizer", "fused", "optimizer = OPTIMIZER(..., fused=True)"},
    {"optimizer", "foreach", "optimizer = OPTIMIZER(..., foreach=True)"},
    {"precision", "tf32", "torch.set_float32_matmul_precision(\"high\")"},
    {"precision", "tf32", "torch.backends.cudnn.allow_tf32 = True"},
    {"precision", "bf16",
     "with torch.autocast(\"{device}\", dtype=torch.bfloat16):  # around model(...) and the loss"},
    {"precision", "fp16",
     "with torch.autocast(\"{device}\", dtype=torch.float16):  # around model(...) and the loss"},
    {"precision", "fp16",
     "scaler = torch.amp.GradScaler()  # scale(loss).backward(), step(optimizer), update()"},
    {"layout", "channels_last",
     "model = model.to(memory_format=torch.channels_last)  # and the images of each batch"},
    {"cudnn", "benchmark", "torch.backends.cudnn.benchmark = True"},
    {"cudnn", "fixed", "torch.backends.cudnn.benchmark = False"},
    {"attention", NULL, "torch.backends.cuda.enable_flash_sdp(True)"},
    {"attention", NULL, "torch.backends.cuda.enable_mem_efficient_sdp(True)"},
    {"threads", NULL, "torch.set_num_threads({value})"},
    {"compile", "default", "model.compile()"},
    {"compile", NULL, "model.compile(mode=\"{value}\")"},
};

/* Arguments of the loader, in the order in which people write them. */
static const struct template arguments[] = {
    {"batch", NULL, "batch_size={value}"},
    {"workers", NULL, "num_workers={value}"},
    {"persistent", "1", "persistent_workers=True"},
    {"prefetch", NULL, "prefetch_factor={value}"},
    {"pin", "1", "pin_memory=True"},
};

static bool value_of(const char *setting, const char *name, char value[VALUE_SIZE])
{
    struct ks_word word;
    if (!ks_word_list_find(setting, ks_str_from(name), &word) || !word.has_value) {
        return false;
    }
    snprintf(value, VALUE_SIZE, "%.*s", (int)word.value.len, word.value.ptr);
    return true;
}

static bool has_value(const struct template *template, const char *setting, char value[VALUE_SIZE])
{
    return value_of(setting, template->name, value) &&
           (!template->value || strcmp(value, template->value) == 0);
}

/* The line with what stands in braces filled in. */
static void append_line(struct ks_text *out, const char *line, const char *value,
                        const char *device)
{
    static const struct ks_str holes[] = {{"{value}", 7}, {"{device}", 8}};
    const char *const fillings[] = {value, device};
    for (const char *at = line; *at;) {
        size_t hole = 0;
        while (hole < 2 && strncmp(at, holes[hole].ptr, holes[hole].len) != 0) {
            hole++;
        }
        if (hole < 2) {
            ks_text_append_str(out, ks_str_from(fillings[hole]));
            at += holes[hole].len;
        } else {
            ks_text_append(out, at++, 1);
        }
    }
}

static void append_loader(struct ks_text *out, const char *setting, const char *device,
                          const char *indent)
{
    char value[VALUE_SIZE];
    bool is_first = true;
    for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
        if (has_value(&arguments[i], setting, value)) {
            ks_text_printf(out, "%s", is_first ? indent : ", ");
            ks_text_printf(out, "%s", is_first ? "loader = DataLoader(..., " : "");
            append_line(out, arguments[i].line, value, device);
            is_first = false;
        }
    }
    if (!is_first) {
        ks_text_append(out, ")\n", 2);
    }
    if (value_of(setting, "pin", value)) {
        ks_text_printf(out, "%sbatch = batch.to(\"%s\", non_blocking=True)\n", indent, device);
    }
}

static void append_entries(struct ks_text *out, const char *setting, const char *indent)
{
    struct ks_word word;
    for (size_t offset = 0; ks_word_list_next(setting, &offset, &word);) {
        if (ks_str_starts(word.name, KS_STR("entry."))) {
            ks_text_printf(out, "%s# choice %.*s, counted from 0\n", indent, (int)word.text.len,
                           word.text.ptr);
        }
    }
}

void ks_tuning_code(const char *setting, const char *device, const char *indent,
                    struct ks_text *out)
{
    char value[VALUE_SIZE];
    append_loader(out, setting, device, indent);
    const char *done = ""; /* the knob whose own line for this value was written */
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        bool is_double = !lines[i].value && strcmp(done, lines[i].name) == 0;
        if (!is_double && has_value(&lines[i], setting, value)) {
            ks_text_append_str(out, ks_str_from(indent));
            append_line(out, lines[i].line, value, device);
            ks_text_append(out, "\n", 1);
            done = lines[i].value ? lines[i].name : done;
        }
    }
    append_entries(out, setting, indent);
}
