"""What is said of heads that find syntactic heads."""

from attncli.render.captions.probe import percent, title


def test_a_relation_that_the_test_has_not_has_no_accuracy():
    assert percent(None) == "-" and percent(2 / 3) == "66.7%" and percent(1) == "100.0%"


def test_the_title_warns_where_heads_are_chosen_and_measured_on_the_same_sentences():
    treebank = {"path": "a.conllu", "sentences": 40}
    document = {"model": {"name": "minilm"}, "partial": False, "treebank": treebank, "test": None}
    assert "looks better than it is" in title(document)
    document["test"] = {"path": "b.conllu", "sentences": 7}
    assert title(document).endswith("measured on 7 sentences of b.conllu")
    document["test"]["sentences"] = 1
    assert title(document).endswith("measured on 1 sentence of b.conllu")


def test_the_title_has_the_folders_of_files_or_not():
    treebank = {"path": "/of/me/a.conllu", "sentences": 40}
    document = {"model": {"name": "minilm"}, "partial": False, "treebank": treebank, "test": treebank}
    assert title(document).count("/of/me/a.conllu") == 2
    assert (
        title(document, folders=False)
        == "minilm · heads chosen on 40 sentences of a.conllu\nmeasured on 40 sentences of a.conllu"
    )
    assert treebank["path"] == "/of/me/a.conllu"


def test_the_title_says_first_that_figures_are_partial():
    treebank = {"path": "a.conllu", "sentences": 4}
    document = {"model": {"name": "minilm"}, "partial": True, "treebank": treebank, "test": None}
    assert title(document).startswith("PARTIAL · minilm · heads chosen on 4 sentences of a.conllu\n")
