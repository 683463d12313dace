"""The studies, by the names they have on the command line."""

from qlrstudy.studies import ablation, any_batch, benchmark, demo, sensitivity
from qlrstudy.studies.definition import Study

STUDIES: dict[str, Study] = {
    "demo": demo.DEMO,
    "rosenbrock": benchmark.ROSENBROCK,
    "epoch-constrained": benchmark.EPOCH_CONSTRAINED,
    "runtime-validation": benchmark.RUNTIME_VALIDATION,
    "runtime-training": benchmark.RUNTIME_TRAINING,
    "runtime-steps": benchmark.RUNTIME_STEPS,
    "penn-treebank": benchmark.PENN_TREEBANK,
    "sensitivity-rescale": sensitivity.RESCALE,
    "sensitivity-batch": sensitivity.BATCH,
    "sensitivity-damping": sensitivity.DAMPING,
    "sensitivity-damping-factors": sensitivity.DAMPING_FACTORS,
    "sensitivity-adam-batch": sensitivity.ADAM_BATCH,
    "sensitivity-adam-learning-rate": sensitivity.ADAM_LEARNING_RATE,
    "sensitivity-kfac-batch": sensitivity.KFAC_BATCH,
    "sensitivity-kfac-damping": sensitivity.KFAC_DAMPING,
    "ablation-damping": ablation.DAMPING,
    "ablation-curvature": ablation.CURVATURE,
    "ablation-epsilon": ablation.EPSILON,
    "ablation-kfac": ablation.KFAC,
    "ablation-baydin": ablation.BAYDIN,
    "any-batch": any_batch.ANY_BATCH,
}
