// True on narrow screens, which get lists in place of drawings; as in the style sheet.
import { signal } from "@preact/signals";

const query = matchMedia("(max-width: 720px)");

export const narrow = signal(query.matches);

query.addEventListener("change", () => {
  narrow.value = query.matches;
});
