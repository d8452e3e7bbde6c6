"""The laboratory: every statement of the paper, checked exactly on finite MDPs with the learner's own equations."""
