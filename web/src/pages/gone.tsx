// An address that names nothing, or something that is not there any more: what it was, and what is near it.
import type { ComponentChildren } from "preact";
import { ApiError } from "../api/client";
import { name } from "../core/foreign";
import type { Loaded } from "../core/load";
import { Content, ErrorNote, Head, Part, Skeleton } from "../parts/page";
import { To } from "../parts/words";

const NEAR = (
  <ul class="rows panel">
    <li><To class="main" place={{ page: "home" }}>What runs and what needs somebody</To></li>
    <li><To class="main" place={{ page: "runs" }}>All runs</To></li>
    <li><To class="main" place={{ page: "data" }}>All repos</To></li>
    <li><To class="main" place={{ page: "pipelines" }}>All pipelines</To></li>
  </ul>
);

export function NothingHere({ path }: { path: string }) {
  return (
    <>
      <Head title="There is nothing at this address" lead={[<code>{name(path)}</code>]} />
      <Part id="near" title="What there is">{NEAR}</Part>
    </>
  );
}

const NOT_HERE = [403, 404, 410];

const isNotHere = (error: Error | undefined): boolean => error instanceof ApiError && NOT_HERE.includes(error.status);

// The page of an object: what was shown goes when the object goes, or the right to read it; after any other error it stays below a note.
export function Existing<T>({ of, what, rows = 8, children }: { of: Loaded<T>; what: string; rows?: number; children: (data: T) => ComponentChildren }) {
  if (of.error && (of.data === undefined || isNotHere(of.error))) return <Gone error={of.error} retry={of.reload} what={what} />;
  return of.data === undefined ? <Skeleton rows={rows} /> : <Content of={of}>{children}</Content>;
}

function titleOf(status: number, what: string): string {
  if (status === 403) return `You may not read this: ${what}`;
  return status === 410 ? `${what.charAt(0).toUpperCase()}${what.slice(1)} is gone` : `There is no ${what}`;
}

// For a page whose object is missing (404, 410) or may not be read (403); any other error is shown as itself.
export function Gone({ error, retry, what, near }: { error: Error; retry: () => void; what: string; near?: ComponentChildren }) {
  if (!(error instanceof ApiError) || !isNotHere(error)) {
    return (
      <>
        <Head title={what} />
        <ErrorNote error={error} retry={retry} />
      </>
    );
  }
  return (
    <>
      <Head title={titleOf(error.status, what)} lead={[name(error.message), error.status === 404 ? "it was never there, was deleted, or you may not read it" : null]} />
      {near ?? <Part id="near" title="What there is">{NEAR}</Part>}
    </>
  );
}
