// Sign in with a token, or by the one-time link of `pipelinectl open`. The page that was asked for comes after it.
import { useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { session, signIn } from "../core/session";
import { Icon } from "../parts/icons";
import { Command } from "../parts/words";

function messageOf(error: unknown): string {
  if (error instanceof ApiError && error.status === 401) return "This token is not known or has expired.";
  return error instanceof Error ? error.message : String(error);
}

export function SignInForm({ enter }: { enter: (token: string) => Promise<void> }) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const token = String(new FormData(event.currentTarget as HTMLFormElement).get("token") ?? "").trim();
    setBusy(true);
    setError("");
    try {
      await enter(token);
    } catch (failed) {
      setError(messageOf(failed));
      setBusy(false);
    }
  };
  return (
    <form class="stack" onSubmit={(event) => void submit(event)}>
      <label class="field"><b>Token</b>
        <input name="token" type="password" autocomplete="off" required aria-describedby="token-error" {...(error ? { "aria-invalid": true } : {})} />
      </label>
      <p id="token-error" role="alert" class="down">{error && <><Icon of="failed" /> {error}</>}</p>
      <button class="btn main" disabled={busy}>Sign in</button>
    </form>
  );
}

export function Login({ to, linkFailed }: { to: string; linkFailed: boolean }) {
  const ended = session.value.state === "out" && session.value.ended;
  return (
    <div class="center">
      <h1>{ended ? "Your session has ended: sign in again" : to === "/" ? "Sign in" : "Sign in to see the page that you asked for"}</h1>
      {linkFailed && <p role="alert" class="panel pad"><Icon of="waiting" class="state waiting" /> This link was used already or is older than five minutes: make a new one.</p>}
      <SignInForm enter={(token) => signIn(token, to)} />
      <section aria-labelledby="h-open">
        <h2 id="h-open">Or in a terminal</h2>
        <p class="muted">It opens this page, signed in.</p>
        <Command text="pipelinectl open" />
      </section>
    </div>
  );
}
