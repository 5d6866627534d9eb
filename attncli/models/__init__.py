"""Networks built from `attncli.attention`, and how published weights reach them.

A name becomes a directory (`hub`), its config.json a `ModelConfig` (`config`), its checkpoint (`weights`) an
`Encoder` (`encoder`); `Model` (`model`) puts them together and yields records. `reference` is the same
checkpoint in transformers, to compare with; `random` an architecture without its published weights.
"""
