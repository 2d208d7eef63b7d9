// A text as a file that the browser saves.
const KEPT_MS = 10_000; // until the browser has read it

export function download(text: string, type: string, file: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
