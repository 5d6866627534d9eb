"""What the keys do: each changes the look."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.app import SystemCommand
from textual.widgets import Input

from attncli.base import choices
from attncli.live.explorer.asking import Asking
from attncli.live.explorer.dialogs import Keys, Line
from attncli.live.explorer.keys import page_of_keys
from attncli.live.explorer.look import Look
from attncli.live.explorer.messages import Done
from attncli.live.explorer.saving import command, save

DARK, LIGHT = "textual-dark", "textual-light"
NOTHING_YET = "there is nothing to hold yet"


class Actions(Asking):
    """A screen that asks, with what its keys do."""

    # --- what is held, which needs no model ---------------------------------------------------------------

    def action_head(self, step: int) -> None:
        if self.answer is not None and self.look.head is not None:
            self.hold(head=stepped(self.answer.record.heads, self.look.head, step))

    def action_layer(self, step: int) -> None:
        if self.answer is not None and self.look.layer is not None:
            self.hold(layer=stepped(self.answer.record.layers, self.look.layer, step))

    def action_telling(self, step: int) -> None:
        """Of the heads that stand out, or differ most, the next one, with its first edge."""
        if self.answer is None:
            return
        order = self.answer.order
        here = (self.look.layer, self.look.head)
        if not order:
            self.say("no head has edges between words far above what is usual")
            return
        layer, head = stepped(order, here, step) if here in order else order[0]
        edges = [one for one in self.answer.telling if (one[0].layer, one[0].head) == (layer, head)]
        cell = {"query": edges[0][0].query, "key": edges[0][0].key} if edges and self.answer.found is None else {}
        self.hold(layer=layer, head=head, **cell)

    def action_query(self, step: int) -> None:
        if self.answer is not None and self.look.head is not None:
            queries, _ = self.look.held().sides(self.answer.record)
            self.hold(query=stepped(queries, self.look.query, step))

    def action_key(self, step: int) -> None:
        if self.answer is not None and self.look.head is not None:
            queries, keys = self.look.held().sides(self.answer.record)
            query = queries[0] if self.look.query is None else self.look.query
            self.hold(query=query, key=stepped(keys, self.look.key, step))

    def action_other_side(self) -> None:
        if self.answer is not None and self.look.key is not None and self.answer.record.key_tokens is None:
            self.hold(query=self.look.key, key=self.look.query)

    def action_let_go(self) -> None:
        if self.focused is not None:
            self.set_focus(None)
        else:
            self.hold(query=None, key=None)

    def action_special(self) -> None:
        self.hold(special=not self.look.special, query=None, key=None)

    # --- what is asked ------------------------------------------------------------------------------------

    def change(self, look: Look) -> None:
        """Ask for another look; undo returns from there."""
        self.undone.append(self.look)
        self.look = look
        self.ask()

    def action_mask(self) -> None:
        used = self.look.mask or (self.answer.record.mask_name if self.answer is not None else "padding")
        self.change(replace(self.look, mask=stepped(choices.names(choices.Mask), used, 1)))

    def action_measure(self) -> None:
        self.change(replace(self.look, measure=stepped(choices.names(choices.Measure), self.look.measure, 1)))

    def action_words(self) -> None:
        self.change(replace(self.look, words=not self.look.words, query=None, key=None))

    def action_silence(self) -> None:
        if self.look.layer is None or self.look.head is None:
            self.say(NOTHING_YET)
            return
        self.change(self.look.silenced(self.look.layer, self.look.head))

    def action_compare(self) -> None:
        if self.look.against:
            self.change(replace(self.look, against=""))
        elif self.before is None:
            self.say("there is no sentence before this one: type another (i)")
        else:
            self.change(replace(self.look, against="before"))

    def action_undo(self) -> None:
        if not self.undone:
            self.say("there is nothing to undo")
            return
        self.look = self.undone.pop()
        self.show_text()
        self.ask()

    def show_text(self) -> None:
        """The text of the look in the field, which asks for nothing."""
        with self.prevent(self.field.Changed):
            self.field.value = self.look.text.text

    def action_model(self) -> None:
        models = self.session.models
        if len(models) == 1:
            self.say("there is one model: attncli explore -m A,B opens two")
        else:
            self.choose_model(stepped(models, self.look.model, 1))

    def choose_model(self, name: str) -> None:
        self.say(f"opening {name} ...")
        self.change(replace(self.look, model=name, without=(), against="", query=None, key=None))

    def action_pair(self) -> None:
        def given(pair: str | None) -> None:
            if pair is not None:
                self.change(replace(self.look, text=self.look.text._replace(pair=pair or None)))

        self.push_screen(Line("second text (nothing: none)", self.look.text.pair or ""), given)

    @property
    def field(self) -> Input:
        """What is typed in."""
        return self.screen_stack[0].query_one("#text", Input)

    def action_type(self) -> None:
        self.field.focus()

    # --- what is kept -------------------------------------------------------------------------------------

    def action_save(self) -> None:
        def given(name: str | None) -> None:
            if not name:
                return
            path, look = Path(name).expanduser(), self.look

            def work(_: Any) -> Done:
                save(self.session, look, path, self.pad_to)
                return Done(f"saved {path}")

            self.say(f"saving {path} ...")
            self.keep(work)

        question = "save as: .png .svg .pdf (the head), .html (all heads), .safetensors .npz .json .csv (the record)"
        self.push_screen(Line(question, f"attention-{self.look.layer}.{self.look.head}.png"), given)

    def action_copy(self) -> None:
        line = command(self.look, self.session.by_name[self.look.model], self.pad_to, self.before)
        if line is None:
            self.say("the text has characters that could command a terminal: there is no line to paste")
        else:
            self.copy_to_clipboard(line)
            self.say(line)

    # --- the screen ---------------------------------------------------------------------------------------

    def action_alone(self, number: int) -> None:
        self.alone = number
        self.arrange()

    def arrange(self) -> None:
        """Which panes are seen, and where."""
        raise NotImplementedError

    def action_next_pane(self) -> None:
        if self.focused is not None:
            self.set_focus(None)
        self.action_alone((self.alone or 1) % 3 + 1)

    def action_theme(self) -> None:
        self.theme = LIGHT if self.current_theme.dark else DARK

    def action_keys(self) -> None:
        self.push_screen(Keys(page_of_keys()))

    def own_commands(self) -> Iterator[SystemCommand]:
        """What the palette offers: everything that a key does, and what has no key."""
        for title, help, action in (
            ("Type a sentence", "i", self.action_type),
            ("Next telling head", "n", lambda: self.action_telling(1)),
            ("Words or pieces", "w", self.action_words),
            ("Special tokens on or off", "s", self.action_special),
            ("Weights or norms", "v", self.action_measure),
            ("Silence the head", "x", self.action_silence),
            ("Compare with the sentence before", "=", self.action_compare),
            ("Undo", "u", self.action_undo),
            ("Second text", "P", self.action_pair),
            ("Save", "S", self.action_save),
            ("Copy the command", "y", self.action_copy),
        ):
            yield SystemCommand(title, help, action)
        for mask in choices.names(choices.Mask):
            yield SystemCommand(f"Mask: {mask}", "m", lambda mask=mask: self.change(replace(self.look, mask=mask)))
        for model in self.session.models:
            yield SystemCommand(f"Model: {model}", "M", lambda model=model: self.choose_model(model))
        for layer in [] if self.answer is None else self.answer.record.layers:
            yield SystemCommand(f"Layer: {layer}", "↑ ↓", lambda layer=layer: self.hold(layer=layer))


def stepped(these: Any, here: Any, step: int) -> Any:
    """What comes so many steps after `here`, around the ends; from nowhere the first, or the last."""
    if here not in these:
        return these[0 if step > 0 else -1]
    return these[(list(these).index(here) + step) % len(these)]
