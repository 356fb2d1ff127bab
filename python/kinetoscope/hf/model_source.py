"""From what a program names a model by to the model: a module, a configuration, or a folder."""

import inspect
import os

import torch

_TEXT_PAIRS = ("ForSequenceClassification", "ForMultipleChoice")


def config_of(source):
    """The configuration of a module, a folder or a name; one is taken as it is."""
    if isinstance(source, torch.nn.Module):
        return getattr(source, "config", None)
    import transformers

    if isinstance(source, transformers.PretrainedConfig):
        return source
    if isinstance(source, str | os.PathLike):
        return transformers.AutoConfig.from_pretrained(os.fspath(source))
    raise TypeError(f"no model, configuration or folder of one: {type(source).__name__}")


def class_of(config, model_class=None):
    """The class to make: the one that is asked for (a class, or the name of one of transformers),
    else the one that was saved, else AutoModel."""
    import transformers

    if isinstance(model_class, str):
        found = getattr(transformers, model_class, None)
        if found is None:
            raise ValueError(f"transformers has no {model_class}")
        return found
    if model_class is not None:
        return model_class
    for name in getattr(config, "architectures", None) or ():
        found = getattr(transformers, name, None)
        if found is not None:
            return found
    return transformers.AutoModel


def make_from_config(config, model_class=None, **options):
    """A model with random weights."""
    chosen = class_of(config, model_class)
    if hasattr(chosen, "from_config"):
        return chosen.from_config(config, **options)
    return chosen._from_config(config, **options)


def make_without_data(source):
    """A module as it is; of a configuration one on the meta device, which takes no memory. Without
    a class of its own a decoder predicts tokens, as most are trained."""
    if isinstance(source, torch.nn.Module):
        return source
    import transformers

    config = config_of(source)
    chosen = class_of(config)
    if chosen is transformers.AutoModel and config in _causal_configs():
        chosen = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        return make_from_config(config, chosen)


class _causal_configs:  # noqa: N801 - a set by what it holds
    def __contains__(self, config):
        import transformers

        mapping = getattr(transformers, "MODEL_FOR_CAUSAL_LM_MAPPING", {})
        is_encoder = not getattr(config, "is_decoder", False) and config.model_type in _ENCODERS
        return type(config) in mapping and not is_encoder


_ENCODERS = ("bert", "roberta", "electra", "xlm-roberta", "camembert", "megatron-bert")


def attention_of(model):
    """The implementation of attention that a model uses; None when it has no say in it."""
    config = getattr(model, "config", None)
    return getattr(config, "_attn_implementation", None)


def arguments_of(model):
    """Names of the arguments of a model's forward; None: it takes what it is given. What stands
    for a model (torch.compile, PEFT, DistributedDataParallel) takes what the model takes."""
    while model is not None:
        taken = inspect.signature(model.forward).parameters
        if not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in taken.values()):
            return taken
        inner = next((getattr(model, n, None) for n in _INNER if getattr(model, n, None)), None)
        model = inner if isinstance(inner, torch.nn.Module) else None
    return None


_INNER = ("_orig_mod", "base_model", "model", "module")


def make_inputs(model, batch, seq, device):
    """Arguments of a training step: {name: tensor of zeros}."""
    taken = arguments_of(model) or ()
    if "input_ids" not in taken:
        raise ValueError(f"{type(model).__name__} takes no input_ids: `inputs` must be given")
    inputs = {"input_ids": torch.zeros(batch, seq, dtype=torch.long, device=device)}
    if model.training:
        inputs.update(_labels(model, taken, batch, seq, device))
    return inputs


def _labels(model, taken, batch, seq, device):
    name = type(model).__name__
    of_text = torch.zeros(batch, dtype=torch.long, device=device)
    if "start_positions" in taken:
        return {"start_positions": of_text, "end_positions": of_text.clone()}
    if "labels" not in taken:
        return {}
    if name.endswith(_TEXT_PAIRS):
        is_number = getattr(model.config, "num_labels", 2) == 1
        return {"labels": of_text.float() if is_number else of_text}
    return {"labels": torch.zeros(batch, seq, dtype=torch.long, device=device)}
