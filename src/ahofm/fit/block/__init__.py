"""The block solver: staged, tempered mean-field variational Bayes by columns, with strengths that it learns."""
