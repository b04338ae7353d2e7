"""From a tensor graph to kernels: movement becomes index arithmetic, values are fused by cost, kernels cut out."""
