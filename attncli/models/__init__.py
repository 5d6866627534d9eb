"""Networks built from `attncli.attention`, and how published weights reach them.

A name becomes a directory (`hub`, and `fetched` for addresses), its config.json a `ModelConfig` (`config`) by what its
family says (`families`), its checkpoint (`weights`) a `Network` (`network`). Texts become `rows`; `walk` takes them
through the network. In every layer queries meet keys in one place (`meeting`), which offers each `block` to taps
(`taps`, `grouping`). An `Encoder` (`encoder`) holds all of these; a `Model` (`model`) is one that yields records.
`transformers_peer` is the same checkpoint in transformers, to compare with; `random` an architecture without its
published weights.
"""
