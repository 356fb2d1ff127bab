"""Categories of regions, counters and markers that reports and filters know by name.

Any other text is a category too.
"""

MODEL_INFERENCE = "model_inference"
FORWARD_PASS = "forward_pass"
BACKWARD_PASS = "backward_pass"
OPTIMIZER_STEP = "optimizer_step"
LOSS_COMPUTATION = "loss_computation"
DATA_LOADING = "data_loading"
DATA_PREPROCESSING = "data_preprocessing"
MEMORY_TRANSFER = "memory_transfer"
MEMORY_USAGE = "memory_usage"
MIXED_PRECISION = "mixed_precision"
MODEL_COMPILATION = "model_compilation"
TRAINING_LOOP = "training_loop"
VALIDATION = "validation"
TOKENIZATION = "tokenization"
TEXT_PREPROCESSING = "text_preprocessing"
MODEL_BENCHMARKING = "model_benchmarking"
SYNCHRONIZATION = "synchronization"
COMMUNICATION = "communication"
CUSTOM = "custom"

ALL = tuple(value for name, value in list(globals().items()) if name.isupper())
