/* What is worth a try where no GPU works: precision.bf16, layout.channels_last, compile.eager. A
 * trace does not say what processor it was, so none of them says by how much. */
#include "advise/opportunities.h"

#include "measure/sum.h"

enum { STEPS_MIN = 2 };

static const double share_min = 0.30;
static const double moves_min = 0.20;

/* Exclusive time of operators by what they do, of the whole recording. */
struct parts {
    int64_t all_ns;
    int64_t products_ns;
    int64_t convolutions_ns;
    int64_t moves_ns;
    bool is_compiled;
};

static bool is_one_of(struct ks_str name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_str_equal(name, ks_str_from(names[i]))) {
            return true;
        }
    }
    return false;
}

static void add_operator(struct parts *parts, struct ks_str name, int64_t ns)
{
    static const char *const products[] = {"aten::mm",         "aten::addmm",
                                           "aten::bmm",        "aten::baddbmm",
                                           "mkl::_mkl_linear", "mkldnn::_linear_pointwise"};
    static const char *const convolutions[] = {"aten::mkldnn_convolution",
                                               "aten::convolution_backward",
                                               "aten::_slow_conv2d_forward", "aten::thnn_conv2d"};
    static const char *const moves[] = {"aten::add",
                                        "aten::add_",
                                        "aten::mul",
                                        "aten::mul_",
                                        "aten::div",
                                        "aten::sub",
                                        "aten::relu",
                                        "aten::gelu",
                                        "aten::silu",
                                        "aten::sigmoid",
                                        "aten::tanh",
                                        "aten::exp",
                                        "aten::pow",
                                        "aten::rsqrt",
                                        "aten::where",
                                        "aten::neg",
                                        "aten::sqrt",
                                        "aten::clamp_min",
                                        "aten::_softmax",
                                        "aten::native_layer_norm",
                                        "aten::native_batch_norm",
                                        "aten::threshold_backward"};
    parts->all_ns = ks_sum_add(parts->all_ns, ns);
    if (is_one_of(name, products, KS_COUNT_OF(products))) {
        parts->products_ns = ks_sum_add(parts->products_ns, ns);
    } else if (is_one_of(name, convolutions, KS_COUNT_OF(convolutions))) {
        parts->convolutions_ns = ks_sum_add(parts->convolutions_ns, ns);
    } else if (is_one_of(name, moves, KS_COUNT_OF(moves))) {
        parts->moves_ns = ks_sum_add(parts->moves_ns, ns);
    }
    parts->is_compiled = parts->is_compiled || ks_str_starts(name, KS_STR("Torch-Compiled Region"));
}

static struct parts look_at(const struct ks_facts *facts)
{
    struct parts parts = {0};
    for (size_t i = 0; i < facts->operator_count; i++) {
        const struct ks_operator_fact *op = &facts->operators[i];
        struct ks_str name = ks_trace_str(facts->trace, op->name);
        if (op->kind == KS_OPERATOR_OP && op->self_exclusive_ns > 0) {
            add_operator(&parts, name, op->self_exclusive_ns);
        }
        parts.is_compiled =
            parts.is_compiled || ks_str_starts(name, KS_STR("Torch-Compiled Region"));
    }
    return parts;
}

static double share_of(int64_t part_ns, const struct parts *parts)
{
    return parts->all_ns > 0 ? (double)part_ns / (double)parts->all_ns : 0;
}

static void add(struct ks_opportunities *out, const char *id, const char *title, const char *code,
                const char *text, double share)
{
    const struct ks_opportunity found = {
        .id = id,
        .title = title,
        .code = code,
        .text = text,
        .most_ns = KS_UNKNOWN,
        .evidence = {{"share_of_operators", share, "share"}},
        .evidence_count = 1,
    };
    ks_opportunities_add(out, &found);
}

void ks_opportunity_find_cpu(const struct ks_facts *facts, const struct ks_findings *findings,
                             struct ks_opportunities *out)
{
    (void)findings;
    if (facts->complete_step_count < STEPS_MIN || facts->step_source == KS_STEPS_WINDOW) {
        return;
    }
    struct parts parts = look_at(facts);
    double products = share_of(ks_sum_add(parts.products_ns, parts.convolutions_ns), &parts);
    double convolutions = share_of(parts.convolutions_ns, &parts);
    double moves = share_of(parts.moves_ns, &parts);
    if (products >= share_min) {
        add(out, "precision.bf16", "oneDNN multiplies bf16 faster than fp32 on some processors",
            "with torch.autocast(\"cpu\", dtype=torch.bfloat16): ...",
            ks_opportunities_text(
                out,
                "Products and convolutions take %.0f %% of the operators' time. On a processor "
                "with "
                "amx_bf16 or avx512_bf16 (lscpu tells) they run several times faster in bf16; on "
                "others they do not.",
                100 * products),
            products);
    }
    if (convolutions >= share_min) {
        add(out, "layout.channels_last", "Convolutions like channels_last on the CPU, too",
            "model = model.to(memory_format=torch.channels_last)",
            ks_opportunities_text(out,
                                  "Convolutions take %.0f %% of the operators' time: in "
                                  "channels_last oneDNN need not turn their inputs around.",
                                  100 * convolutions),
            convolutions);
    }
    if (moves >= moves_min && !parts.is_compiled) {
        add(out, "compile.eager", "torch.compile would join loops that move memory",
            "model = torch.compile(model)",
            ks_opportunities_text(out,
                                  "The program runs eagerly, and operators that go over all values "
                                  "once take %.0f %% of the operators' time: compiled, those that "
                                  "follow each other become one loop.",
                                  100 * moves),
            moves);
    }
}
