"""Elementary functions of floats in operations that every target has."""
