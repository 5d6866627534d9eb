// The page of `attncli view`: every head of a text. assemble.js puts the parts together.

import { assemble } from "./assemble.js";
import { readHash } from "./state.js";

assemble();
addEventListener("hashchange", readHash);
readHash();
