"""record -> numbers. numpy only: a saved record is analysed without a model."""
