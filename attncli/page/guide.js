// "How to read this": a folded guide that the user can close for good.

const CLOSED = "attncli-guide-closed";

const guide = document.getElementById("guide");

/** Show the guide, unless it was closed for good. */
export function makeGuide() {
  guide.hidden = remembered();
  document.getElementById("close-guide").addEventListener("click", () => {
    guide.hidden = true;
    remember();
  });
}

function remembered() {
  try {
    return localStorage.getItem(CLOSED) !== null;
  } catch {
    return false; // a page in a frame has no storage
  }
}

function remember() {
  try {
    localStorage.setItem(CLOSED, "yes");
  } catch {
    // without storage the next page shows the guide again
  }
}
