// attncli's page: every head of a text, which assemble.js puts together.

import { assemble } from "./assemble.js";
import { readHash } from "./state.js";

assemble();
addEventListener("hashchange", readHash);
readHash();
