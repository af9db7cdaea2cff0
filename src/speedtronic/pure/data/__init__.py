"""Where the rows of a step come from: order, cuts, packing, mixtures, positions."""
