"""Operators that nothing here is compared with, and why."""

from table import without

without(
    "random numbers: another generator's are others; tests/operator holds them to their distributions and streams",
    "random_uniform",
    "random_normal",
    "random_randint",
    "random_bernoulli",
    "random_exponential",
    "random_gamma",
    "random_beta",
    "random_poisson",
    "random_laplace",
    "random_gumbel",
    "random_truncated_normal",
    "sample_gamma",
    "sample_poisson",
    "sample_categorical",
    "random_permutation",
    "random_choice",
    "sample_multinomial",
)
without("its bodies are traced programs, which the C interface does not make", "foreach", "while_loop", "cond")
without("moves an array between devices, its elements stay", "to")
without(
    "a rule of MXNet or of a paper that PyTorch does not have; tests/operator holds it to its formula",
    "ftrl_update",
    "signum_update",
    "ftml_update",
    "sgld_update",
    "dcasgd_update",
    "lars_update",
    "lamb_update",
    "adabelief_update",
    "group_adagrad_update",
    "lans_update",
    "lbsgd_update",
)
without("PyTorch reckons its edges in the array's own type; tests/operator holds it to numpy.histogram's rules", "histogram")
without("made of topk, which is compared", "topk_mask")
without("NumPy's, which PyTorch does not have; tests/operator holds it to literal values", "interp")
