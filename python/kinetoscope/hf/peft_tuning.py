"""profile_peft_fine_tuning: LoRA, prompt tuning and their kin of PEFT, beside a whole training."""

import copy

from kinetoscope.hf import fine_tuning, measuring
from kinetoscope.torch.state_guard import kept_random

_TASKS = {
    "ForCausalLM": "CAUSAL_LM",
    "LMHeadModel": "CAUSAL_LM",
    "ForConditionalGeneration": "SEQ_2_SEQ_LM",
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForQuestionAnswering": "QUESTION_ANS",
}


def profile_peft_fine_tuning(
    model,
    train_data,
    validation_data=None,
    config=None,
    *,
    method="lora",
    peft_config=None,
    compare_full=False,
    **options,
):
    """profile_fine_tuning of a copy of the model with what PEFT adds to it.

    method: lora or prompt_tuning, with PEFT's defaults (rank 8; 8 virtual tokens), unless a
    peft_config is given. compare_full: a copy is trained as a whole, too. options: as of
    profile_fine_tuning (num_epochs, max_steps, ...); an optimizer cannot be given, for it would
    hold other parameters.

    profile_fine_tuning's figures and {method, total_parameters, trainable_share, adapter_bytes
    (what is trained, bytes), full: its figures of the whole training, or None, saved_memory:
    {gradient_memory, optimizer_memory, peak_memory}: bytes by which the whole training needs more,
    or None}. The model is not changed. ImportError: peft is not installed; ValueError: an unknown
    method.
    """
    peft = _import_peft()
    if options.get("optimizer") is not None:
        raise ValueError("an optimizer holds the model's parameters, and others are trained")
    chosen = peft_config or _make_config(peft, model, method)
    data = (train_data, validation_data, config)
    full = None
    with kept_random(train_data):
        adapted = peft.get_peft_model(copy.deepcopy(model), chosen)
        report = fine_tuning.profile_fine_tuning(adapted, *data, keep=True, **options)
        if compare_full:
            whole = copy.deepcopy(model)
            full = fine_tuning.profile_fine_tuning(whole, *data, keep=True, **options)
    trained = [p for p in adapted.parameters() if p.requires_grad]
    total = sum(p.numel() for p in adapted.parameters())
    return {
        **report,
        "method": str(getattr(chosen.peft_type, "value", chosen.peft_type)).lower(),
        "total_parameters": total,
        "trainable_share": sum(p.numel() for p in trained) / total,
        "adapter_bytes": measuring.bytes_of(trained),
        "full": full,
        "saved_memory": None if full is None else _saved(report, full),
    }


def _import_peft():
    try:
        import peft
    except ImportError as failure:
        raise ImportError("this needs PEFT: pip install peft") from failure
    return peft


def _make_config(peft, model, method):
    task = next((v for k, v in _TASKS.items() if type(model).__name__.endswith(k)), None)
    if method == "lora":
        return peft.LoraConfig(task_type=task)
    if method == "prompt_tuning":
        return peft.PromptTuningConfig(task_type=task or "FEATURE_EXTRACTION", num_virtual_tokens=8)
    raise ValueError(f"method is lora or prompt_tuning, not {method!r}")


def _saved(report, full):
    pairs = {
        k: (report[k], full[k]) for k in ("gradient_memory", "optimizer_memory", "peak_memory")
    }
    return {k: None if None in pair else pair[1] - pair[0] for k, pair in pairs.items()}
