"""Requests that features refuse: one line that says why, and nothing is written.

Options that have no effect beside others are refused too: tests/cli/test_every_option.py tries all of them.
"""

import shlex

import pytest

TEXT = "The cat sat on the mat."
SAME = "The dog sat on the mat."
LINES = {  # @ and @@ stand for the texts
    "heatmap @ -o out.gif": ".png, .svg, .pdf, not",
    "heatmap @ -o out": "no suffix",
    "heatmap @ --scale half": "head",
    "heatmap @ --cmap virids": "viridis",
    "heatmap @ --vmax 0": "--vmax",
    "heatmap @ --dpi 1": "--dpi",
    "heatmap @ --style line": "use one of matrix, lines",
    "heatmap @ --width wide": "--width 'wide'",
    "heatmap @ --font 'DejaVu Sand'": "DejaVu Sans",
    "heatmap @ --font-size 500": "--font-size",
    "view @ -o out.pdf": ".html, .htm",
    "view @ -o out": "no suffix",
    "view @ -o missing/out.html": "can't write missing/out.html",
    "view @ --view tree": "heads, model, matrix, neuron",
    "view @ --threshold 2": "between 0 and 1",
    "view @ --mask none,future": "future",
    "view @ --query dog": "no token 'dog'",
    "view @ -l 9": "layer 9 is out of range",
    "view @ --vectors 9.9": "9",
    "view @ --segments AB": "--pair",
    "find @": "needs QUERY and KEY",
    "find": "needs QUERY and KEY",
    "find dog it @": "no token 'dog'",
    "find cat mat @ --by bogus": "use one of weight, content, logit, entropy",
    "find cat mat @ -l 9": "out of range",
    "find cat mat @ -o a.png": ".json",
    "explain @ --query zebra": "no token 'zebra' in the text",
    "explain @ --query the#3": "'the' occurs 2 times",
    "explain @ --query 99": "token 99 is out of range: tokens are 0 to 8",
    "explain @ -l 0,1": "one layer is needed, not 2",
    "explain @ -H all": "one head is needed, not 12",
    "explain @ -l 6": "layer 6 is out of range",
    "explain @ --mask x": "no mask 'x'",
    "explain @ -o row.txt": "the row is saved as",
    "run @ -o maps.png": "not '.png'; attncli heatmap draws maps",
    "find a b @ -o heads.html": "not '.html'; attncli view makes a page of maps",
    "explain @ --target cat": "--target is for encoder-decoders",
    "flow @ --method rollin": "no method 'rollin'",
    "flow @ --measure length": "no measure 'length': use one of weight, norm",
    "flow @ -l 6": "layer 6 is out of range",
    "flow @ --query dog": "no token 'dog' in the text",
    "flow @ -o flow.txt": "the flow is saved as",
    "diff @": "give two saved records, two texts, or one text with --models",
    "diff @ @@ --masks none,causal": "differ in one respect",
    "diff @ --masks none,causal --models minilm,minilm": "differ in one respect",
    "diff @ --masks causal": "--masks takes two names separated by a comma, as in A,B; got 'causal'",
    "diff @ --masks none,all": "no mask 'all'",
    "diff @ 'A cat.'": "9 tokens and the other 5",
    "diff maps.npz other.npz": "can't read maps.npz",
    "diff maps.npz @": "give two files",
    "diff @ --measures weight,length": "no measure 'length'",
    "diff @ @@ -o diff.txt": "a difference is saved as",
    "mechanisms @ --temperature 0": "--temperature must be from 0.001 to 1000, got 0;",
    "mechanisms @ --temperature nan": "--temperature must be from 0.001 to 1000, got nan",
    "mechanisms @ --seed -1": "--seed",
    "mechanisms @ -H 12": "head 12 is out of range",
    "mechanisms @ -o maps.txt": "the result is saved as",
    "cut @ --cut cat dog": "no token 'dog' in the text: it has",
    "cut @ --cut cat mat --mask causal": "no edge from 'cat' to 'mat' can be cut",
    "cut @ --cut sat cat -l 3 --each-layer": "--each-layer has no effect on one layer (3)",
    "patch @": "patch needs two texts",
    "patch @ 'A dog.'": "the first text has 9 tokens and the second 5",
    "patch @ @": "0 for the first text and 0 for the second; the difference is too small to divide by",
    "patch @ @ --similar-to 'a dog'": "for the second; the difference is too small to divide by",
    "patch @ @@ --by word": "no by 'word': use one of head, layer, token",
    "patch @ @@ --target cat": "predicts nothing for this text",
    "similar @": "needs two texts",
    "similar @ @@ -f lines.txt": "both texts and --file",
    "similar -f lines.txt --apart 0,3": "text 3",
    "similar -f lines.txt --apart 1": "--apart takes two texts",
    "similar @ ' '": "empty",
    "trust -f lines.txt": "give one as TEXT",
    "trust cat": "needs 2 tokens that can be deleted, and this text has 1",
    "generate -m minilm @": "minilm writes no text",
    "align '  '": "1 to 64 characters, not 0",
    "align '3 March 2021' --attention location": "use one of additive, dot, general, concat, transformer",
    "align '3 March 2021' -o date.txt": "an alignment is saved as",
    "align '3 March 2021' --attention transformer -o a.npz": ".npz holds one text, but there are 3",
}


@pytest.mark.parametrize("line", LINES)
def test_one_line_says_why(refused, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text(f"{TEXT}\n{SAME}\n", encoding="utf-8")
    words = [{"@": TEXT, "@@": SAME}.get(word, word) for word in shlex.split(line)]
    said = refused(*words)
    assert LINES[line] in said and len(said) <= 400
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]
