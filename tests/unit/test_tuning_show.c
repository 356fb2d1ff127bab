/* Goal: a setting becomes the lines of Python that do it, and what was found is told as it is.
 * Method: a table with each knob and value; sentences of made-up tunings. */
#include "cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "show/tuning_code.h"
#include "show/tuning_show.h"
#include "tune/knobs.h"

/* ------------------------------------------------------------------ code */

static const struct {
    const char *setting, *code;
} lines[] = {
    {"", ""},
    {"workers=4", "loader = DataLoader(..., num_workers=4)\n"},
    {"persistent=1", "loader = DataLoader(..., persistent_workers=True)\n"},
    {"persistent=0", ""},
    {"prefetch=8", "loader = DataLoader(..., prefetch_factor=8)\n"},
    {"pin=1", "loader = DataLoader(..., pin_memory=True)\n"
              "batch = batch.to(\"cuda\", non_blocking=True)\n"},
    {"batch=64", "loader = DataLoader(..., batch_size=64)\n"},
    {"optimizer=fused", "optimizer = OPTIMIZER(..., fused=True)\n"},
    {"optimizer=foreach", "optimizer = OPTIMIZER(..., foreach=True)\n"},
    {"precision=tf32", "torch.set_float32_matmul_precision(\"high\")\n"
                       "torch.backends.cudnn.allow_tf32 = True\n"},
    {"precision=bf16", "with torch.autocast(\"cuda\", dtype=torch.bfloat16):"
                       "  # around model(...) and the loss\n"},
    {"precision=fp16",
     "with torch.autocast(\"cuda\", dtype=torch.float16):  # around model(...) and the loss\n"
     "scaler = torch.amp.GradScaler()  # scale(loss).backward(), step(optimizer), update()\n"},
    {"layout=channels_last",
     "model = model.to(memory_format=torch.channels_last)  # and the images of each batch\n"},
    {"cudnn=benchmark", "torch.backends.cudnn.benchmark = True\n"},
    {"cudnn=fixed", "torch.backends.cudnn.benchmark = False\n"},
    {"attention=any", "torch.backends.cuda.enable_flash_sdp(True)\n"
                      "torch.backends.cuda.enable_mem_efficient_sdp(True)\n"},
    {"threads=2", "torch.set_num_threads(2)\n"},
    {"compile=default", "model.compile()\n"},
    {"compile=reduce-overhead", "model.compile(mode=\"reduce-overhead\")\n"},
    {"entry.gain=1", "# choice entry.gain=1, counted from 0\n"},
    {"batch=8,persistent=1,pin=1,prefetch=4,threads=1,workers=2",
     "loader = DataLoader(..., batch_size=8, num_workers=2, persistent_workers=True, "
     "prefetch_factor=4, pin_memory=True)\n"
     "batch = batch.to(\"cuda\", non_blocking=True)\n"
     "torch.set_num_threads(1)\n"},
};

static void test_each_setting_has_its_lines(void **state)
{
    (void)state;
    struct ks_text out;
    ks_text_init(&out);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ks_text_reset(&out);
        ks_tuning_code(lines[i].setting, "cuda", "", &out);
        ks_text_append(&out, "", 1);
        assert_string_equal(out.ptr, lines[i].code);
    }
    ks_text_release(&out);
}

static void test_no_knob_is_forgotten(void **state)
{
    (void)state;
    for (size_t k = 0; k < KS_KNOB_COUNT; k++) {
        bool is_there = false;
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
            struct ks_word word = ks_word_of(ks_str_from(lines[i].setting));
            is_there = is_there || ks_str_equal(word.name, ks_str_from(ks_knobs[k].name));
        }
        assert_true(is_there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_setting_has_its_lines),
        cmocka_unit_test(test_no_knob_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
