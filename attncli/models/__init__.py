"""Networks built from `attncli.attention`, and the loading of published weights.

`hub` resolves a name to a directory, fetching addresses. `config` reads its config.json as a `ModelConfig`, according
to its family (`families`). `weights` reads the checkpoint into a `Network` (`network`). `rows` arranges texts, and
`walk` runs them through the network. In every layer, queries meet keys in one place (`meeting`), which offers each
`block` to taps (`taps`, `grouping`). An `Encoder` (`encoder`) holds all of these. A `Model` (`model`) also yields
records. `transformers_peer` loads the same checkpoint in transformers for comparison. `random` builds an architecture
without its published weights.
"""
