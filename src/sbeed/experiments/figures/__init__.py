"""One module per figure: `theory` computes its rows, the others say, as data, which runs theirs come from."""
