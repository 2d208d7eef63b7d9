// An address that names nothing, or something that is not there any more: what it was, and what is near it.
import type { ComponentChildren } from "preact";
import { ApiError } from "../api/client";
import { name } from "../core/foreign";
import { ErrorNote, Head, Part } from "../parts/page";
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

// For a page whose object is missing (404, 410); any other error is shown as itself.
export function Gone({ error, retry, what, near }: { error: Error; retry: () => void; what: string; near?: ComponentChildren }) {
  if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 410)) {
    return (
      <>
        <Head title={what} />
        <ErrorNote error={error} retry={retry} />
      </>
    );
  }
  return (
    <>
      {error.status === 410
        ? <Head title={`${what.charAt(0).toUpperCase()}${what.slice(1)} is gone`} lead={[name(error.message)]} />
        : <Head title={`There is no ${what}`} lead={[error.message, "it was never there, was deleted, or you may not read it"]} />}
      {near ?? <Part id="near" title="What there is">{NEAR}</Part>}
    </>
  );
}
