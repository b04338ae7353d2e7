"""Neural networks: layers, optimizers, and the data that ships with the package."""
