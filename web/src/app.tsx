// Chooses the page by the address. Pages other than the start are loaded when they are first opened.
import { type ComponentType, Suspense, lazy } from "preact/compat";
import { useEffect, useRef } from "preact/hooks";
import { useBrowserLocation, useSearch } from "wouter-preact/use-browser-location";
import { belowBase, ownPath, pathOf, placeOf, type Place, titleOf } from "./core/places";
import { askWho, session, signInHere } from "./core/session";
import { Boundary } from "./parts/boundary";
import { Frame } from "./parts/frame";
import { Skeleton } from "./parts/page";
import { Home } from "./pages/home";
import { Login, SignInForm } from "./pages/login";
import { Dialog } from "./parts/dialog";
import { NothingHere } from "./pages/gone";

const page = (load: () => Promise<ComponentType<any>>) => lazy(async () => ({ default: await load() }));

const Runs = page(async () => (await import("./pages/runs")).Runs);
const Run = page(async () => (await import("./pages/run")).RunPage);
const Job = page(async () => (await import("./pages/job")).JobPage);
const Log = page(async () => (await import("./pages/log")).LogPage);
const Data = page(async () => (await import("./pages/data")).Data);
const Repo = page(async () => (await import("./pages/repo")).RepoPage);
const Files = page(async () => (await import("./pages/files")).FilesPage);
const Diff = page(async () => (await import("./pages/diff")).DiffPage);
const RunDiff = page(async () => (await import("./pages/rundiff")).RunDiffPage);
const Why = page(async () => (await import("./pages/why")).WhyPage);
const Pipelines = page(async () => (await import("./pages/pipelines")).Pipelines);
const Pipeline = page(async () => (await import("./pages/pipeline")).PipelinePage);
const Metrics = page(async () => (await import("./pages/metrics")).MetricsPage);
const Check = page(async () => (await import("./pages/check")).CheckPage);
const Gpus = page(async () => (await import("./pages/gpus")).GpusPage);

function Page({ place, query }: { place: Place; query: URLSearchParams }) {
  switch (place.page) {
    case "home":
    case "login":
      return <Home query={query} />;
    case "runs":
      return <Runs query={query} />;
    case "run":
      return <Run {...place} query={query} />;
    case "job":
      return <Job {...place} query={query} />;
    case "log":
      return <Log {...place} query={query} />;
    case "data":
      return <Data query={query} />;
    case "repo":
      return <Repo {...place} />;
    case "files":
      return <Files project={place.project} repo={place.repo} ref_={place.ref} path={place.path} query={query} />;
    case "diff":
      return <Diff {...place} query={query} />;
    case "rundiff":
      return <RunDiff {...place} />;
    case "why":
      return <Why project={place.project} repo={place.repo} ref_={place.ref} path={place.path} query={query} />;
    case "pipelines":
      return <Pipelines query={query} />;
    case "pipeline":
      return <Pipeline {...place} query={query} />;
    case "check":
      return <Check />;
    case "gpus":
      return <Gpus query={query} />;
    case "metrics":
      return <Metrics {...place} query={query} />;
    case "nothing":
      return <NothingHere path={place.path} />;
  }
}

// After a page change the link that was followed is gone, and with it the focus: the heading takes it as soon as there is one, and
// again if it is drawn anew, until a key or the pointer says where to go.
function headingTakesFocus(): () => void {
  const look = () => {
    const has = document.activeElement;
    if (has === null || has === document.body || has.closest("header.top nav")) document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  };
  const observer = new MutationObserver(look);
  const stop = () => {
    observer.disconnect();
    removeEventListener("keydown", stop, true);
    removeEventListener("pointerdown", stop, true);
  };
  observer.observe(document.body, { childList: true, subtree: true });
  addEventListener("keydown", stop, true);
  addEventListener("pointerdown", stop, true);
  look();
  return stop;
}

export function App() {
  const [path] = useBrowserLocation();
  const query = new URLSearchParams(useSearch());
  // the raw path: a decoded one could not tell "/" from "%2F" in a name
  const place = placeOf(belowBase(location.pathname) ?? "/");
  const here = (belowBase(location.pathname) ?? "/") + location.search;

  const opened = useRef(false);
  useEffect(() => {
    document.title = titleOf(place);
    scrollTo(0, 0);
    if (opened.current) return headingTakesFocus();
    opened.current = true;
    return undefined;
  }, [path]);

  const now = session.value;
  if (now.state === "asking") return <main class="page" id="main" aria-busy="true" />;
  if (now.state === "unreachable") {
    return (
      <main class="center" id="main">
        <h1>The daemon does not answer</h1>
        <p class="muted">{now.error}</p>
        <p><button type="button" class="btn" onClick={() => void askWho()}>Try again</button></p>
      </main>
    );
  }
  const signedOut = now.state === "out";
  if (signedOut && !now.ended) {
    const to = place.page === "login" ? ownPath(query.get("to")) : here;
    return <main class="page" id="main"><Login to={to} linkFailed={place.page === "login" && query.has("token")} /></main>;
  }
  return (
    <Frame place={place}>
      <Boundary key={pathOf(place)}><Suspense fallback={<Skeleton />}><Page place={place} query={query} /></Suspense></Boundary>
      {signedOut && (
        <Dialog title="Your session has ended: sign in again" close={() => {}}><SignInForm enter={signInHere} /></Dialog>
      )}
    </Frame>
  );
}
