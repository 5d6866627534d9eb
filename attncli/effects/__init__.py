"""Change attention, and measure an output: changes, questions, answers, references and gradients."""
