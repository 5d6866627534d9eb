"""What a checkpoint can say of a text: class labels, token labels, spans, words, an embedding.

`finding` says which of these a checkpoint has, by its tensors and what its files say of them, and never by a name. A
head is built (`head`) of what the family says that it is made of (`attncli.models.families.heads`), a sentence
embedding of what modules.json says (`sentence`). Either is an `Output` (`output`), a function of the last hidden
states; `predicting` puts texts to it, and `answers` picks the best of what it gives.
"""
