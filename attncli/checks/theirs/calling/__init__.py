"""How what is handed in is called: its parameters, its constructor, its weights, its arrays and its masks."""
