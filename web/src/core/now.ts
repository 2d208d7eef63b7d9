// The clock of the page: ages and times under way are written anew every five seconds, and every second where seconds are shown.
import { signal } from "@preact/signals";

export const now = signal(Date.now());

const EVERY_MS = 1000;

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, EVERY_MS);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) now.value = Date.now();
});
