// What is shown where a page cannot be drawn, or where its code does not load.
import { Component, type ComponentChildren } from "preact";
import { ErrorNote, Head } from "./page";

export class Boundary extends Component<{ children: ComponentChildren }, { error?: Error }> {
  override state: { error?: Error } = {};

  override componentDidCatch(error: unknown): void {
    this.setState({ error: error instanceof Error ? error : new Error(String(error)) });
  }

  override render() {
    const { error } = this.state;
    if (!error) return <>{this.props.children}</>;
    return (
      <>
        <Head title="This page cannot be shown" />
        <ErrorNote error={error} retry={() => location.reload()} again="Load the page again" />
      </>
    );
  }
}

const KEPT = "pipelined-loaded-again";
const ONCE_IN_MS = 60_000;

// After an upgrade of the daemon the hashed names of pages that were not opened yet are gone. The whole page is loaded once, which knows
// the new names; if that does not help, the boundary says what is missing.
export function loadAgainAfterUpgrade(): void {
  addEventListener("vite:preloadError", () => {
    try {
      if (Date.now() - Number(sessionStorage.getItem(KEPT) ?? 0) < ONCE_IN_MS) return;
      sessionStorage.setItem(KEPT, String(Date.now()));
    } catch {
      return; // storage is closed to this page: nothing would end the loading
    }
    location.reload();
  });
}
