"""The operator's verbs, a file for each thing that they act on."""
