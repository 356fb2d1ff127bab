#include "analyze/phase_names.h"

enum { LABEL_LEN_MAX = 40 };

/* Regions that users mark, in lower case with underscores. Other regions have no phase. */
static const struct {
    const char *name;
    enum ks_phase phase;
    bool is_update;
} regions[] = {
    {"data_loading", KS_PHASE_DATA, false},
    {"data_preprocessing", KS_PHASE_DATA, false},
    {"text_preprocessing", KS_PHASE_DATA, false},
    {"tokenization", KS_PHASE_DATA, false},
    {"data", KS_PHASE_DATA, false},
    {"memory_transfer", KS_PHASE_TRANSFER, false},
    {"transfer", KS_PHASE_TRANSFER, false},
    {"forward_pass", KS_PHASE_FORWARD, false},
    {"forward", KS_PHASE_FORWARD, false},
    {"model_inference", KS_PHASE_FORWARD, false},
    {"loss_computation", KS_PHASE_LOSS, false},
    {"loss", KS_PHASE_LOSS, false},
    {"backward_pass", KS_PHASE_BACKWARD, false},
    {"backward", KS_PHASE_BACKWARD, false},
    {"optimizer_step", KS_PHASE_OPTIMIZER, true},
    {"optimizer", KS_PHASE_OPTIMIZER, true},
    {"zero_grad", KS_PHASE_OPTIMIZER, false},
};

static bool is_frill(char c)
{
    return c == '#' || c == ' ' || c == '*' || c == '=' || c == '-';
}

/* "## Forward pass ##" is forward_pass: writes the plain form into `out`; empty when too long. */
static struct ks_str plain_form(struct ks_str name, char out[LABEL_LEN_MAX])
{
    while (name.len > 0 && is_frill(name.ptr[0])) {
        name.ptr++;
        name.len--;
    }
    while (name.len > 0 && is_frill(name.ptr[name.len - 1])) {
        name.len--;
    }
    if (name.len > LABEL_LEN_MAX) {
        return (struct ks_str){0};
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        c = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        out[i] = c == ' ' || c == '-' ? '_' : c;
    }
    return (struct ks_str){out, name.len};
}

static unsigned label_flags(enum ks_phase phase, bool is_update)
{
    return (unsigned)phase + 1 + (is_update ? (unsigned)KS_PHASE_NAME_UPDATE : 0);
}

static unsigned region_flags(struct ks_str name)
{
    char buf[LABEL_LEN_MAX];
    struct ks_str plain = plain_form(name, buf);
    for (size_t i = 0; i < KS_COUNT_OF(regions); i++) {
        if (ks_str_equal(plain, ks_str_from(regions[i].name))) {
            return label_flags(regions[i].phase, regions[i].is_update);
        }
    }
    return 0;
}

/* AddmmBackward0, CompiledFunctionBackward: nodes of the autograd graph. */
static bool is_backward_node(struct ks_str name)
{
    struct ks_str word = KS_STR("Backward");
    size_t len = name.len;
    while (len > 0 && name.ptr[len - 1] >= '0' && name.ptr[len - 1] <= '9') {
        len--;
    }
    return len >= word.len && memcmp(name.ptr + len - word.len, word.ptr, word.len) == 0 &&
           !ks_str_contains(name, KS_STR("::"));
}

static unsigned torch_flags(struct ks_str name)
{
    if ((ks_str_starts(name, KS_STR("enumerate(DataLoader)#")) &&
         ks_str_contains(name, KS_STR("__next__"))) ||
        ks_str_starts(name, KS_STR("enumerate(DataPipe)#"))) {
        return label_flags(KS_PHASE_DATA, false);
    }
    if (ks_str_starts(name, KS_STR("Optimizer.step#"))) {
        return label_flags(KS_PHASE_OPTIMIZER, true);
    }
    if (ks_str_starts(name, KS_STR("Optimizer.zero_grad#"))) {
        return label_flags(KS_PHASE_OPTIMIZER, false);
    }
    if (ks_str_starts(name, KS_STR("autograd::engine::evaluate_function")) ||
        is_backward_node(name)) {
        return label_flags(KS_PHASE_BACKWARD, false);
    }
    return 0;
}

static unsigned operator_flags(struct ks_str name)
{
    static const char *const losses[] = {"loss", "nll", "cross_entropy", "mse", "kl_div"};
    static const char *const copies[] = {"aten::to", "aten::_to_copy", "aten::copy_"};
    for (size_t i = 0; i < KS_COUNT_OF(copies); i++) {
        if (ks_str_equal(name, ks_str_from(copies[i]))) {
            return KS_PHASE_NAME_COPY;
        }
    }
    if (ks_link_kind_of(name) == KS_LINK_MEMCPY) {
        return KS_PHASE_NAME_COPY;
    }
    if (ks_str_equal(name, KS_STR("aten::log_softmax")) ||
        ks_str_equal(name, KS_STR("aten::_log_softmax"))) {
        return KS_PHASE_NAME_SOFTMAX;
    }
    for (size_t i = 0; i < KS_COUNT_OF(losses); i++) {
        if (ks_str_starts(name, KS_STR("aten::")) &&
            ks_str_contains(name, ks_str_from(losses[i]))) {
            return KS_PHASE_NAME_LOSS;
        }
    }
    return 0;
}

unsigned ks_phase_names_classify(struct ks_str name)
{
    unsigned flags = torch_flags(name);
    flags = flags ? flags : region_flags(name);
    return KS_PHASE_NAME_KNOWN | (flags ? flags : operator_flags(name));
}
