"""One module for each figure. `theory` computes its rows; the others list, as data, the runs that they show."""
